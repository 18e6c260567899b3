//! Who holds the task when its transaction is committed.

use std::pin::pin;

use steadfast_core::Timestamp;
use steadfast_postgres::{Store, in_postgres, testing};
use steadfast_store::{Cancel, ClaimTasks, Desk, Poison, Refusal, Store as _};

use super::{Bank, commit, ready, until};
use crate::common::{held, history, id, operator};

#[tokio::test]
async fn who_does_not_hold_the_task_any_more_commits_nothing() {
    let bank = Bank::open().await;
    let other = bank.options.clone().open().await.unwrap();
    let poison = || Poison { deaths: 5, at: Timestamp(9), view: b"view".to_vec() };
    let tools = || vec![("tool".into(), 1, 1)];
    for loss in ["late", "adopted", "cancelled", "none"] {
        let store = bank.options.clone().open().await.unwrap();
        let lease = held(&store, loss).await;
        let book = &bank.book();
        let parcel = ready(&store, in_postgres(|tx| async move { book.pay(&tx, 1).await })).await;
        let desk = store.desk();
        if loss == "late" || loss == "adopted" {
            testing::expire(&bank.options, desk).await.unwrap();
        }
        if loss == "adopted" {
            // Nobody waits for the author's transaction.
            assert_eq!(other.adopt(desk, poison()).await.unwrap().ready, 1);
            let claim = ClaimTasks { tools: tools(), limit: 9, now: Timestamp(1) };
            assert_eq!(other.claim(claim).await.unwrap().len(), 1);
        }
        if loss == "cancelled" {
            other.cancel(operator(), id(loss), cancel()).await.unwrap();
        }
        let answer = commit(&store, lease, 1, parcel).await;
        if loss == "none" {
            answer.unwrap();
            assert_eq!(history(&other, lease).await, ["started", "booked 1"]);
            assert_eq!(bank.paid().await, [1]);
        } else {
            assert_eq!(answer.unwrap_err().refusal(), Some(&Refusal::Fenced), "{loss}");
            let recorded = history(&other, lease).await;
            assert!(!recorded.contains(&"booked 1".to_owned()), "{loss}: {recorded:?}");
            assert!(bank.paid().await.is_empty(), "{loss}");
        }
    }
}

/// Keeps whoever records an event from his commit, when he has locked what he needs.
pub(super) struct Gate<'b>(&'b Bank);

impl Gate<'_> {
    /// Before or after he has written it.
    pub(super) async fn at<'b>(bank: &'b Bank, when: &str, event: &str) -> Gate<'b> {
        let schema = bank.options.schema_name();
        let sql = format!(
            "SELECT pg_advisory_lock(hashtext('{schema}'));
             CREATE FUNCTION {schema}.gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}')); RETURN NEW; END $$;
             CREATE TRIGGER gate {when} INSERT ON {schema}.event FOR EACH ROW
             WHEN (NEW.body = '{event}'::bytea) EXECUTE FUNCTION {schema}.gate()"
        );
        bank.client.batch_execute(&sql).await.unwrap();
        Gate(bank)
    }

    /// How many stand before it, and how many wait for those.
    async fn waiting(&self) -> (i64, i64) {
        let sql = "
            WITH here AS (SELECT a.pid FROM pg_stat_activity a
                WHERE pg_backend_pid() = ANY(pg_blocking_pids(a.pid)))
            SELECT (SELECT count(*) FROM here), (SELECT count(*) FROM pg_stat_activity a
                WHERE pg_blocking_pids(a.pid) && ARRAY(SELECT pid FROM here))";
        let row = self.0.client.query_one(sql, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }

    pub(super) async fn until_somebody_waits(&self) {
        until("somebody comes to the gate", async || self.waiting().await.0 == 1).await;
    }

    async fn until_another_waits_for_him(&self) {
        until("another waits for who is there", async || self.waiting().await.1 == 1).await;
    }

    pub(super) async fn open(&self) {
        let schema = self.0.options.schema_name();
        let sql = format!("SELECT pg_advisory_unlock(hashtext('{schema}'))");
        self.0.client.batch_execute(&sql).await.unwrap();
    }
}

fn cancel() -> Cancel {
    Cancel {
        at: Timestamp(3),
        event: b"cancelled".to_vec(),
        view: b"view".to_vec(),
        end: b"end".to_vec(),
        tell: b"tell".to_vec(),
        expires: None,
        frees: None,
    }
}

/// Between the look at who holds the task and the commit nobody can change that: he waits, and comes after.
#[tokio::test]
async fn who_takes_the_task_away_while_it_is_committed_comes_after_that() {
    for loss in ["cancelled", "adopted"] {
        let bank = Bank::open().await;
        let (store, other) = (
            bank.options.clone().open().await.unwrap(),
            bank.options.clone().open().await.unwrap(),
        );
        let (lease, desk) = (held(&store, "a").await, store.desk());
        let book = &bank.book();
        let parcel = ready(&store, in_postgres(|tx| async move { book.pay(&tx, 1).await })).await;
        let gate = Gate::at(&bank, "BEFORE", "booked 1").await;
        let takes_away = async {
            gate.until_somebody_waits().await;
            let mut taking = pin!(take_away(&bank, &other, desk, loss));
            tokio::select! {
                () = &mut taking => panic!("{loss}: the task was taken away in the middle"),
                () = gate.until_another_waits_for_him() => {}
            }
            gate.open().await;
            taking.await;
        };
        let (committed, ()) = tokio::join!(commit(&store, lease, 1, parcel), takes_away);
        committed.unwrap();
        assert_eq!(bank.paid().await, [1], "{loss}");
        let expected: &[_] = match loss {
            "cancelled" => &["started", "booked 1", "cancelled"],
            _ => &["started", "booked 1"],
        };
        assert_eq!(history(&other, lease).await, expected, "{loss}");
        // It was the last that he could do.
        let book = &bank.book();
        let late = ready(&store, in_postgres(|tx| async move { book.pay(&tx, 2).await })).await;
        let late = commit(&store, lease, expected.len() as u64, late).await;
        assert_eq!(late.unwrap_err().refusal(), Some(&Refusal::Fenced), "{loss}");
        assert_eq!(bank.paid().await, [1], "{loss}");
    }
}

async fn take_away(bank: &Bank, other: &Store, desk: Desk, how: &str) {
    if how == "cancelled" {
        other.cancel(operator(), id("a"), cancel()).await.unwrap();
        return;
    }
    testing::expire(&bank.options, desk).await.unwrap();
    let poison = Poison { deaths: 5, at: Timestamp(9), view: b"view".to_vec() };
    assert_eq!(other.adopt(desk, poison).await.unwrap().ready, 1);
}
