//! Desks: closing one, and what becomes of what lies on a dead one.

use steadfast_core::Status;

use super::{Fixture, make::*};
use crate::{Adopted, Bond, Desk, Error, NewTask, Refusal, Store, Turn};

/// A handle dies with a task and an activity; another opens on what it left.
async fn left<F: Fixture>(fixture: &F) -> (F::Store, Desk) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    take(&one, effects(lease, [activity(1, "t")])).await;
    assert_eq!(one.claim_activities(work(0)).await.unwrap().len(), 1);
    let desk = one.desk();
    fixture.kill(one).await;
    (two, desk)
}

/// A live desk is not dead, nor one that held nothing.
pub async fn a_desk_is_dead_when_its_process_is_gone<F: Fixture>(fixture: &F) {
    let (idle, two) = (fixture.open().await, fixture.open().await);
    hold(&two, task("b")).await;
    fixture.kill(idle).await;
    assert!(two.dead().await.unwrap().is_empty());
    let (three, desk) = left(fixture).await;
    assert_eq!(three.dead().await.unwrap(), [desk]);
    assert_eq!(two.dead().await.unwrap(), [desk]);
    assert!(claim(&two, 99).await.is_empty(), "nothing moves by itself");
}

/// An activity is reason enough.
pub async fn a_desk_with_only_an_activity_is_dead_too<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&two, task("a")).await;
    take(&two, effects(lease, [activity(1, "t")])).await;
    one.claim_activities(work(0)).await.unwrap();
    let desk = one.desk();
    fixture.kill(one).await;
    assert_eq!(two.dead().await.unwrap(), [desk]);
    let expected = Adopted { activities: 1, ..Adopted::default() };
    assert_eq!(two.adopt(desk, poison(5)).await.unwrap(), expected);
    assert!(two.dead().await.unwrap().is_empty());
}

/// Any survivor can go on with it.
pub async fn what_lies_on_a_dead_desk_is_adopted<F: Fixture>(fixture: &F) {
    let (store, desk) = left(fixture).await;
    let (before, work_before) = (get(&store, "a").await, store.activity("t".into()).await.unwrap());
    let expected = Adopted { ready: 1, poisoned: 0, activities: 1 };
    assert_eq!(store.adopt(desk, poison(5)).await.unwrap(), expected);
    assert!(store.dead().await.unwrap().is_empty());
    let row = get(&store, "a").await;
    assert_eq!((row.deaths, row.desk, row.status), (1, None, Status::Running));
    assert!(row.epoch > before.epoch);
    assert_eq!(names(&claim(&store, 0).await), ["a"]);
    let work = store.claim_activities(work(0)).await.unwrap().remove(0);
    assert_eq!(work.attempt, 2);
    let stale = crate::ActivityEnd { lease: lease_of(&work_before.unwrap()), body: vec![] };
    assert_eq!(refused(store.end_activity(stale).await), Refusal::Fenced);
    let again = store.adopt(desk, poison(5)).await.unwrap();
    assert_eq!(again, Adopted::default(), "there is nothing left to adopt");
}

/// Of two survivors one adopts, and the death is counted once.
pub async fn a_dead_desk_is_adopted_once<F: Fixture>(fixture: &F) {
    let (one, desk) = left(fixture).await;
    let two = fixture.open().await;
    assert_eq!(one.adopt(desk, poison(5)).await.unwrap().ready, 1);
    assert_eq!(two.adopt(desk, poison(5)).await.unwrap(), Adopted::default());
    assert_eq!(get(&two, "a").await.deaths, 1);
}

/// Neither one's own nor another's.
pub async fn a_live_desk_is_not_adopted<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    for store in [&one, &two] {
        assert_eq!(store.adopt(one.desk(), poison(1)).await.unwrap(), Adopted::default());
    }
    take(&one, turn(lease)).await;
    assert_eq!(get(&one, "a").await.deaths, 0);
}

