//! Commits of transactions whose answer is lost.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use steadfast_engine::Error;
use steadfast_postgres::{Options, in_postgres, testing, testing::Setup};
use steadfast_store::Store as _;

use super::{Bank, commit, completed, output, ready, tool, until};
use crate::{
    common::{held, history},
    proxy::{Fate, Proxy},
};

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_looked_up() {
    let server = testing::shared().unwrap();
    for fate in [Fate::AnswerLost, Fate::Lost, Fate::Late] {
        let bank = Bank::open().await;
        let proxy = Arc::new(Proxy::to(server.port()).await);
        let behind = Options::new(server.url_by(proxy.port)).schema(bank.options.schema_name());
        let shared = (bank.book(), proxy.clone());
        let (ended, events) = bank
            .run_on(
                behind,
                tool(&shared, move |(book, proxy), ctx| async move {
                    ctx.step("first", || async { Ok::<_, Error>(()) }).await?;
                    let (book, proxy, runs) = (&book, &proxy, &AtomicU32::new(0));
                    let pay = in_postgres(|tx| async move {
                        book.pay(&tx, 1).await?;
                        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                            // Nothing else of this process is committed now.
                            proxy.next_commit(fate, 0);
                        }
                        Ok::<_, Error>(())
                    });
                    ctx.transaction("book", pay).await?;
                    Ok(runs.load(Ordering::SeqCst))
                }),
            )
            .await;
        assert!(proxy.met(), "{fate:?}");
        assert_eq!(bank.paid().await, [1], "{fate:?}");
        assert_eq!(completed(&events), ["first null", "book null"], "{fate:?}");
        // What the server did not get was rolled back, and is done again.
        let runs = if fate == Fate::Lost { "2" } else { "1" };
        assert_eq!(output(&ended), runs, "{fate:?}");
    }
}

/// What was committed is there. But who was taken for dead before he knew must not go on as if he held it.
#[tokio::test]
async fn a_commit_that_is_found_after_the_lease_is_no_leave_to_go_on() {
    let server = testing::shared().unwrap();
    let bank = Bank::open().await;
    let proxy = Proxy::to(server.port()).await;
    let behind = Options::new(server.url_by(proxy.port)).schema(bank.options.schema_name());
    let store = behind.open().await.unwrap();
    let lease = held(&store, "a").await;
    let book = &bank.book();
    let parcel = ready(&store, in_postgres(|tx| async move { book.pay(&tx, 1).await })).await;
    let desk = store.desk();
    proxy.next_commit(Fate::AnswerLost, 0);
    proxy.then_refuse();
    let others = async {
        while !proxy.met() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        testing::expire(&bank.options, desk).await.unwrap();
        proxy.let_in();
    };
    let (answer, ()) = tokio::join!(commit(&store, lease, 1, parcel), others);
    assert!(matches!(answer, Err(steadfast_store::Error::Unknown(_))), "{answer:?}");
    assert_eq!(bank.paid().await, [1], "it was committed");
}

/// A commit that waits for a synchronous standby is visible already when its wait is ended from outside, and
/// would be lost by a failover. Who finds it waits for the standby too before he says so.
#[tokio::test]
async fn a_commit_that_is_found_is_with_the_standby_before_that_is_said() {
    // A standby that never comes; only those who are told to wait for it do.
    let server = Setup::default().set("synchronous_commit", "local").start().unwrap();
    let nobody = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'";
    testing::sql(&server.options(), nobody).await.unwrap();
    server.restart().unwrap();
    let bank = Bank::on(&server).await;
    let store = bank.options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    // From here on, on connections that are made anew: that of the transaction, and that of who looks.
    let sql = "ALTER ROLE steadfast SET synchronous_commit = on";
    bank.client.batch_execute(sql).await.unwrap();
    let book = &bank.book();
    let parcel = ready(&store, in_postgres(|tx| async move { book.pay(&tx, 1).await })).await;
    let waits = async || -> Vec<i32> {
        let sql = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        bank.client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    let mut committing = pin!(commit(&store, lease, 1, parcel));
    tokio::select! {
        early = &mut committing => panic!("no standby has it: {early:?}"),
        () = until("the commit waits", async || waits().await.len() == 1) => {}
    }
    let first = waits().await;
    bank.client.query("SELECT pg_terminate_backend($1)", &[&first[0]]).await.unwrap();
    tokio::select! {
        early = &mut committing => panic!("no standby has it: {early:?}"),
        () = until("the look waits", async || {
            waits().await.iter().any(|pid| *pid != first[0])
        }) => {}
    }
    for sql in ["ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"] {
        bank.client.batch_execute(sql).await.unwrap();
    }
    committing.await.unwrap();
    assert_eq!(history(&store, lease).await, ["started", "booked 1"]);
    assert_eq!(bank.paid().await, [1]);
}
