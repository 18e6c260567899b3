//! The primary is killed in the middle of the workload, and its standby takes its place.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{sync::Arc, time::Duration};

use steadfast_crash::{
    Ledger, Place,
    check::{self, Expect, LostLeases},
    driver::{self, Job},
    payments, workload,
};
use steadfast_engine::{Engine, Principal};
use steadfast_postgres::{Options, testing::Setup};
use steadfast_store::Store;

const SEED: u64 = 7;
const TASKS: u64 = 400;
const PAYMENTS: u64 = 30;

/// Every acknowledged task is there and ends as it should, and effects are counted exactly: again only
/// where a lease was lost, which may have happened before the standby was promoted.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_go_on_where_a_standby_takes_over() {
    let primary = Setup::default().fsync(true).start().unwrap();
    let standby = primary.standby().await.unwrap();
    let hosts = [&primary, &standby].map(|server| format!("127.0.0.1:{}", server.port())).join(",");
    let url = format!("postgres://steadfast@{hosts}/postgres?sslmode=disable");
    let options = Options::new(&url).lease(Duration::from_secs(2));
    let place = Place { store: url, schema: Some(options.schema_name().into()) };
    payments::make_tables(&place).await.unwrap();
    let mut ledger = Ledger::in_memory();
    let mut lives = Vec::new();
    for _ in 0..2 {
        let store = Arc::new(options.clone().open().await.unwrap());
        let builder = workload::tools(Engine::builder(store.clone()), &ledger);
        let engine = payments::tools(builder, &ledger, &place).start();
        let tasks = engine.tasks(Principal::new("ada").unwrap());
        let job = Job::new(SEED, TASKS, 32, &[]);
        let hand = ledger.clone();
        let driver = tokio::spawn(async move {
            let pay = payments::drive(&tasks, &hand, PAYMENTS, &job.ended);
            tokio::join!(driver::drive(&tasks, &hand, &job), pay)
        });
        lives.push((engine, store, driver));
        ledger = ledger.next_life();
    }
    let ended = || ledger.entries().iter().filter(|entry| entry.what == "ended").count();
    while ended() < 60 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    primary.kill().unwrap();
    let before = ended();
    standby.promote().await.unwrap();
    for (_, _, driver) in &mut lives {
        let done = tokio::time::timeout(Duration::from_secs(60), driver).await;
        done.expect("it goes on").unwrap();
    }
    assert!(before < TASKS as usize, "there was something left to do");
    let row = lives[0].1.state("global".into(), "count".into()).await.unwrap();
    let counter = String::from_utf8(row.value.unwrap()).unwrap().parse().unwrap();
    let expect = Expect { seed: SEED, tasks: TASKS, counter, lost_leases: LostLeases::Perhaps };
    let wrong = check::check(&ledger.entries(), expect);
    assert!(wrong.is_empty(), "{wrong:#?}");
    let wrong = payments::check(&place, &ledger.entries(), PAYMENTS).await.unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (engine, ..) in lives {
        engine.shutdown(Duration::from_secs(1)).await;
    }
}
