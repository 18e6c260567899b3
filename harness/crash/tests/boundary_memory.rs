//! A task with every durable operation in it, killed before and after every commit, in memory.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{sync::Arc, time::Duration};

use steadfast_crash::{
    At, Bent, Ledger,
    everything::{self, Finale},
};
use steadfast_engine::{Engine, Principal, Simulated, Status, TaskInfo, Timestamp};
use steadfast_store::{Disk, Store};
use tokio::sync::Notify;

struct World {
    disk: Disk,
    begun: tokio::time::Instant,
    finale: Finale,
}

impl World {
    fn new(finale: Finale) -> World {
        World { disk: Disk::new(), begun: tokio::time::Instant::now(), finale }
    }

    fn engine(&self, store: Arc<dyn Store>, ledger: &Ledger) -> Engine {
        let epoch = Timestamp(1_800_000_000_000).plus(self.begun.elapsed());
        let world = Simulated::new(epoch, u64::from(ledger.life()));
        everything::tools(Engine::builder(store).world(world), ledger).start()
    }

    /// A life that goes to the end.
    async fn live(&self, store: Arc<dyn Store>, ledger: &Ledger) -> TaskInfo {
        let engine = self.engine(store, ledger);
        let tasks = engine.tasks(Principal::new("ada").unwrap());
        let play = everything::play(&tasks, self.finale);
        let day = Duration::from_secs(86_400);
        let end = tokio::time::timeout(day, play).await.expect("it hangs").unwrap();
        let quiet = |info: &TaskInfo| {
            !matches!(info.compensation, Some(steadfast_engine::Compensation::Running { .. }))
        };
        let cleaned = tasks.wait_for(&end.id, |info| {
            let undone = self.finale == Finale::Complete || info.compensation.is_some();
            undone && quiet(info)
        });
        let end =
            tokio::time::timeout(day, cleaned).await.expect("it is never cleaned up").unwrap();
        engine.shutdown(Duration::from_secs(5)).await;
        end
    }
}

fn check_end(end: &TaskInfo, finale: Finale, what: &str) {
    match finale {
        Finale::Complete => {
            assert_eq!(end.status, Status::Completed, "{what}: {end:?}");
            let output: String = end.output.as_ref().unwrap().read().unwrap();
            let rest = output.split_once(' ').unwrap().1;
            assert_eq!(rest, "7 true in-child activity 1", "{what}");
        }
        Finale::Fail => assert_eq!(end.status, Status::Failed, "{what}: {end:?}"),
        Finale::Cancelled => assert_eq!(end.status, Status::Cancelled, "{what}: {end:?}"),
    }
}

async fn sweep(finale: Finale) {
    let whole = World::new(finale);
    let ledger = Ledger::in_memory();
    let counting = Arc::new(Bent::new(Arc::new(whole.disk.open())));
    let end = whole.live(counting.clone(), &ledger).await;
    check_end(&end, finale, "without a crash");
    let commits = counting.commits();
    assert!(commits > 15, "the sweep covers something: {commits}");
    for number in 1..=commits {
        for at in [At::Before, At::After] {
            let what = format!("{finale:?}, {at:?} commit {number} of {commits}");
            one_crash(finale, number, at, &what).await;
        }
    }
}

async fn one_crash(finale: Finale, number: u64, at: At, what: &str) {
    let world = World::new(finale);
    let ledger = Ledger::in_memory();
    let memory = Arc::new(world.disk.open());
    let died = Arc::new(Notify::new());
    let (victim, bell) = (memory.clone(), died.clone());
    let bent = Bent::new(memory.clone()).dying(number, at, move || {
        victim.kill();
        bell.notify_one();
    });
    let first = world.engine(Arc::new(bent), &ledger);
    let tasks = first.tasks(Principal::new("ada").unwrap());
    tokio::select! {
        () = died.notified() => {}
        _ = async {
            let _ = everything::play(&tasks, finale).await;
            // The rest of the commits come after the end.
            tokio::time::sleep(Duration::from_secs(60)).await;
        } => {}
    }
    drop((tasks, first, memory));
    let look = world.disk.open();
    let recorded = everything::recorded(&look).await.unwrap();
    let before = everything::effects(&ledger.entries());
    drop(look);
    // What was in flight ends at its next await.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(before, everything::effects(&ledger.entries()), "{what}: the dead do nothing");
    let end = world.live(Arc::new(world.disk.open()), &ledger.next_life()).await;
    check_end(&end, finale, what);
    let after = everything::effects(&ledger.entries());
    assert_eq!(after, everything::expected(&before, &recorded, finale), "{what}");
}

#[tokio::test(start_paused = true)]
async fn effects_are_exact_when_a_task_that_completes_is_killed_at_any_commit() {
    sweep(Finale::Complete).await;
}

#[tokio::test(start_paused = true)]
async fn effects_are_exact_when_a_task_that_fails_is_killed_at_any_commit() {
    sweep(Finale::Fail).await;
}

#[tokio::test(start_paused = true)]
async fn effects_are_exact_when_a_task_that_is_cancelled_is_killed_at_any_commit() {
    sweep(Finale::Cancelled).await;
}
