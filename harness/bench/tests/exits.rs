//! How the program ends when there are no figures to be proud of. A missed bound is the same kind of error.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::process::Command;

fn fails(args: &[&str]) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_steadfast-bench")).args(args).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    String::from_utf8(ended.stderr).unwrap()
}

#[test]
fn what_measures_nothing_fails() {
    for what in ["engine", "http", "streams"] {
        let on_disk = env!("CARGO_MANIFEST_DIR");
        let says = fails(&[what, "--quick", "--only", "no such part", "--dir", on_disk]);
        assert!(says.starts_with("bench: nothing was measured"), "{says}");
    }
}

/// Where a flush costs nothing, whatever is measured.
#[test]
fn memory_is_no_disk() {
    for what in ["engine", "http", "streams", "postgres"] {
        let says = fails(&[what, "--quick", "--only", "no such part", "--dir", "/dev/shm"]);
        assert!(says.starts_with("bench: /dev/shm is in memory"), "{says}");
    }
}
