//! A store that trusts its memory of rows, whatever others have done to them, is noticed. It is wrong for its
//! whole process, so that it has one of its own.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{sync::Arc, time::Duration};

use steadfast_crash::{
    Ledger,
    check::{self, Expect, LostLeases},
    driver::{self, Job},
    workload,
};
use steadfast_engine::{Context, Engine, Event, Principal, Settings, Tasks, Tool};
use steadfast_postgres::{Options, mutants, testing};
use steadfast_store::Store;

/// They are not told of each other's doings but once a second: so long each goes by what it remembers.
fn deaf() -> Options {
    testing::shared().unwrap().options().listen(false)
}

/// Two processes with the same to do, so that one cancels what the other holds. What is wrong then.
async fn workload(seed: u64) -> Vec<String> {
    const TASKS: u64 = 60;
    let options = deaf();
    let mut ledger = Ledger::in_memory();
    let mut lives = Vec::new();
    for _ in 0..2 {
        let store: Arc<dyn Store> = Arc::new(options.clone().open().await.unwrap());
        let engine = workload::tools(Engine::builder(store.clone()), &ledger).start();
        let tasks = engine.tasks(Principal::new("ada").unwrap());
        let (hand, job) = (ledger.clone(), Job::new(seed, TASKS, 16, &[]));
        let driver = tokio::spawn(async move { driver::drive(&tasks, &hand, &job).await });
        lives.push((engine, store, driver));
        ledger = ledger.next_life();
    }
    let mut counter = 0;
    for (_engine, store, driver) in &mut lives {
        // One that waits for ever is told by the check.
        let _ = tokio::time::timeout(Duration::from_secs(10), driver).await;
        let row = store.state("global".into(), "count".into()).await.unwrap();
        counter = row.value.map_or(0, |v| String::from_utf8(v).unwrap().parse().unwrap());
    }
    let expect = Expect { seed, tasks: TASKS, counter, lost_leases: LostLeases::Never };
    check::check(&ledger.entries(), expect)
}

async fn engine(options: &Options, settings: Settings) -> (Engine, Tasks) {
    let store = Arc::new(options.clone().open().await.unwrap());
    let wait = |ctx: Context, (): ()| async move { ctx.event::<u64>("go").await };
    let engine = Engine::builder(store).tool(Tool::new("wait", wait)).settings(settings).start();
    let tasks = engine.tasks(Principal::new("ada").unwrap());
    (engine, tasks)
}

/// Two processes, the second of which runs nothing.
struct Two {
    _engines: [Engine; 2],
    here: Tasks,
    there: Tasks,
}

impl Two {
    async fn start() -> Two {
        let options = deaf();
        let sleeps = Settings { park_after: Duration::from_millis(150), ..Settings::default() };
        let runs_none = Settings { max_running: 0, ..Settings::default() };
        let (one, here) = engine(&options, sleeps).await;
        let (two, there) = engine(&options, runs_none).await;
        Two { _engines: [one, two], here, there }
    }

    /// Whether a task hears of a message that the other process sent it right before its own put it to sleep.
    async fn hears(&self) -> bool {
        let id = self.here.start("wait", &()).await.unwrap().id;
        self.there.signal(&id, Event::new("go", &1_u64)).await.unwrap();
        // Far longer than the once a second after which everybody has looked.
        tokio::time::timeout(Duration::from_secs(5), self.here.wait(&id)).await.is_ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_by_others_is_not_overwritten_and_a_store_that_does_is_noticed() {
    let wrong = workload(1).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    let two = Two::start().await;
    for _ in 0..6 {
        assert!(two.hears().await);
    }
    mutants::trust_memory();
    // The look of once a second comes in between now and then; not in every round.
    let mut rounds = 0;
    while two.hears().await {
        rounds += 1;
        assert!(rounds < 30, "it was not noticed");
    }
}
