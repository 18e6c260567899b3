//! Others who are in the way of a transaction.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use steadfast_core::{Event, OpId};
use steadfast_engine::{Context, Error, Order, Tool};
use steadfast_postgres::{Isolation, in_postgres};
use steadfast_store::{Refusal, Store as _};
use tokio::sync::{Barrier, Notify};

use super::{Bank, ada, commit, engine, lease::Gate, output, ready, tool};
use crate::common::{held, history, turn};

/// Reads, lets somebody else change what was read, and writes: the first time that can't be put in line.
#[tokio::test]
async fn a_serialization_failure_is_run_again() {
    let bank = Bank::open().await;
    bank.client
        .batch_execute(&format!("INSERT INTO {} (id, cents) VALUES (100, 10)", bank.table))
        .await
        .unwrap();
    let (ready, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let shared = (bank.table.clone(), ready.clone(), go.clone());
    let others = async {
        ready.notified().await;
        let sql = format!("UPDATE {} SET cents = cents + 1 WHERE id = 100", bank.table);
        bank.client.batch_execute(&sql).await.unwrap();
        go.notify_one();
    };
    let run = bank.run(tool(&shared, |(table, ready, go), ctx| async move {
        let runs = &AtomicU32::new(0);
        let (table, ready, go) = (&table, &ready, &go);
        let add = in_postgres(|tx| async move {
            let sql = format!("SELECT cents FROM {table} WHERE id = 100");
            let cents: i64 = tx.query_one(&sql, &[]).await?.get(0);
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                ready.notify_one();
                go.notified().await;
            }
            let sql = format!("UPDATE {table} SET cents = $1 WHERE id = 100");
            tx.execute(&sql, &[&(cents + 100)]).await?;
            Ok::<_, Error>(cents)
        });
        let seen = ctx.transaction("add", add.isolation(Isolation::RepeatableRead)).await?;
        Ok((seen, runs.load(Ordering::SeqCst)))
    }));
    let ((ended, events), ()) = tokio::join!(run, others);
    assert_eq!((output(&ended).as_str(), bank.paid().await), ("[11,2]", vec![111]));
    assert!(!events.iter().any(|event| matches!(event, Event::StepRetrying { .. })));
}

/// A message to the task comes while its code runs: it waits for nothing, and of what can't be put in line
/// with it only the author's transaction is done again.
#[tokio::test]
async fn a_task_gets_its_messages_while_it_is_at_a_transaction() {
    let bank = Bank::open().await;
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        bank.client.batch_execute(&format!("TRUNCATE {} CASCADE", bank.table)).await.unwrap();
        let (ready, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let shared = (bank.book(), ready.clone(), go.clone(), isolation);
        let tool = tool(&shared, |(book, ready, go, isolation), ctx| async move {
            let runs = &AtomicU32::new(0);
            let (book, ready, go) = (&book, &ready, &go);
            let pay = in_postgres(|tx| async move {
                book.pay(&tx, 1).await?;
                if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                    ready.notify_one();
                    go.notified().await;
                }
                Ok::<_, Error>(())
            });
            ctx.transaction("book", pay.isolation(isolation)).await?;
            let word: String = ctx.event("word").await?;
            Ok((word, runs.load(Ordering::SeqCst)))
        });
        let engine = engine(bank.options.clone(), tool).await;
        let tasks = engine.tasks(ada());
        let id = tasks.start("t", &()).await.unwrap().id;
        ready.notified().await;
        let event = steadfast_engine::Event::new("word", "hello");
        let sent = tokio::time::timeout(Duration::from_secs(5), tasks.signal(&id, event)).await;
        sent.expect("the message waits").unwrap();
        go.notify_one();
        let ended = tokio::time::timeout(Duration::from_secs(20), tasks.wait(&id)).await;
        let text = output(&ended.expect("it hangs").unwrap());
        assert!(text.starts_with("[\"hello\","), "{text}");
        assert_eq!(bank.paid().await, [1], "{isolation:?}");
        engine.shutdown(Duration::from_secs(5)).await;
    }
}

/// Another branch of the task records something while the code runs. That changes no row which the
/// transaction would trip over, so its moment shows it an end of the history that is not the end any more.
#[tokio::test]
async fn a_task_that_goes_on_beside_its_transaction_is_not_taken_for_broken() {
    let bank = Bank::open().await;
    let store = bank.options.clone().open().await.unwrap();
    let book = &bank.book();
    let pay = |cents, isolation| {
        in_postgres(move |tx| async move { book.pay(&tx, cents).await }).isolation(isolation)
    };
    for (cents, isolation) in [(1, Isolation::RepeatableRead), (2, Isolation::Serializable)] {
        let lease = held(&store, &format!("{isolation:?}")).await;
        let parcel = ready(&store, pay(cents, isolation)).await;
        store.turn(turn(lease, 1, "beside")).await.unwrap();
        // What goes wrong elsewhere has the store forget how far its tasks are.
        let other = held(&store, &format!("other-{isolation:?}")).await;
        let wrong = ready(&store, pay(99, Isolation::ReadCommitted)).await;
        let wrong = commit(&store, other, 9, wrong).await;
        assert!(matches!(wrong, Err(steadfast_store::Error::Corrupt(_))), "{wrong:?}");
        let overtaken = commit(&store, lease, 2, parcel).await;
        let refusal = overtaken.as_ref().unwrap_err().refusal();
        assert_eq!(refusal, Some(&Refusal::Guard(OpId(7))), "{overtaken:?}");
        let again = ready(&store, pay(cents, isolation)).await;
        commit(&store, lease, 2, again).await.unwrap();
        let booked = format!("booked {cents}");
        assert_eq!(history(&store, lease).await, ["started", "beside", &booked]);
    }
    assert_eq!(bank.paid().await, [1, 2]);
}

