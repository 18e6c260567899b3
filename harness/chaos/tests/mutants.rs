//! The checks can fail: a few seconds with something wrong on purpose are reported.

#![allow(clippy::unwrap_used)]

use std::{
    process::Command,
    sync::{Mutex, PoisonError},
};

/// One after the other: each is fifty clients.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs with this mutant, and sees that it is reported in these words.
fn is_reported(mutant: &str, words: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["--seconds", "5", "--seed", "2", "--mutant", mutant, "--dir"])
        .arg(dir.path().join("run"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(!ran.status.success(), "{mutant} was not seen:\n{said}");
    assert!(said.contains(words), "{mutant} was not seen as such:\n{said}");
    assert!(said.contains("with seed 2"), "{mutant}: it can't be tried again:\n{said}");
}

#[test]
fn a_step_that_takes_effect_twice() {
    is_reported("twice", "b took effect 2 times in life");
}

#[test]
fn a_call_that_is_left_half_done() {
    is_reported("left", "is left half done");
}

#[test]
fn a_call_that_goes_on_without_its_client() {
    is_reported("unbound", "after its connection was closed");
}

#[test]
fn an_answer_of_another_call() {
    is_reported("wrong", "is wrong");
}

#[test]
fn a_message_that_comes_twice() {
    is_reported("forgets", "came twice");
}
