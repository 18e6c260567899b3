//! Cancelling.

use steadfast_core::{OpId, Status};

use super::{Fixture, make::*};
use crate::{After, Caller, Effect, NewTask, Parent, Refusal, Store, Touched, Turn};

/// The holder's lease is worthless from then on.
pub async fn a_cancelled_task_is_fenced_and_ready<F: Fixture>(fixture: &F) {
    let one = fixture.open().await;
    let lease = hold(&one, task("a")).await;
    let touched = one.cancel(operator(0), id("a"), cancel(5)).await.unwrap();
    assert_eq!(touched, [Touched { key: lease.key, here: true }]);
    assert_eq!(refused(one.turn(turn(lease)).await), Refusal::Fenced);
    let row = get(&one, "a").await;
    assert_eq!((row.status, row.ended, row.updated), (Status::Cancelled, Some(at(5)), at(5)));
    assert_eq!((row.end, row.view), (Some(bytes("cancelled end")), bytes("cancelled view")));
    assert_eq!((row.expires, row.desk), (Some(at(1_000_000)), None));
    assert!(row.epoch > lease.epoch);
    let found = claim(&one, 0).await.remove(0);
    assert_eq!(found.history, [bytes("started"), bytes("cancelled")]);
    take(&one, park(found.lease(), None)).await;
    assert!(claim(&one, 99).await.is_empty());
}

/// What its holder is at must have stopped before it is taken back.
pub async fn a_cancelled_task_is_its_holders_until_that_puts_it_back<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    let events = vec![bytes("a step")];
    take(&one, Turn { first: 1, events, ..turn(lease) }).await;
    let changed = one.changed();
    let touched = two.cancel(operator(0), id("a"), cancel(5)).await.unwrap();
    assert_eq!(touched, [Touched { key: lease.key, here: false }]);
    notified(&changed).await;
    assert_eq!(refused(one.turn(turn(lease)).await), Refusal::Fenced);
    let row = get(&two, "a").await;
    assert_eq!((row.status, row.desk), (Status::Cancelled, Some(one.desk())));
    assert!(claim(&one, 0).await.is_empty() && claim(&two, 0).await.is_empty());
    let held = one.held().await.unwrap();
    assert_eq!((held.len(), held[0].lease.key), (1, lease.key));
    assert!(held[0].lease.epoch > lease.epoch);
    take(&one, Turn { after: After::Yield, ..turn(held[0].lease) }).await;
    let found = claim(&two, 0).await.remove(0);
    assert_eq!(found.history, [bytes("started"), bytes("a step"), bytes("cancelled")]);
    take(&two, park(found.lease(), None)).await;
}

/// One that is dead puts nothing back.
pub async fn a_cancelled_task_of_a_dead_desk_is_adopted<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    hold(&one, task("a")).await;
    let desk = one.desk();
    fixture.kill(one).await;
    two.cancel(operator(0), id("a"), cancel(5)).await.unwrap();
    assert_eq!(two.dead().await.unwrap(), [desk]);
    assert_eq!(two.adopt(desk, poison(5)).await.unwrap().ready, 1);
    let found = claim(&two, 0).await.remove(0);
    assert_eq!(found.row.status, Status::Cancelled);
}

/// So that the engine can stop it.
pub async fn a_cancel_says_whether_this_desk_held_it<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let touched = store.cancel(operator(0), id("a"), cancel(5)).await.unwrap();
    assert_eq!(touched, [Touched { key: lease.key, here: true }]);
    assert!(store.held().await.unwrap().is_empty());
}

/// Parked, waiting for its start, halted or set aside: it is ended, and somebody cleans up.
pub async fn a_task_is_cancelled_wherever_it_is<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let parked = hold(&store, task("parked")).await;
    take(&store, park(parked, Some(at(50)))).await;
    start(&store, ready("ready")).await;
    start(&store, later("later", 50)).await;
    let halted = hold(&store, task("halted")).await;
    store.suspend(operator(0), id("halted"), suspend(1)).await.unwrap();
    take(&store, park(halted, None)).await;
    for name in ["parked", "ready", "later", "halted"] {
        store.cancel(operator(0), id(name), cancel(5)).await.unwrap();
        assert_eq!(get(&store, name).await.status, Status::Cancelled);
    }
    assert_eq!(store.next_wake().await.unwrap(), None);
    assert_eq!(claim(&store, 0).await.len(), 4);
}

