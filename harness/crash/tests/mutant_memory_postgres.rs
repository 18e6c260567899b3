//! A store that trusts its memory of rows, whatever others have done to them, is noticed. It is wrong for its
//! whole process, so that it has one of its own.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{sync::Arc, time::Duration};

use steadfast_crash::{
    Ledger,
    check::{self, Expect},
    driver::{self, Job},
    workload,
};
use steadfast_engine::{Engine, Principal};
use steadfast_postgres::{mutants, testing};
use steadfast_store::Store;

const TASKS: u64 = 60;

/// Two processes with the same to do, so that one cancels what the other holds. What is wrong then.
async fn run(seed: u64) -> Vec<String> {
    // They are not told of each other's doings but once a second: so long each goes by what it remembers.
    let options = testing::shared().unwrap().options().listen(false);
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
    let expect = Expect { seed, tasks: TASKS, counter, lost_leases: false };
    check::check(&ledger.entries(), expect)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_by_others_is_not_overwritten_and_a_store_that_does_is_noticed() {
    let wrong = run(1).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    mutants::trust_memory();
    let mut said = Vec::new();
    for seed in 1..9 {
        let wrong = run(seed).await;
        // A cancel that is overwritten, or a message that nobody knows of when its task is put to sleep.
        let signs = ["its cancel was acknowledged", "never ended"];
        if wrong.iter().any(|line| signs.iter().any(|sign| line.contains(sign))) {
            return;
        }
        said.extend(wrong);
    }
    panic!("it was not noticed; said was {said:#?}");
}
