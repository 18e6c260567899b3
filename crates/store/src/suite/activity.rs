//! Activities.

use steadfast_core::OpId;

use super::{Fixture, make::*};
use crate::{
    ActivityEnd, ActivityLease, ActivityRow, ClaimActivities, Effect, Lease, Refusal, Retried,
    Store, Touched, Turn,
};

/// A held task with one activity in the queue, whose token is `t`.
async fn scheduled(store: &impl Store) -> Lease {
    let lease = hold(store, task("a")).await;
    assert!(take(store, effects(lease, [activity(3, "t")])).await.activities);
    lease
}

async fn claim_work(store: &impl Store, n: i64) -> Vec<ActivityRow> {
    store.claim_activities(work(n)).await.unwrap()
}

async fn claim_one(store: &impl Store, n: i64) -> ActivityRow {
    let mut rows = claim_work(store, n).await;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn ended(row: &ActivityRow) -> ActivityEnd {
    ActivityEnd { lease: lease_of(row), body: bytes("done") }
}

fn retried(row: &ActivityRow, due: i64) -> Retried {
    Retried { lease: lease_of(row), due: at(due), body: bytes("retrying") }
}

async fn by_token(store: &impl Store, token: &str) -> Option<ActivityRow> {
    store.activity(token.into()).await.unwrap()
}

/// Every call that needs the present epoch.
async fn assert_fenced(store: &impl Store, row: &ActivityRow) {
    assert_eq!(refused(store.end_activity(ended(row)).await), Refusal::Fenced);
    assert_eq!(refused(store.retry_activity(retried(row, 1)).await), Refusal::Fenced);
    let beat = store.beat_activity(lease_of(row), Some(at(99)), true).await;
    assert_eq!(refused(beat), Refusal::Fenced);
}

/// It is taken once, and says what it is.
pub async fn an_activity_is_claimed_once<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = scheduled(&one).await;
    let queued = by_token(&one, "t").await.unwrap();
    assert_eq!((queued.attempt, queued.desk), (1, None));
    let row = claim_one(&two, 0).await;
    let expected = ActivityRow {
        key: queued.key,
        epoch: row.epoch,
        task: lease.key,
        task_id: id("a"),
        op: OpId(3),
        name: "work".into(),
        attempt: 1,
        token: "t".into(),
        body: bytes("body"),
        desk: Some(two.desk()),
    };
    assert_eq!(row, expected);
    assert!(row.epoch > queued.epoch);
    let held = lease_of(&row);
    assert_eq!(by_token(&one, "t").await, Some(row));
    assert!(claim_work(&one, 99).await.is_empty());
    assert_eq!(by_token(&one, "none").await, None);
    assert_eq!(two.held_activities().await.unwrap(), [held]);
    assert!(one.held_activities().await.unwrap().is_empty());
}

/// By name, queued first served first, and no more than the limit.
pub async fn activities_are_claimed_by_name_in_order<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let named = |op, name: &str| match activity(op, &op.to_string()) {
        Effect::ScheduleActivity { op, token, body, .. } => {
            Effect::ScheduleActivity { op, name: name.into(), token, body }
        }
        other => other,
    };
    let all = [named(1, "b"), named(2, "c"), named(3, "a"), named(4, "b"), named(5, "a")];
    take(&store, effects(lease, all)).await;
    let claim = async |names: &[&str], limit| {
        let names = names.iter().map(|name| (*name).into()).collect();
        let claim = ClaimActivities { names, limit, now: at(0) };
        let rows = store.claim_activities(claim).await.unwrap();
        rows.iter().map(|row| row.op.0).collect::<Vec<_>>()
    };
    assert!(claim(&[], 9).await.is_empty());
    assert!(claim(&["a"], 0).await.is_empty());
    assert_eq!(claim(&["a", "b", "a"], 3).await, [1, 3, 4]);
    assert_eq!(claim(&["b", "a"], usize::MAX).await, [5]);
    assert_eq!(claim(&["c"], 9).await, [2]);
}

/// The message is for its operation, and a parked task is ready.
pub async fn an_ended_activity_is_gone_and_its_task_told<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = scheduled(&one).await;
    take(&one, park(lease, None)).await;
    let row = claim_one(&two, 0).await;
    let touched = two.end_activity(ended(&row)).await.unwrap();
    assert_eq!(touched, Touched { key: lease.key, here: false });
    assert_eq!(by_token(&one, "t").await, None);
    assert!(two.held_activities().await.unwrap().is_empty());
    assert_fenced(&two, &row).await;
    let claimed = claim(&one, 0).await.remove(0);
    assert_eq!((claimed.inbox[0].op, text(&claimed.inbox[0])), (Some(OpId(3)), "done".into()));
    assert_eq!(claimed.inbox.len(), 1);
}

