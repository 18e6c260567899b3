//! Wrong engines are noticed on PostgreSQL too: the same workload and the same checks, in real time. What
//! its fence is worth is seen in the tests of its store, in the simulation, in `moving/undead.rs` and in
//! `mutant_memory_postgres.rs`.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{sync::Arc, time::Duration};

use steadfast_crash::{
    Bent, Ledger, Mutant, Rng,
    check::{self, Expect, LostLeases},
    driver::{self, Job},
    workload,
};
use steadfast_engine::{Engine, Principal};
use steadfast_postgres::{Options, testing};
use steadfast_store::Store;

const TASKS: u64 = 40;

struct Scenario {
    seed: u64,
    mutant: Option<Mutant>,
    options: Options,
}

impl Scenario {
    fn new(seed: u64, mutant: Option<Mutant>) -> Scenario {
        let options = testing::shared().unwrap().options().lease(Duration::from_secs(1));
        Scenario { seed, mutant, options }
    }

    /// Two processes, one of which is taken for dead while it lives; then one that ends it all.
    async fn run(&self) -> Vec<String> {
        let mut dice = Rng::of(self.seed, 3);
        let mut ledger = Ledger::in_memory();
        for last in [false, true] {
            let mut lives = Vec::new();
            for _ in 0..if last { 1 } else { 2 } {
                let store = Arc::new(self.options.clone().open().await.unwrap());
                let builder =
                    Engine::builder(Arc::new(Bent::new(store.clone()).mutant(self.mutant)));
                let engine = workload::tools(builder, &ledger).start();
                let tasks = engine.tasks(Principal::new("ada").unwrap());
                let job = Job::new(self.seed, TASKS, 16, &ledger.entries());
                let hand = ledger.clone();
                let driver = tokio::spawn(async move { driver::drive(&tasks, &hand, &job).await });
                lives.push((engine, store, driver));
                ledger = ledger.next_life();
            }
            if last {
                let (_, _, driver) = &mut lives[0];
                if tokio::time::timeout(Duration::from_secs(10), driver).await.is_err() {
                    let said = check::check(&ledger.entries(), self.expect(0));
                    return [vec!["the last life did not finish".into()], said].concat();
                }
            } else {
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_millis(50 + dice.below(100))).await;
                    testing::expire(&self.options, lives[0].1.desk()).await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            for (engine, store, driver) in lives {
                let desk = store.desk();
                driver.abort();
                store.kill();
                drop(engine);
                testing::expire(&self.options, desk).await.unwrap();
            }
        }
        let store = self.options.clone().open().await.unwrap();
        let row = store.state("global".into(), "count".into()).await.unwrap();
        let text = row.value.map(|v| String::from_utf8(v).unwrap()).unwrap_or_else(|| "0".into());
        check::check(&ledger.entries(), self.expect(text.parse().unwrap()))
    }

    fn expect(&self, counter: u64) -> Expect {
        Expect { seed: self.seed, tasks: TASKS, counter, lost_leases: LostLeases::Perhaps }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_engine_is_not_blamed() {
    let wrong = Scenario::new(1, None).run().await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A mutant must be noticed within a few seeds, by what it does wrong.
async fn noticed(mutant: Mutant, sign: &str) {
    let mut said = Vec::new();
    for seed in 0..8 {
        let wrong = Scenario::new(seed, Some(mutant)).run().await;
        if wrong.iter().any(|line| line.contains(sign)) {
            return;
        }
        said.extend(wrong);
    }
    panic!("{mutant:?} was not noticed by {sign:?}; said was {said:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_before_its_commit_is_noticed() {
    noticed(Mutant::ReplyBeforeCommit, "gone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_delivered_twice_is_noticed() {
    noticed(Mutant::DeliveredTwice, "its events sum up to").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_is_forgotten_is_noticed() {
    noticed(Mutant::ForgottenCancel, "its cancel was acknowledged").await;
}