/// Dies with the task `a` after taking it, and has it adopted.
async fn die_with_it<F: Fixture>(fixture: &F, progress: bool) -> Adopted {
    let one = fixture.open().await;
    let lease = claim(&one, 0).await.remove(0).lease();
    take(&one, Turn { progress, ..turn(lease) }).await;
    let desk = one.desk();
    fixture.kill(one).await;
    fixture.open().await.adopt(desk, poison(3)).await.unwrap()
}

/// It is set aside, visible, and waits for somebody to resume it.
pub async fn a_task_that_kills_its_processes_is_set_aside<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    start(&store, ready("a")).await;
    for deaths in 1..3 {
        assert_eq!(die_with_it(fixture, false).await.ready, 1);
        assert_eq!(get(&store, "a").await.deaths, deaths);
    }
    let expected = Adopted { ready: 0, poisoned: 1, activities: 0 };
    assert_eq!(die_with_it(fixture, false).await, expected);
    let row = get(&store, "a").await;
    assert_eq!((row.status, row.deaths, row.updated), (Status::Stuck, 3, at(9)));
    assert_eq!((row.view, row.desk), (bytes("poisoned view"), None));
    send(&store, "a", "m").await;
    assert!(claim(&store, 99).await.is_empty());
    store.resume(operator(0), id("a"), resume(10)).await.unwrap();
    let row = claim(&store, 0).await.remove(0).row;
    assert_eq!((row.status, row.deaths), (Status::Running, 0));
}

/// Deaths count only since the last progress.
pub async fn progress_forgets_deaths<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    start(&store, ready("a")).await;
    die_with_it(fixture, false).await;
    die_with_it(fixture, false).await;
    assert_eq!(die_with_it(fixture, true).await.ready, 1);
    assert_eq!(get(&store, "a").await.deaths, 1);
}

/// It is not made ready or stuck: it is suspended.
pub async fn a_suspended_task_on_a_dead_desk_waits_for_its_resume<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    hold(&one, task("a")).await;
    one.suspend(operator(0), id("a"), suspend(1)).await.unwrap();
    let desk = one.desk();
    fixture.kill(one).await;
    assert_eq!(two.adopt(desk, poison(1)).await.unwrap(), Adopted::default());
    let row = get(&two, "a").await;
    assert_eq!((row.status, row.deaths, row.desk), (Status::Suspended, 1, None));
    assert!(two.dead().await.unwrap().is_empty());
    assert!(claim(&two, 99).await.is_empty());
    two.resume(operator(0), id("a"), resume(2)).await.unwrap();
    assert_eq!(claim(&two, 0).await[0].row.deaths, 0);
}

/// A terminal state never changes, and its last work is not repeated for ever.
pub async fn an_ended_task_on_a_dead_desk_keeps_its_status<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let one = fixture.open().await;
    let lease = hold(&one, task("a")).await;
    take(&one, end_at(lease, None, true)).await;
    let desk = one.desk();
    fixture.kill(one).await;
    assert_eq!(store.adopt(desk, poison(3)).await.unwrap().ready, 1);
    die_with_it(fixture, false).await;
    assert_eq!(die_with_it(fixture, false).await.poisoned, 1);
    let row = get(&store, "a").await;
    assert_eq!((row.status, row.deaths), (Status::Completed, 3));
    assert_eq!((row.view, row.end), (bytes("view"), Some(bytes("end"))));
    assert!(claim(&store, 99).await.is_empty());
}

/// A task that was cancelled because it kills processes gets a fresh count for its last work.
pub async fn a_cancel_forgets_deaths<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    start(&store, ready("a")).await;
    for _ in 0..3 {
        die_with_it(fixture, false).await;
    }
    store.cancel(operator(0), id("a"), cancel(10)).await.unwrap();
    assert_eq!(claim(&store, 0).await[0].row.deaths, 0);
}