/// Only with the epoch of its last change of hands.
pub async fn a_stale_activity_lease_is_fenced<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = scheduled(&store).await;
    let queued = by_token(&store, "t").await.unwrap();
    let row = claim_one(&store, 0).await;
    assert_fenced(&store, &queued).await;
    assert_fenced(&store, &ActivityRow { epoch: row.epoch + 1, ..row.clone() }).await;
    assert_fenced(&store, &ActivityRow { key: row.key + 1000, ..row.clone() }).await;
    assert!(inbox(&store, lease.key).await.is_empty());
    assert_eq!(by_token(&store, "t").await, Some(row.clone()));
    assert!(store.end_activity(ended(&row)).await.unwrap().here);
}

/// Not before its time; the task hears of it at once.
pub async fn a_retried_activity_is_due_later<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = scheduled(&one).await;
    let first = claim_one(&two, 0).await;
    let touched = two.retry_activity(retried(&first, 10)).await.unwrap();
    assert_eq!(touched, Touched { key: lease.key, here: false });
    let mail = one.inbox(lease.key, 0).await.unwrap();
    assert_eq!((mail[0].op, text(&mail[0])), (Some(OpId(3)), "retrying".into()));
    assert_fenced(&two, &first).await;
    assert!(two.held_activities().await.unwrap().is_empty());
    assert_eq!(one.next_wake().await.unwrap(), Some(at(10)));
    assert!(claim_work(&one, 9).await.is_empty());
    let second = claim_one(&one, 10).await;
    assert_eq!((second.attempt, second.key), (2, first.key));
    assert_eq!(one.next_wake().await.unwrap(), None);
    one.end_activity(ended(&second)).await.unwrap();
}

/// Until then nobody takes it; then anybody does, and the old holder is fenced.
pub async fn an_activity_with_an_overdue_heartbeat_is_taken_over<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    scheduled(&one).await;
    let first = claim_one(&one, 0).await;
    assert_eq!(one.next_wake().await.unwrap(), None, "nobody asked for a heartbeat yet");
    one.beat_activity(lease_of(&first), Some(at(10)), false).await.unwrap();
    one.beat_activity(lease_of(&first), Some(at(20)), false).await.unwrap();
    assert_eq!(two.next_wake().await.unwrap(), Some(at(20)));
    assert!(claim_work(&two, 19).await.is_empty());
    let second = claim_one(&two, 20).await;
    assert_eq!((second.attempt, second.desk), (2, Some(two.desk())));
    assert_fenced(&one, &first).await;
    assert!(one.held_activities().await.unwrap().is_empty());
    assert_eq!(two.next_wake().await.unwrap(), None);
    assert!(claim_work(&one, 99).await.is_empty(), "the old heartbeat is forgotten");
}

/// One that will be silent for long can say so.
pub async fn a_heartbeat_can_be_called_off<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    scheduled(&store).await;
    let row = claim_one(&store, 0).await;
    store.beat_activity(lease_of(&row), Some(at(10)), false).await.unwrap();
    store.beat_activity(lease_of(&row), None, false).await.unwrap();
    assert_eq!(store.next_wake().await.unwrap(), None);
    assert!(claim_work(&store, 99).await.is_empty());
    store.end_activity(ended(&row)).await.unwrap();
}

/// What is due goes back to the queue for whoever can run it.
pub async fn an_activity_that_nobody_can_run_does_not_hide_the_next_wake<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = scheduled(&store).await;
    take(&store, effects(lease, [activity(4, "u")])).await;
    let rows = claim_work(&store, 0).await;
    store.retry_activity(retried(&rows[0], 10)).await.unwrap();
    store.beat_activity(lease_of(&rows[1]), Some(at(10)), false).await.unwrap();
    take(&store, park(lease, None)).await;
    let other = ClaimActivities { names: vec!["other".into()], ..work(10) };
    assert!(store.claim_activities(other).await.unwrap().is_empty());
    assert_eq!(store.next_wake().await.unwrap(), None);
    assert_eq!(claim_work(&store, 0).await.len(), 2);
}