/// Questions, activities, watches and mail go.
pub async fn a_cancelled_task_leaves_nothing_open<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let other = hold(&store, task("b")).await;
    take(&store, effects(lease, [question(1, "q"), activity(2, "t"), watch("k")])).await;
    let work = store.claim_activities(work(0)).await.unwrap().remove(0);
    send(&store, "a", "m").await;
    store.cancel(operator(0), id("a"), cancel(5)).await.unwrap();
    assert!(store.questions(lease.key).await.unwrap().is_empty());
    assert!(inbox(&store, lease.key).await.is_empty());
    assert_eq!(store.activity("t".into()).await.unwrap(), None);
    assert!(store.held_activities().await.unwrap().is_empty());
    let end = crate::ActivityEnd { lease: lease_of(&work), body: vec![] };
    assert_eq!(refused(store.end_activity(end).await), Refusal::Fenced);
    assert!(take(&store, effects(other, [write("k", Some("v"))])).await.touched.is_empty());
    assert!(inbox(&store, lease.key).await.is_empty());
}

/// A terminal state never changes.
pub async fn a_cancel_is_refused_in_the_order_of_the_checks<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, NewTask { owner: Some(who("ann")), ..task("a") }).await;
    take(&store, end_at(lease, Some(at(5)), false)).await;
    let as_at = |name: &str, n| Caller { principal: Some(who(name)), now: at(n) };
    let cancel = async |by| refused(store.cancel(by, id("a"), cancel(2)).await);
    assert_eq!(cancel(as_at("bob", 5)).await, Refusal::Unknown);
    assert_eq!(cancel(as_at("ann", 5)).await, Refusal::Expired);
    assert_eq!(cancel(as_at("ann", 4)).await, Refusal::Terminal(Status::Completed));
    assert_eq!(
        refused(store.cancel(operator(0), id("b"), super::make::cancel(2)).await),
        Refusal::Unknown
    );
    assert_eq!(history(&store, lease.key).await, ["started"]);
}

/// If it wants to know.
pub async fn a_cancelled_child_tells_its_parent<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let told = start(&store, NewTask { parent: Some(parent(lease.key, 4)), ..task("b") }).await;
    let quiet = Some(Parent { notify: false, ..parent(lease.key, 5) });
    start(&store, NewTask { parent: quiet, ..task("c") }).await;
    let touched = store.cancel(operator(0), id("b"), cancel(5)).await.unwrap();
    let expected = [Touched { key: lease.key, here: true }, Touched { key: told, here: true }];
    assert_eq!(touched, expected);
    store.cancel(operator(0), id("c"), cancel(5)).await.unwrap();
    let mail = store.inbox(lease.key, 0).await.unwrap();
    assert_eq!(mail.len(), 1);
    assert_eq!((mail[0].op, text(&mail[0])), (Some(OpId(4)), "child cancelled".into()));
}

/// Nothing happens to what has ended, is not there or is the task itself.
pub async fn a_task_cancels_others_in_its_turn<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let other = hold(&store, NewTask { owner: Some(who("ann")), ..task("b") }).await;
    take(&store, effects(other, [activity(1, "t")])).await;
    let running = store.claim_activities(work(0)).await.unwrap().remove(0).key;
    let over = start(&store, NewTask { expires: Some(at(0)), ..ready("over") }).await;
    let ended = hold(&store, task("ended")).await;
    take(&store, end(ended)).await;
    let cancel = |name: &str| Effect::CancelTask { id: id(name), cancel: Box::new(cancel(1)) };
    let all = ["b", "over", "ended", "none", "a"].map(cancel);
    let turned = take(&store, effects(lease, all)).await;
    let expected = [Touched { key: other.key, here: true }, Touched { key: over, here: false }];
    assert_eq!(turned.touched, expected);
    assert_eq!(turned.cancelled, [running]);
    assert_eq!(get(&store, "b").await.status, Status::Cancelled);
    assert_eq!(store.row(over).await.unwrap().unwrap().status, Status::Cancelled);
    assert_eq!(get(&store, "ended").await.status, Status::Completed);
    assert_eq!(get(&store, "a").await.status, Status::Running);
    assert_eq!(refused(store.turn(turn(other)).await), Refusal::Fenced);
    take(&store, turn(lease)).await;
}
