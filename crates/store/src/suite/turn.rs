//! Turns: what they write, and that they are all or nothing.

use steadfast_core::{OpId, Status};

use super::{Fixture, make::*};
use crate::{Effect, Error, Lease, NewTask, Refusal, StateRow, Store, Turn};

/// Events, view and time are written; the task stays held.
pub async fn a_turn_appends_and_changes_the_view<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let view = Some((Status::Waiting, bytes("new view")));
    take(&store, Turn { first: 1, events: vec![bytes("x")], view, ..turn(lease) }).await;
    take(&store, Turn { first: 2, events: vec![bytes("y")], at: at(5), ..turn(lease) }).await;
    assert_eq!(history(&store, lease.key).await, ["started", "x", "y"]);
    let row = get(&store, "a").await;
    assert_eq!((row.status, row.view), (Status::Waiting, bytes("new view")));
    assert_eq!(row.updated, at(1), "the second turn changed neither status nor view");
    assert_eq!((row.desk, row.epoch), (Some(store.desk()), lease.epoch));
}

/// A turn that was written already, or that misses one, can't be appended.
pub async fn a_turn_must_continue_the_history<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    for first in [0, 2] {
        let events = vec![bytes("x")];
        let result = store.turn(Turn { first, events, ..turn(lease) }).await;
        assert!(matches!(result, Err(Error::Corrupt(_))), "{result:?}");
    }
    assert_eq!(history(&store, lease.key).await, ["started"]);
    take(&store, Turn { first: 1, events: vec![bytes("x")], ..turn(lease) }).await;
}

/// Only the holder can take a turn, and only with the present epoch.
pub async fn a_stale_lease_is_fenced<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let old = hold(&one, task("a")).await;
    for wrong in [
        Lease { epoch: old.epoch - 1, ..old },
        Lease { epoch: old.epoch + 1, ..old },
        Lease { key: crate::TaskKey(old.key.0 + 1000), ..old },
    ] {
        assert_eq!(refused(one.turn(full(wrong)).await), Refusal::Fenced);
    }
    assert_eq!(refused(two.turn(full(old)).await), Refusal::Fenced, "another desk");
    take(&one, park(old, None)).await;
    assert_eq!(refused(one.turn(full(old)).await), Refusal::Fenced, "it was parked");
    send(&one, "a", "m").await;
    let new = claim(&one, 0).await.remove(0).lease();
    assert_eq!(refused(one.turn(full(old)).await), Refusal::Fenced, "it was claimed again");
    nothing_was_written(&one, new).await;
    take(&one, turn(new)).await;
}

/// A turn that would change whatever can be changed.
fn full(lease: Lease) -> Turn {
    Turn {
        first: 1,
        events: vec![bytes("never")],
        consumed: Some(i64::MAX),
        view: Some((Status::Waiting, bytes("never"))),
        progress: true,
        effects: vec![
            question(1, "never"),
            activity(2, "never"),
            Effect::StartTask { task: Box::new(child("never", 3)), exists: bytes("never") },
            write("never", Some("never")),
            watch("never"),
            Effect::Send { to: id("a"), body: bytes("never") },
            Effect::CancelTask { id: id("bystander"), cancel: Box::new(cancel(1)) },
        ],
        ..turn(lease)
    }
}

async fn nothing_was_written(store: &impl Store, lease: Lease) {
    assert_eq!(history(store, lease.key).await, ["started"]);
    assert_eq!(inbox(store, lease.key).await, ["m"]);
    let row = store.row(lease.key).await.unwrap().unwrap();
    assert_eq!((row.status, row.view), (Status::Running, bytes("view")));
    assert!(store.questions(lease.key).await.unwrap().is_empty());
    assert_eq!(store.activity("never".into()).await.unwrap(), None);
    assert_eq!(refused(store.get(operator(0), id("never")).await), Refusal::Unknown);
    let state = store.state("scope".into(), "never".into()).await.unwrap();
    assert_eq!(state, StateRow::default());
}

