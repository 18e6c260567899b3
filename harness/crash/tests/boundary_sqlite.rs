//! The same task on SQLite, in a real process that is aborted before and after every commit.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{
    path::Path,
    process::{Command, Output},
};

use steadfast_crash::{
    Ledger,
    everything::{self, Finale},
};

fn victim(dir: &Path, finale: &str, life: u32, die: Option<String>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
    command
        .arg("--store")
        .arg(dir.join("store.db"))
        .arg("--ledger")
        .arg(dir.join("ledger"))
        .args(["--life", &life.to_string(), "--everything", finale]);
    if let Some(die) = die {
        command.args(["--die", &die]);
    }
    command.output().unwrap()
}

/// `commits status output` of a life that went to the end.
fn ended(output: &Output, what: &str) -> (u64, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {:?} {text} {errors}", output.status);
    let (commits, rest) = text.trim().split_once(' ').unwrap();
    (commits.parse().unwrap(), rest.to_owned())
}

fn check_end(end: &str, finale: Finale, what: &str) {
    match finale {
        Finale::Complete => {
            let rest = end.strip_prefix("completed \"").and_then(|e| e.split_once(' ')).unwrap().1;
            assert_eq!(rest, "7 true in-child activity 1\"", "{what}");
        }
        Finale::Fail => assert_eq!(end, "failed -", "{what}"),
        Finale::Cancelled => assert_eq!(end, "cancelled -", "{what}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn recorded(dir: &Path) -> std::collections::BTreeSet<String> {
    if !dir.join("store.db").exists() {
        return Default::default();
    }
    let store = steadfast_sqlite::Options::new(dir.join("store.db")).open().unwrap();
    everything::recorded(&store).await.unwrap()
}

fn effects(dir: &Path) -> std::collections::BTreeMap<String, u32> {
    everything::effects(&Ledger::read(&dir.join("ledger")).unwrap())
}

fn sweep(name: &str, finale: Finale) {
    let whole = tempfile::tempdir().unwrap();
    let (commits, end) = ended(&victim(whole.path(), name, 1, None), "without a crash");
    check_end(&end, finale, "without a crash");
    assert!(commits > 15, "the sweep covers something: {commits}");
    for number in 1..=commits {
        for side in ["before", "after"] {
            let what = format!("{name}, {side} commit {number} of {commits}");
            let dir = tempfile::tempdir().unwrap();
            let dead = victim(dir.path(), name, 1, Some(format!("{side}:{number}")));
            let recorded = recorded(dir.path());
            let before = effects(dir.path());
            // How many commits there are depends on timing: a life may end before the one meant.
            let died = !dead.status.success();
            let (_, end) = ended(&victim(dir.path(), name, 2, None), &what);
            check_end(&end, finale, &what);
            let expected = everything::expected(&before, &recorded, finale);
            assert_eq!(effects(dir.path()), expected, "{what} (died: {died})");
        }
    }
}

#[test]
fn effects_are_exact_when_a_process_whose_task_completes_is_aborted_at_any_commit() {
    sweep("complete", Finale::Complete);
}

#[test]
fn effects_are_exact_when_a_process_whose_task_fails_is_aborted_at_any_commit() {
    sweep("fail", Finale::Fail);
}

#[test]
fn effects_are_exact_when_a_process_whose_task_is_cancelled_is_aborted_at_any_commit() {
    sweep("cancelled", Finale::Cancelled);
}