/// It lies on no desk, and is ended with its token.
pub async fn a_released_activity_is_ended_from_outside<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&two, task("a")).await;
    take(&two, effects(lease, [activity(3, "t")])).await;
    let row = claim_one(&one, 0).await;
    one.beat_activity(lease_of(&row), None, true).await.unwrap();
    assert!(one.held_activities().await.unwrap().is_empty());
    one.close().await.unwrap();
    let desk = one.desk();
    fixture.kill(one).await;
    assert!(!two.dead().await.unwrap().contains(&desk));
    assert!(claim_work(&two, 99).await.is_empty(), "it is not in the queue");
    let found = by_token(&two, "t").await.unwrap();
    assert_eq!((found.desk, found.epoch), (None, row.epoch));
    two.end_activity(ended(&found)).await.unwrap();
    assert_eq!(inbox(&two, lease.key).await, ["done"]);
}

/// If whoever has it outside falls silent it is tried again.
pub async fn a_released_activity_can_be_overdue<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    scheduled(&store).await;
    let first = claim_one(&store, 0).await;
    store.beat_activity(lease_of(&first), Some(at(10)), true).await.unwrap();
    assert_eq!(store.next_wake().await.unwrap(), Some(at(10)));
    store.beat_activity(lease_of(&first), Some(at(20)), false).await.unwrap();
    assert!(store.held_activities().await.unwrap().is_empty(), "a beat does not bring it back");
    assert!(claim_work(&store, 19).await.is_empty());
    assert_eq!(claim_one(&store, 20).await.attempt, 2);
    assert_fenced(&store, &first).await;
}

/// On this desk, on another's, in the queue or waiting for its next attempt.
pub async fn an_activity_is_cancelled_wherever_it_is<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    let one_work = |limit| ClaimActivities { limit, ..work(0) };
    take(&one, effects(lease, (1..=4).map(|op| activity(op, &op.to_string())))).await;
    let here = one.claim_activities(one_work(1)).await.unwrap().remove(0);
    let there = two.claim_activities(one_work(1)).await.unwrap().remove(0);
    let waits = one.claim_activities(one_work(1)).await.unwrap().remove(0);
    one.retry_activity(retried(&waits, 10)).await.unwrap();
    let ops = [1, 2, 3, 4, 9].map(|op| Effect::CancelActivity { op: OpId(op) });
    let turned = take(&one, Turn { consumed: Some(i64::MAX - 1), ..effects(lease, ops) }).await;
    assert_eq!(turned.cancelled, [here.key], "the other desk must ask what it still holds");
    assert!(!turned.activities);
    assert!(two.held_activities().await.unwrap().is_empty());
    assert_fenced(&one, &here).await;
    assert_fenced(&two, &there).await;
    assert!(claim_work(&two, 99).await.is_empty());
    assert_eq!(one.next_wake().await.unwrap(), None);
    assert!(inbox(&one, lease.key).await.is_empty());
    take(&one, effects(lease, [activity(1, "again")])).await;
    assert_eq!(claim_one(&two, 0).await.token, "again", "its operation is free again");
}

/// A halted task keeps what its activities report for its resume.
pub async fn a_halted_task_hears_of_its_activity_when_resumed<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = scheduled(&store).await;
    store.suspend(operator(0), id("a"), suspend(1)).await.unwrap();
    take(&store, park(lease, None)).await;
    let row = claim_one(&store, 0).await;
    let touched = store.end_activity(ended(&row)).await.unwrap();
    assert!(!touched.here);
    assert!(claim(&store, 99).await.is_empty());
    store.resume(operator(0), id("a"), resume(2)).await.unwrap();
    assert_eq!(claim(&store, 0).await[0].inbox.len(), 1);
}

/// Numbers are not used again, so that a stale lease can't end another's work.
pub async fn activity_numbers_rise<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = scheduled(&store).await;
    let first = claim_one(&store, 0).await;
    store.end_activity(ended(&first)).await.unwrap();
    take(&store, effects(lease, [activity(4, "u")])).await;
    let second = claim_one(&store, 0).await;
    assert!(second.key > first.key);
    let stale = ActivityLease { key: first.key, epoch: second.epoch };
    let end = ActivityEnd { lease: stale, body: vec![] };
    assert_eq!(refused(store.end_activity(end).await), Refusal::Fenced);
}
