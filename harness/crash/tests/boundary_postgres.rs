//! The same task on PostgreSQL, in a real process that is aborted before and after every commit.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

mod sweep;

use steadfast_crash::{Place, everything::Finale};
use sweep::{Ground, Kind, sweep};

struct Postgres;

impl Kind for Postgres {
    fn ground(&self) -> Ground {
        static LAST: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let server = steadfast_postgres::testing::shared().unwrap();
        let place = Place { store: server.url(), schema: Some(format!("sweep_{number}")) };
        Ground { place, dir: tempfile::tempdir().unwrap() }
    }

    /// The time of its lease goes by, without waiting for it.
    fn died(&self, ground: &Ground) {
        let options = ground.place.postgres().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let over = "UPDATE desk SET until = '-infinity'";
        runtime.block_on(steadfast_postgres::testing::sql(&options, over)).unwrap();
    }
}

#[test]
fn effects_are_exact_when_a_process_whose_task_completes_is_aborted_at_any_commit() {
    sweep(&Postgres, "complete", Finale::Complete);
}

#[test]
fn effects_are_exact_when_a_process_whose_task_fails_is_aborted_at_any_commit() {
    sweep(&Postgres, "fail", Finale::Fail);
}

#[test]
fn effects_are_exact_when_a_process_whose_task_is_cancelled_is_aborted_at_any_commit() {
    sweep(&Postgres, "cancelled", Finale::Cancelled);
}
