//! Rows of an author's and the record of the step that wrote them, in a real process that is aborted in a
//! transaction before its SQL and behind it, before its commit and when it is durable but not answered: both
//! are there, or neither, and in the end once.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::process::{Command, Output};

use steadfast_crash::{
    Place,
    booking::{self, BOOKED},
};
use tempfile::TempDir;

struct Ground {
    place: Place,
    dir: TempDir,
}

fn victim(ground: &Ground, life: u32, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_victim"))
        .args(ground.place.flags())
        .arg("--ledger")
        .arg(ground.dir.path().join("ledger"))
        .args(["--life", &life.to_string(), "--booking"])
        .args(flags)
        .output()
        .unwrap()
}

/// A life that went to the end says `commits status output`.
fn ended(output: &Output, what: &str) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {:?} {text} {errors}", output.status);
    assert!(text.contains(" completed "), "{what}: {text}");
}

/// What is recorded is what is there.
#[tokio::main(flavor = "current_thread")]
async fn agree(ground: &Ground, what: &str) -> Vec<String> {
    let rows = booking::rows(&ground.place).await.unwrap();
    let store = ground.place.open().await.unwrap();
    let recorded = booking::recorded(&*store).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(rows, recorded, "{what}");
    rows
}

/// One life that dies when it has committed this many transactions, and one that finishes.
fn die(ground: &Ground, flags: &[&str], died: &dyn Fn(&Ground), done: usize) {
    let what = flags.join(" ");
    let dead = victim(ground, 1, flags);
    assert!(!dead.status.success(), "{what}: it was to die");
    assert_eq!(agree(ground, &what), BOOKED[..done], "{what}");
    died(ground);
    ended(&victim(ground, 2, &[]), &what);
    assert_eq!(agree(ground, &what), BOOKED, "{what}");
}

fn sweep(new: &dyn Fn() -> Ground, died: &dyn Fn(&Ground)) {
    let whole = new();
    ended(&victim(&whole, 1, &[]), "without a crash");
    assert_eq!(agree(&whole, "without a crash"), BOOKED);
    for (done, name) in BOOKED.into_iter().enumerate() {
        let number = done + 1;
        die(&new(), &["--stop", &format!("before-sql:{name}")], died, done);
        die(&new(), &["--stop", &format!("after-sql:{name}")], died, done);
        die(&new(), &["--die", &format!("before:{number}")], died, done);
        die(&new(), &["--die", &format!("after:{number}")], died, number);
    }
}

#[test]
fn rows_and_records_agree_on_sqlite_whatever_dies_when() {
    let new = || {
        let dir = tempfile::tempdir().unwrap();
        Ground { place: Place::file(&dir.path().join("store.db")), dir }
    };
    sweep(&new, &|_| {});
}

#[test]
fn rows_and_records_agree_on_postgres_whatever_dies_when() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let last = std::cell::Cell::new(0);
    let new = || {
        last.set(last.get() + 1);
        let server = steadfast_postgres::testing::shared().unwrap();
        let place = Place { store: server.url(), schema: Some(format!("booked_{}", last.get())) };
        runtime.block_on(booking::make_table(&place)).unwrap();
        Ground { place, dir: tempfile::tempdir().unwrap() }
    };
    // The time of its lease goes by, without waiting for it.
    let died = |ground: &Ground| {
        let options = ground.place.postgres().unwrap();
        let over = "UPDATE desk SET until = '-infinity'";
        runtime.block_on(steadfast_postgres::testing::sql(&options, over)).unwrap();
    };
    sweep(&new, &died);
}