/// A guard that fails undoes what came before it and behind it, and the lease stays good.
pub async fn a_refused_guard_writes_nothing_at_all<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    start(&store, ready("bystander")).await;
    let lease = hold(&store, task("a")).await;
    send(&store, "a", "m").await;
    let expire = Effect::ExpireQuestion { op: OpId(7), key: "none".into() };
    for (guard, op) in [(expire, 7), (swap(8, "k", "v", 1), 8)] {
        let mut last = full(lease);
        last.effects.push(guard.clone());
        let mut first = full(lease);
        first.effects.insert(0, guard);
        let ends = Turn { after: end(lease).after, ..first.clone() };
        for turn in [last, first, ends] {
            assert_eq!(refused(store.turn(turn).await), Refusal::Guard(OpId(op)));
            nothing_was_written(&store, lease).await;
            assert_eq!(get(&store, "bystander").await.status, Status::Running);
        }
    }
    take(&store, turn(lease)).await;
}

/// The first guard that fails is named.
pub async fn of_two_failing_guards_the_first_is_named<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let turn = effects(lease, [swap(1, "k", "v", 0), swap(2, "k", "w", 0), swap(3, "k", "x", 9)]);
    assert_eq!(refused(store.turn(turn).await), Refusal::Guard(OpId(2)));
    assert_eq!(store.state("scope".into(), "k".into()).await.unwrap(), StateRow::default());
}

/// An effect sees those before it in the same turn.
pub async fn effects_see_those_before_them<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let expire = Effect::ExpireQuestion { op: OpId(1), key: "q".into() };
    let turn = effects(
        lease,
        [
            question(1, "q"),
            expire,
            write("k", Some("1")),
            swap(2, "k", "2", 1),
            Effect::StartTask { task: Box::new(child("b", 3)), exists: bytes("exists") },
            Effect::Send { to: id("b"), body: bytes("hello") },
        ],
    );
    take(&store, turn).await;
    assert!(store.questions(lease.key).await.unwrap().is_empty());
    let row = store.state("scope".into(), "k".into()).await.unwrap();
    assert_eq!(row, StateRow { value: Some(bytes("2")), version: 2 });
    assert_eq!(inbox(&store, get(&store, "b").await.key).await, ["hello"]);
}

/// It has an end, a time and nobody who holds it.
pub async fn an_ended_task_keeps_its_end<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let view = Some((Status::Running, bytes("last view")));
    let last =
        Turn { first: 1, events: vec![bytes("x")], view, ..end_at(lease, Some(at(9)), false) };
    take(&store, last).await;
    let row = get(&store, "a").await;
    assert_eq!((row.status, row.ended, row.updated), (Status::Completed, Some(at(1)), at(1)));
    assert_eq!((row.end, row.view), (Some(bytes("end")), bytes("last view")));
    assert_eq!((row.expires, row.desk, row.wake), (Some(at(9)), None, None));
    assert_eq!(refused(store.turn(turn(lease)).await), Refusal::Fenced);
    assert!(claim(&store, 99).await.is_empty());
}

/// Questions, activities, watches and mail are gone, also what came with the last turn.
pub async fn an_ended_task_leaves_nothing_open<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let other = hold(&store, task("b")).await;
    take(&store, effects(lease, [question(1, "q"), activity(2, "t"), watch("k")])).await;
    let held = store.claim_activities(work(0)).await.unwrap().remove(0).key;
    send(&store, "a", "m").await;
    let last = [question(3, "r"), activity(4, "u"), watch("l")];
    let turned = take(&store, Turn { effects: last.to_vec(), ..end(lease) }).await;
    assert_eq!(turned.cancelled, [held]);
    assert!(!turned.activities && turned.touched.is_empty(), "{turned:?}");
    assert!(store.questions(lease.key).await.unwrap().is_empty());
    assert!(inbox(&store, lease.key).await.is_empty());
    for token in ["t", "u"] {
        assert_eq!(store.activity(token.into()).await.unwrap(), None);
    }
    let writes = [write("k", Some("1")), write("l", Some("1"))];
    assert!(take(&store, effects(other, writes)).await.touched.is_empty());
    assert!(inbox(&store, lease.key).await.is_empty());
}

