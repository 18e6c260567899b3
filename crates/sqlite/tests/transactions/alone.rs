//! Work that fails is rolled back alone, whatever is committed with it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use steadfast_sqlite::{InSqlite, Transaction, in_sqlite};
use steadfast_store::{Error, Lease, Order, Refusal, Store as _};

use crate::{
    common::{held, task, turn},
    work::{Bank, OP, Said, pay, pays},
};

async fn history(bank: &Bank, lease: Lease) -> Vec<String> {
    let page = bank.store.history(lease.key, Order::OldestFirst, None, 99).await.unwrap();
    page.events.into_iter().map(|(_, body)| String::from_utf8(body).unwrap()).collect()
}

#[tokio::test]
async fn rows_and_record_are_there_together() {
    let bank = Bank::open();
    let lease = held(&bank.store, "a").await;
    bank.commit(lease, 1, pays(5)).await.unwrap();
    assert_eq!(history(&bank, lease).await, ["started", "booked 1"]);
    assert_eq!(bank.count("payment"), 1);
    bank.store.turn(turn(lease, 2, b"next")).await.unwrap();
    bank.commit(lease, 3, pays(6)).await.unwrap();
    assert_eq!(history(&bank, lease).await, ["started", "booked 1", "next", "booked 2"]);
}

#[tokio::test]
async fn who_does_not_hold_the_task_does_nothing() {
    let bank = Bank::open();
    let lease = held(&bank.store, "a").await;
    let stale = Lease { epoch: lease.epoch + 1, ..lease };
    let answer = bank.commit(stale, 1, pays(5)).await;
    assert_eq!(answer.unwrap_err().refusal(), Some(&Refusal::Fenced));
    // Nor with events that don't continue the history.
    let answer = bank.commit(lease, 5, pays(5)).await;
    assert!(matches!(answer, Err(Error::Corrupt(_))), "{answer:?}");
    assert_eq!((bank.count("payment"), bank.notes.take().len()), (0, 0));
}

/// Commits work together with ordinary turns before and behind it, all in one batch: what becomes of the
/// work, and how often the work was run.
async fn among_others<F>(bank: &Bank, mut work: impl FnMut(Arc<AtomicU32>) -> InSqlite<F>) -> u32
where
    F: FnMut(&Transaction<'_>) -> Said + Send + 'static,
{
    let [first, before, here, behind] = ["first", "before", "here", "behind"];
    let first = held(&bank.store, first).await;
    let before = held(&bank.store, before).await;
    let here = held(&bank.store, here).await;
    let behind = held(&bank.store, behind).await;
    bank.notes.take();
    // While the writer is at this one, the others gather.
    let slow = in_sqlite(|tx: &Transaction<'_>| {
        std::thread::sleep(Duration::from_millis(100));
        pay(tx, 1)
    });
    let ran = Arc::new(AtomicU32::new(0));
    let (slow, one, two, three, four) = tokio::join!(
        bank.commit(first, 1, slow),
        bank.store.turn(turn(before, 1, b"before")),
        bank.commit(here, 1, work(ran.clone())),
        bank.store.start(task("new")),
        bank.commit(behind, 1, pays(2)),
    );
    slow.unwrap();
    one.unwrap();
    three.unwrap();
    four.unwrap();
    assert_eq!(two.unwrap_err().refusal(), Some(&Refusal::Guard(OP)));
    assert_eq!(history(bank, before).await, ["started", "before"]);
    assert_eq!(history(bank, here).await, ["started"]);
    assert_eq!(history(bank, behind).await.len(), 2);
    assert_eq!((bank.count("payment"), bank.count("entry")), (2, 0));
    // The lease is good, and the next turn is the first again.
    bank.store.turn(turn(here, 1, b"failed")).await.unwrap();
    ran.load(Ordering::SeqCst)
}

