//! Processes that are taken for dead again and again while they are at transactions.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use steadfast_crash::{Ledger, Place, payments, workload};
use steadfast_engine::{Engine, Principal};
use steadfast_postgres::testing;
use steadfast_store::Store;

const PAYMENTS: u64 = 60;

/// What one does when the other has its tasks leaves no row, and what it did before is not done again.
#[tokio::test(flavor = "multi_thread")]
async fn who_lost_its_lease_in_a_transaction_leaves_no_row() {
    let server = testing::shared().unwrap();
    let options = server.options().lease(Duration::from_secs(1));
    let place = Place { store: server.url(), schema: Some(options.schema_name().into()) };
    payments::make_tables(&place).await.unwrap();
    let mut ledger = Ledger::in_memory();
    let mut lives = Vec::new();
    for _ in 0..2 {
        let store = Arc::new(options.clone().open().await.unwrap());
        let builder = workload::tools(Engine::builder(store.clone()), &ledger);
        let engine = payments::tools(builder, &ledger, &place).start();
        let (tasks, hand) = (engine.tasks(Principal::new("ada").unwrap()), ledger.clone());
        let driver = tokio::spawn(async move {
            payments::drive(&tasks, &hand, PAYMENTS, &BTreeSet::new()).await;
        });
        lives.push((engine, store, driver));
        ledger = ledger.next_life();
    }
    let ended = || ledger.entries().iter().filter(|entry| entry.what == "ended").count();
    // Each time when there was some progress, so that every part of a transaction meets it.
    for (losses, goal) in (4..PAYMENTS as usize).step_by(4).enumerate() {
        while ended() < goal {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        testing::expire(&options, lives[losses % 2].1.desk()).await.unwrap();
    }
    for (_, _, driver) in &mut lives {
        let done = tokio::time::timeout(Duration::from_secs(60), driver).await;
        done.expect("it goes on").unwrap();
    }
    let wrong = payments::check(&place, &ledger.entries(), PAYMENTS).await.unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (engine, ..) in lives {
        engine.shutdown(Duration::from_secs(1)).await;
    }
}
