//! Suspending and resuming.

use steadfast_core::Status;

use super::{Fixture, make::*};
use crate::{After, Caller, NewTask, Refusal, Store, Touched, Turn};

/// It leaves the ready pile, and no wake or message brings it back; the message is kept.
pub async fn a_suspended_task_is_not_ready<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    start(&store, ready("ready")).await;
    let parked = hold(&store, task("parked")).await;
    take(&store, park(parked, Some(at(10)))).await;
    for name in ["ready", "parked"] {
        let touched = store.suspend(operator(0), id(name), suspend(3)).await.unwrap();
        assert!(!touched.here);
        let row = get(&store, name).await;
        assert_eq!((row.status, row.updated, row.wake), (Status::Suspended, at(3), None));
        assert_eq!(row.view, bytes("suspended view"));
        assert!(!send(&store, name, "m").await.here);
    }
    assert!(claim(&store, 99).await.is_empty());
    assert_eq!(store.next_wake().await.unwrap(), None);
    for name in ["parked", "ready"] {
        let touched = store.resume(operator(0), id(name), resume(5)).await.unwrap();
        assert_eq!(touched, Touched { key: get(&store, name).await.key, here: false });
    }
    let claimed = claim(&store, 0).await;
    assert_eq!(names(&claimed), ["parked", "ready"]);
    for claimed in claimed {
        assert_eq!(claimed.inbox.iter().map(text).collect::<Vec<_>>(), ["m"]);
        let row = claimed.row;
        assert_eq!((row.status, row.updated), (Status::Running, at(5)));
        assert_eq!(row.view, bytes("resumed view"));
    }
}

/// The holder is left to finish; its turns can't lift the suspension.
pub async fn a_suspended_task_stays_suspended_until_its_holder_lets_go<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    let touched = one.suspend(operator(0), id("a"), suspend(3)).await.unwrap();
    assert_eq!(touched, Touched { key: lease.key, here: true });
    let view = Some((Status::Waiting, bytes("new view")));
    take(&one, Turn { first: 1, events: vec![bytes("x")], view, ..turn(lease) }).await;
    let row = get(&two, "a").await;
    assert_eq!((row.status, row.view), (Status::Suspended, bytes("new view")));
    assert_eq!((row.desk, row.epoch), (Some(one.desk()), lease.epoch));
    send(&two, "a", "m").await;
    let turned = take(&one, park(lease, Some(at(10)))).await;
    assert!(!turned.ready);
    assert_eq!(get(&two, "a").await.wake, None);
    assert!(claim(&two, 99).await.is_empty());
    two.resume(operator(0), id("a"), resume(5)).await.unwrap();
    assert_eq!(claim(&two, 0).await[0].inbox.len(), 1);
}

/// Also one that yields.
pub async fn a_suspended_task_that_yields_waits_for_its_resume<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    store.suspend(operator(0), id("a"), suspend(3)).await.unwrap();
    take(&store, Turn { after: After::Yield, ..turn(lease) }).await;
    assert!(claim(&store, 99).await.is_empty());
    store.resume(operator(0), id("a"), resume(5)).await.unwrap();
    assert_eq!(claim(&store, 0).await.len(), 1);
}

/// It was resumed before its holder let go: the lease is as good as before.
pub async fn a_held_task_is_resumed_in_place<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    two.suspend(operator(0), id("a"), suspend(3)).await.unwrap();
    assert!(!two.resume(operator(0), id("a"), resume(4)).await.unwrap().here);
    assert!(claim(&two, 99).await.is_empty());
    take(&one, turn(lease)).await;
    assert_eq!(get(&one, "a").await.status, Status::Running);
}

/// A suspended task may still end, by itself or by a cancel.
pub async fn a_suspended_task_can_end<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for (name, how) in [("a", Status::Completed), ("b", Status::Cancelled)] {
        let lease = hold(&store, task(name)).await;
        store.suspend(operator(0), id(name), suspend(3)).await.unwrap();
        match how {
            Status::Completed => drop(take(&store, end(lease)).await),
            _ => drop(store.cancel(operator(0), id(name), cancel(4)).await.unwrap()),
        }
        assert_eq!(get(&store, name).await.status, how);
    }
    assert_eq!(names(&claim(&store, 0).await), ["b"]);
}

/// The time of its start is kept over a suspension.
pub async fn a_suspended_start_waits_for_its_time_again<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for (name, back) in [("early", 5), ("late", 10)] {
        start(&store, later(name, 10)).await;
        store.suspend(operator(0), id(name), suspend(3)).await.unwrap();
        assert_eq!(get(&store, name).await.wake, Some(at(10)));
        assert_eq!(store.next_wake().await.unwrap(), None);
        assert!(claim(&store, 99).await.is_empty());
        store.resume(operator(0), id(name), resume(back)).await.unwrap();
        let row = get(&store, name).await;
        if back < 10 {
            assert_eq!((row.status, row.wake), (Status::Queued, Some(at(10))));
            assert!(claim(&store, 9).await.is_empty());
            assert_eq!(names(&claim(&store, 10).await), ["early"]);
        } else {
            assert_eq!((row.status, row.wake), (Status::Running, None));
            assert_eq!(names(&claim(&store, 0).await), ["late"]);
        }
    }
}

/// A task that says of itself that it is stuck waits like one that was suspended.
pub async fn a_stuck_task_waits_for_its_resume<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    send(&store, "a", "m").await;
    let view = Some((Status::Stuck, bytes("why")));
    let turned = take(&store, Turn { view, ..park(lease, Some(at(5))) }).await;
    assert!(!turned.ready);
    assert!(claim(&store, 99).await.is_empty());
    store.resume(operator(0), id("a"), resume(6)).await.unwrap();
    assert_eq!(claim(&store, 0).await[0].row.status, Status::Running);
}

/// Suspended twice or resumed for nothing is a mistake that the caller should hear of.
pub async fn halting_is_refused_in_the_wrong_status<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, NewTask { owner: Some(who("ann")), ..task("a") }).await;
    let running = store.resume(caller("ann"), id("a"), resume(1)).await;
    assert_eq!(refused(running), Refusal::WrongStatus(Status::Running));
    store.suspend(caller("ann"), id("a"), suspend(2)).await.unwrap();
    let twice = store.suspend(caller("ann"), id("a"), suspend(3)).await;
    assert_eq!(refused(twice), Refusal::WrongStatus(Status::Suspended));
    assert_eq!(get(&store, "a").await.updated, at(2));
    take(&store, end_at(lease, Some(at(5)), false)).await;
    let ended = Refusal::Terminal(Status::Completed);
    let late = Caller { now: at(5), ..caller("ann") };
    for (by, why) in
        [(caller("bob"), Refusal::Unknown), (late, Refusal::Expired), (caller("ann"), ended)]
    {
        assert_eq!(refused(store.suspend(by.clone(), id("a"), suspend(4)).await), why);
        assert_eq!(refused(store.resume(by, id("a"), resume(4)).await), why);
    }
}

/// A stuck task can be suspended too, and is resumed once.
pub async fn a_stuck_task_can_be_suspended<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, Turn { view: Some((Status::Stuck, vec![])), ..park(lease, None) }).await;
    store.suspend(operator(0), id("a"), suspend(3)).await.unwrap();
    assert_eq!(get(&store, "a").await.status, Status::Suspended);
    store.resume(operator(0), id("a"), resume(4)).await.unwrap();
    assert_eq!(claim(&store, 0).await.len(), 1);
}