fn counted(
    ran: Arc<AtomicU32>,
    mut code: impl FnMut(&Transaction<'_>) -> Said + Send + 'static,
) -> InSqlite<impl FnMut(&Transaction<'_>) -> Said + Send + 'static> {
    in_sqlite(move |tx: &Transaction<'_>| {
        ran.fetch_add(1, Ordering::SeqCst);
        code(tx)
    })
}

#[tokio::test]
async fn an_error_takes_back_what_the_closure_did_and_nothing_else() {
    let bank = Bank::open();
    let ran = among_others(&bank, |ran| {
        counted(ran, |tx| {
            pay(tx, 77)?;
            tx.execute_batch("CREATE TABLE more (x)").map_err(|e| e.to_string())?;
            Err("too little money".into())
        })
    });
    assert_eq!(ran.await, 1, "the batch was not done twice");
    assert!(bank.notes.take().contains(&"failed: too little money".to_owned()));
    assert!(bank.file().prepare("SELECT * FROM more").is_err());
}

#[tokio::test]
async fn a_constraint_that_is_checked_by_the_commit_fails_its_transaction_alone() {
    let bank = Bank::open();
    among_others(&bank, |ran| {
        counted(ran, |tx| {
            let sql = "INSERT INTO entry (account) VALUES (99)";
            tx.execute(sql, []).map(|_| 0).map_err(|e| e.to_string())
        })
    })
    .await;
    let heard = bank.notes.take().join("\n");
    assert!(heard.contains("Failed(\"FOREIGN KEY constraint failed\")"), "{heard}");
}

#[tokio::test]
async fn a_rollback_of_the_whole_transaction_fails_its_closure_alone() {
    let bank = Bank::open();
    let ran = among_others(&bank, |ran| {
        counted(ran, |tx| {
            pay(tx, 77)?;
            let again = tx.execute("INSERT OR ROLLBACK INTO payment (cents) VALUES (77)", []);
            assert!(again.is_err());
            // Each statement would be a transaction by itself now.
            assert!(pay(tx, 78).unwrap_err().contains("rolled back"));
            Ok(0)
        })
    });
    assert_eq!(ran.await, 1, "it is not run again only to fail again");
    let heard = bank.notes.take().join("\n");
    assert!(heard.contains("Broken(") && heard.contains("OR ABORT"), "{heard}");
}

const ENDLESS: &str = "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n)";

#[tokio::test]
async fn sql_without_end_is_stopped() {
    for write in [false, true] {
        let bank = Bank::open();
        let begun = Instant::now();
        let ran = among_others(&bank, |ran| {
            counted(ran, move |tx| {
                pay(tx, 77)?;
                let stopped = match write {
                    false => {
                        tx.query_row(&format!("{ENDLESS} SELECT max(x) FROM n"), [], |_| Ok(0))
                    }
                    true => tx
                        .execute(&format!("{ENDLESS} INSERT INTO entry SELECT NULL FROM n"), [])
                        .map(|_| 0),
                };
                let text = stopped.unwrap_err().to_string();
                assert!(text.contains("time"), "{text}");
                assert!(pay(tx, 78).unwrap_err().contains("time"), "nothing more is done");
                Ok(0)
            })
            .limit(Duration::from_millis(200))
        });
        assert_eq!(ran.await, 1);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let heard = bank.notes.take().join("\n");
        assert!(heard.contains("TimedOut(") && heard.contains("200ms"), "{heard}");
    }
}

#[tokio::test]
async fn a_slow_closure_whose_sql_is_quick_is_not_stopped() {
    let bank = Bank::open();
    let lease = held(&bank.store, "a").await;
    let slow = in_sqlite(|tx: &Transaction<'_>| {
        let paid = pay(tx, 1);
        std::thread::sleep(Duration::from_millis(60));
        paid
    });
    bank.commit(lease, 1, slow.limit(Duration::from_millis(50))).await.unwrap();
    assert_eq!(bank.count("payment"), 1);
}

#[tokio::test]
async fn a_disk_that_is_full_is_no_fault_of_the_closure() {
    let dir = tempfile::tempdir().unwrap();
    let options = steadfast_sqlite::Options::new(dir.path().join("tasks.db"));
    let store = options.max_pages(120).open().unwrap();
    let bank = Bank { dir, store, notes: Default::default() };
    bank.file().execute_batch("CREATE TABLE big (x BLOB)").unwrap();
    let lease = held(&bank.store, "a").await;
    let big = in_sqlite(|tx: &Transaction<'_>| {
        // The closure may say what it likes.
        drop(tx.execute("INSERT INTO big VALUES (zeroblob(4000000))", []));
        Ok(1)
    });
    let answer = bank.commit(lease, 1, big).await;
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    assert_eq!((bank.count("big"), history(&bank, lease).await.len()), (0, 1));
    let little = in_sqlite(|tx: &Transaction<'_>| {
        tx.execute("INSERT INTO big VALUES (x'00')", []).map(|_| 2).map_err(|e| e.to_string())
    });
    bank.commit(lease, 1, little).await.unwrap();
    assert_eq!((bank.count("big"), history(&bank, lease).await.len()), (1, 2));
}
