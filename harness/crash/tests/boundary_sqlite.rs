//! The same task on SQLite, in a real process that is aborted before and after every commit.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

mod sweep;

use steadfast_crash::{Place, everything::Finale};
use sweep::{Ground, Kind, sweep};

struct Sqlite;

impl Kind for Sqlite {
    fn ground(&self) -> Ground {
        let dir = tempfile::tempdir().unwrap();
        Ground { place: Place::file(&dir.path().join("store.db")), dir }
    }
}

#[test]
fn effects_are_exact_when_a_process_whose_task_completes_is_aborted_at_any_commit() {
    sweep(&Sqlite, "complete", Finale::Complete);
}

#[test]
fn effects_are_exact_when_a_process_whose_task_fails_is_aborted_at_any_commit() {
    sweep(&Sqlite, "fail", Finale::Fail);
}

#[test]
fn effects_are_exact_when_a_process_whose_task_is_cancelled_is_aborted_at_any_commit() {
    sweep(&Sqlite, "cancelled", Finale::Cancelled);
}