/// Others can take it at once, and nothing counts as a death or as an attempt.
pub async fn closing_gives_everything_back<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    hold(&one, task("halted")).await;
    one.suspend(operator(0), id("halted"), suspend(1)).await.unwrap();
    take(&one, effects(lease, [activity(1, "t")])).await;
    let work_before = one.claim_activities(work(0)).await.unwrap().remove(0);
    one.close().await.unwrap();
    assert!(one.held().await.unwrap().is_empty());
    assert!(one.held_activities().await.unwrap().is_empty());
    assert_eq!(refused(two.turn(turn(lease)).await), Refusal::Fenced);
    let stale = crate::ActivityEnd { lease: lease_of(&work_before), body: vec![] };
    assert_eq!(refused(two.end_activity(stale).await), Refusal::Fenced);
    assert!(!two.dead().await.unwrap().contains(&one.desk()), "there is nothing to adopt");
    let claimed = claim(&two, 0).await;
    assert_eq!(names(&claimed), ["a"]);
    assert_eq!(claimed[0].row.deaths, 0);
    assert_eq!(two.claim_activities(work(0)).await.unwrap()[0].attempt, 1);
}

/// Its process may live on for a while: nobody goes on with what is of no use without it, wherever it is.
pub async fn what_is_bound_to_a_closed_desk_is_abandoned_at_once<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    start(&one, NewTask { bound: true, ..ready("elsewhere") }).await;
    assert_eq!(names(&claim(&two, 0).await), ["elsewhere"]);
    hold(&one, NewTask { bound: true, ..task("here") }).await;
    let desk = one.desk();
    assert!(two.is_alive(desk).await.unwrap());
    one.close().await.unwrap();
    for store in [&one, &two] {
        assert!(!store.is_alive(desk).await.unwrap());
    }
    let claimed = claim(&two, 0).await;
    assert_eq!((names(&claimed), claimed[0].row.bound), (vec!["here"], Some(desk)));
    assert_eq!(get(&two, "elsewhere").await.bound, Some(desk));
}

/// Nobody would look after it. What there is can be read.
pub async fn a_closed_handle_changes_nothing<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    let desk = one.desk();
    one.close().await.unwrap();
    one.close().await.unwrap();
    let before = get(&two, "a").await;
    let late = [
        one.turn(turn(lease)).await.err(),
        one.start(task("b")).await.err(),
        one.claim(wanted(0, 9)).await.err(),
        one.claim_activities(work(0)).await.err(),
        one.unbind(vec![(id("a"), Bond::Desk)], since(1)).await.err(),
        one.cancel(operator(0), id("a"), cancel(1)).await.err(),
        one.adopt(two.desk(), poison(1)).await.err(),
        one.touch_session("s".into(), at(9)).await.err(),
        one.sweep(at(9), 9).await.err(),
    ];
    for late in late {
        assert!(matches!(late, Some(Error::Unavailable(_))), "{late:?}");
    }
    assert_eq!(get(&one, "a").await, before);
    assert_eq!(names(&claim(&two, 0).await), ["a"]);
    assert_eq!(one.desk(), desk);
}

/// What a killed handle had acknowledged is there; what it held is as it left it.
pub async fn what_was_acknowledged_outlives_the_process<F: Fixture>(fixture: &F) {
    let one = fixture.open().await;
    let lease = hold(&one, task("a")).await;
    let all = vec![question(1, "q"), activity(2, "t"), write("k", Some("v"))];
    let turn = Turn { first: 1, events: vec![bytes("x")], effects: all, ..turn(lease) };
    take(&one, turn).await;
    send(&one, "a", "m").await;
    fixture.kill(one).await;
    let two = fixture.open().await;
    assert_eq!(history(&two, lease.key).await, ["started", "x"]);
    assert_eq!(inbox(&two, lease.key).await, ["m"]);
    assert_eq!(two.questions(lease.key).await.unwrap().len(), 1);
    assert!(two.activity("t".into()).await.unwrap().is_some());
    let state = two.state("scope".into(), "k".into()).await.unwrap();
    assert_eq!(state.value, Some(bytes("v")));
    assert_eq!(refused(two.turn(super::make::turn(lease)).await), Refusal::Fenced);
}