/// Each of two takes its row away if the other's is there. One after the other, one row stays; and that it
/// can't be so shows only when the second commits.
#[tokio::test]
async fn a_serialization_failure_at_the_commit_is_run_again() {
    let bank = Bank::open().await;
    let rows = format!("INSERT INTO {} (id, cents) VALUES (1, 1), (2, 2)", bank.table);
    bank.client.batch_execute(&rows).await.unwrap();
    let store = bank.options.clone().open().await.unwrap();
    let table = &bank.table;
    let leaves = |own: i64| {
        in_postgres(move |tx| async move {
            let all = tx.query(&format!("SELECT cents FROM {table}"), &[]).await?;
            if all.len() == 2 {
                tx.execute(&format!("DELETE FROM {table} WHERE cents = $1"), &[&own]).await?;
            }
            Ok::<_, Error>(own)
        })
        .isolation(Isolation::Serializable)
    };
    let (one, two) = (held(&store, "one").await, held(&store, "two").await);
    let (first, second) = (ready(&store, leaves(1)).await, ready(&store, leaves(2)).await);
    let gate = Gate::at(&bank, "AFTER", "booked 2").await;
    let others = async {
        gate.until_somebody_waits().await;
        commit(&store, one, 1, first).await.unwrap();
        gate.open().await;
    };
    let (overtaken, ()) = tokio::join!(commit(&store, two, 1, second), others);
    let refusal = overtaken.as_ref().unwrap_err().refusal();
    assert_eq!(refusal, Some(&Refusal::Guard(OpId(7))), "{overtaken:?}");
    assert_eq!(history(&store, two).await, ["started"]);
    let again = ready(&store, leaves(2)).await;
    commit(&store, two, 1, again).await.unwrap();
    assert_eq!(history(&store, one).await, ["started", "booked 1"]);
    assert_eq!(history(&store, two).await, ["started", "booked 2"]);
    assert_eq!(bank.paid().await, [2], "one stays");
}

/// Two tasks lock two rows, each the other's first: one of them is rolled back, and both are done once.
#[tokio::test]
async fn a_deadlock_is_run_again() {
    let bank = Bank::open().await;
    let rows = format!("INSERT INTO {} (id, cents) VALUES (101, 1), (102, 2)", bank.table);
    bank.client.batch_execute(&rows).await.unwrap();
    let (runs, meet) = (Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(2)));
    let shared = (bank.book(), bank.table.clone(), runs.clone(), meet);
    let tool = Tool::new("t", move |ctx: Context, own: i64| {
        let (book, table, runs, meet) = shared.clone();
        async move {
            let lock = &format!("SELECT FROM {table} WHERE id = $1 FOR UPDATE");
            let (book, runs, meet, once) = (&book, &runs, &meet, &AtomicU32::new(0));
            let both = in_postgres(|tx| async move {
                runs.fetch_add(1, Ordering::SeqCst);
                tx.query_one(lock, &[&(100 + own)]).await?;
                if once.fetch_add(1, Ordering::SeqCst) == 0 {
                    meet.wait().await;
                }
                tx.query_one(lock, &[&(103 - own)]).await?;
                book.pay(&tx, 10 * own).await
            });
            ctx.transaction("both", both).await
        }
    });
    let engine = engine(bank.options.clone(), tool).await;
    let tasks = engine.tasks(ada());
    for own in [1, 2] {
        tasks.start("t", &own).id(crate::common::id(&format!("t{own}"))).await.unwrap();
    }
    for own in [1, 2] {
        let id = crate::common::id(&format!("t{own}"));
        let ended = tokio::time::timeout(Duration::from_secs(40), tasks.wait(&id)).await;
        assert_eq!(output(&ended.expect("it hangs").unwrap()), (10 * own).to_string());
        let page = engine.operator().history(&id, Order::OldestFirst, None, 99).await.unwrap();
        let again = |event: &Event| matches!(event, Event::StepRetrying { .. });
        assert!(!page.entries.iter().any(|entry| again(&entry.event)), "it counts as no failure");
    }
    engine.shutdown(Duration::from_secs(5)).await;
    let mut paid = bank.paid().await;
    paid.sort_unstable();
    assert_eq!((paid, runs.load(Ordering::SeqCst)), (vec![1, 2, 10, 20], 3));
}
