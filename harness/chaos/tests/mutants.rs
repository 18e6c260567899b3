//! The checks can fail: a few seconds with something wrong on purpose are reported.

#![allow(clippy::unwrap_used)]

use std::{
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Two at a time: each is fifty clients, and keeps a processor busy.
static PLACES: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Runs with this mutant, and sees that it is reported in these words: some show only where a fault falls
/// at the right moment, and a few seconds may have none there.
fn is_reported(mutant: &str, words: &str) {
    is_reported_of(mutant, &["--seconds", "5"], words);
}

/// The same with three replicas on PostgreSQL.
fn is_reported_of_replicas(mutant: &str, words: &str) {
    is_reported_of(mutant, &["--replicas", "3", "--seconds", "8"], words);
}

fn is_reported_of(mutant: &str, flags: &[&str], words: &str) {
    let place = &PLACES[NEXT.fetch_add(1, Ordering::Relaxed) % PLACES.len()];
    let _place = place.lock().unwrap_or_else(PoisonError::into_inner);
    let mut said = String::new();
    for seed in ["2", "3", "4", "5", "6", "7"] {
        let dir = tempfile::tempdir().unwrap();
        let ran = Command::new(env!("CARGO_BIN_EXE_chaos"))
            .args(flags)
            .args(["--seed", seed, "--mutant", mutant, "--dir"])
            .arg(dir.path().join("run"))
            .output()
            .unwrap();
        said = String::from_utf8_lossy(&ran.stdout).into_owned();
        if !ran.status.success() && said.contains(words) {
            assert!(
                said.contains(&format!("with seed {seed}")),
                "it can't be tried again:\n{said}"
            );
            return;
        }
    }
    panic!("{mutant} was not seen:\n{said}");
}

#[test]
fn a_step_that_takes_effect_twice() {
    is_reported("twice", "b took effect 2 times in life");
}

#[test]
fn a_recorded_step_that_runs_again_in_a_later_life() {
    is_reported("again", "after it was recorded");
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
fn a_call_that_goes_on_though_it_was_taken_back() {
    is_reported("deaf", "after it was taken back");
}

#[test]
fn a_change_that_a_listener_never_hears_of() {
    is_reported("silent", "changes, and heard of");
}

#[test]
fn an_answer_of_another_call() {
    is_reported("wrong", "is wrong");
}

#[test]
fn a_message_that_comes_twice() {
    is_reported("forgets", "came twice");
}

/// What a replica writes that stood still for longer than its lease counts.
#[test]
fn a_fence_that_is_open() {
    is_reported_of_replicas("unfenced", "is not once in the history");
}

/// What a replica has that is well is taken from it.
#[test]
fn a_replica_that_is_buried_alive() {
    is_reported_of_replicas("adopted", " lives");
}

#[test]
fn an_answer_that_is_acknowledged_and_dropped() {
    is_reported_of_replicas("dropped", "its client can come back, and has no answer");
}