/// It can be left on the desk for what is still to do; its status is final all the same.
pub async fn an_ended_task_can_be_kept_for_its_last_work<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, end_at(lease, Some(at(5)), true)).await;
    assert_eq!(get(&store, "a").await.desk, Some(store.desk()));
    assert_eq!(refused(store.turn(end(lease)).await), Refusal::Terminal(Status::Completed));
    let view = Some((Status::Running, bytes("undone")));
    take(&store, Turn { first: 1, events: vec![bytes("undo")], view, ..turn(lease) }).await;
    let row = get(&store, "a").await;
    assert_eq!((row.status, row.view), (Status::Completed, bytes("undone")));
    take(&store, park(lease, Some(at(3)))).await;
    let again = claim(&store, 3).await.remove(0);
    assert_eq!(again.history, [bytes("started"), bytes("undo")]);
    take(&store, park(again.lease(), None)).await;
    assert!(claim(&store, 99).await.is_empty());
}

/// The work that is left may need activities too.
pub async fn an_ended_task_hears_of_its_own_activities<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, end_at(lease, None, true)).await;
    take(&store, Turn { effects: vec![activity(1, "t")], ..park(lease, None) }).await;
    let work = store.claim_activities(work(0)).await.unwrap().remove(0);
    let end = crate::ActivityEnd { lease: lease_of(&work), body: bytes("undone") };
    assert_eq!(store.end_activity(end).await.unwrap().key, lease.key);
    let claimed = claim(&store, 0).await.remove(0);
    assert_eq!(claimed.inbox.iter().map(text).collect::<Vec<_>>(), ["undone"]);
}

/// History and what belonged to its operations go; signals stay.
pub async fn a_restart_begins_anew<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let other = hold(&store, task("b")).await;
    let start = Effect::StartTask { task: Box::new(child("c", 4)), exists: vec![] };
    let opened = [question(1, "q"), question(5, "r"), activity(2, "t"), watch("k"), start];
    take(&store, effects(lease, opened)).await;
    send(&store, "a", "signal").await;
    store.answer(operator(0), id("a"), "q".into(), bytes("answer")).await.unwrap();
    // The notice of a change is for a watch, and that goes too.
    take(&store, effects(other, [write("k", Some("0"))])).await;
    assert_eq!(inbox(&store, lease.key).await, ["signal", "answer", "notice k"]);
    let events = vec![bytes("again")];
    let next = vec![question(1, "s"), activity(2, "u")];
    let anew = Turn { restart: true, events, effects: next, ..turn(lease) };
    take(&store, anew).await;
    assert_eq!(history(&store, lease.key).await, ["again"]);
    assert_eq!(inbox(&store, lease.key).await, ["signal"]);
    let open = store.questions(lease.key).await.unwrap();
    assert_eq!(open.iter().map(|q| q.key.as_str()).collect::<Vec<_>>(), ["s"]);
    assert_eq!(store.activity("t".into()).await.unwrap(), None);
    assert!(store.activity("u".into()).await.unwrap().is_some());
    take(&store, effects(other, [write("k", Some("1"))])).await;
    store.cancel(operator(0), id("c"), cancel(2)).await.unwrap();
    assert_eq!(inbox(&store, lease.key).await, ["signal"], "nothing for an old operation");
    take(&store, Turn { first: 1, events: vec![bytes("x")], ..turn(lease) }).await;
}

/// The guards of a turn that begins anew see the task as it begins.
pub async fn a_restart_leaves_no_question_to_expire<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, effects(lease, [question(1, "q")])).await;
    let expire = Effect::ExpireQuestion { op: OpId(1), key: "q".into() };
    let anew = Turn { restart: true, ..effects(lease, [expire.clone()]) };
    assert_eq!(refused(store.turn(anew).await), Refusal::Guard(OpId(1)));
    assert_eq!(history(&store, lease.key).await, ["started"]);
    take(&store, effects(lease, [expire])).await;
}

/// The holder of a task that has expired may go on until it is cancelled.
pub async fn an_expired_task_can_take_its_turn<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, NewTask { expires: Some(at(1)), ..task("a") }).await;
    take(&store, Turn { at: at(5), ..turn(lease) }).await;
}
