//! Starting tasks.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use steadfast_core::{Moment, OpId, Status, Timestamp};

use super::{Fixture, make::*};
use crate::{
    Bond, Caller, Cancel, Dedup, Keyed, LATE, Lease, NewTask, Parent, Refusal, Since, Started,
    Store, TaskKey, TaskRow,
};

/// Every field comes back as it was given.
pub async fn a_started_task_reads_back_whole<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let root = start(&store, task("root")).await;
    let tags = BTreeMap::from([("a".into(), "1".into()), ("b".into(), String::new())]);
    let given = NewTask {
        tool: "other".into(),
        version: Some(u32::MAX),
        owner: Some(who("ann")),
        tags: tags.clone(),
        parent: Some(Parent { key: root, op: OpId(u32::MAX), notify: false }),
        created: Timestamp(-5),
        expires: Some(at(7)),
        about: vec![0, 255],
        view: Vec::new(),
        events: vec![vec![], vec![1]],
        ..task("a")
    };
    let lease = hold(&store, given).await;
    let expected = TaskRow {
        key: lease.key,
        id: id("a"),
        tool: "other".into(),
        version: Some(u32::MAX),
        owner: Some(who("ann")),
        status: Status::Running,
        created: Timestamp(-5),
        updated: Timestamp(-5),
        ended: None,
        expires: Some(at(7)),
        wake: None,
        parent: Some((root, OpId(u32::MAX))),
        desk: Some(store.desk()),
        bound: None,
        epoch: lease.epoch,
        deaths: 0,
        tags,
        about: vec![0, 255],
        view: Vec::new(),
        end: None,
    };
    assert_eq!(store.get(caller("ann"), id("a")).await.unwrap(), expected);
    assert_eq!(store.row(lease.key).await.unwrap(), Some(expected));
    let page = store.history(lease.key, crate::Order::OldestFirst, None, 9).await.unwrap();
    assert_eq!(page.events, [(0, vec![]), (1, vec![1])]);
}

/// What one handle starts the others see.
pub async fn a_started_task_is_seen_by_other_handles<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    assert_eq!(two.row(lease.key).await.unwrap().unwrap().desk, Some(one.desk()));
}

/// Desks are numbered from above zero.
pub async fn every_handle_has_a_desk_of_its_own<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    assert!(one.desk().0 > 0 && two.desk().0 > 0);
    assert_ne!(one.desk(), two.desk());
    let desk = one.desk();
    fixture.kill(one).await;
    assert_ne!(fixture.open().await.desk(), desk, "also one that died is not used again");
}

/// Later tasks have higher numbers, also after removals.
pub async fn numbers_rise<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let first = hold(&store, task("a")).await;
    take(&store, end(first)).await;
    store.purge(operator(0), id("a")).await.unwrap();
    let second = start(&store, task("b")).await;
    assert!(second > first.key);
}

/// Without `hold` anybody may take it.
pub async fn a_task_that_is_not_held_is_ready<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let started = one.start(ready("a")).await.unwrap();
    assert!(matches!(started, Started::New { lease: None, mail: false, .. }), "{started:?}");
    assert_eq!(get(&one, "a").await.desk, None);
    assert_eq!(names(&claim(&two, 0).await), ["a"]);
}

/// With `hold` nobody else can.
pub async fn a_held_task_is_not_ready<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    assert!(claim(&two, 99).await.is_empty());
    assert!(claim(&one, 99).await.is_empty());
    take(&one, turn(lease)).await;
}

/// It is neither held nor ready before its time.
pub async fn a_start_in_the_future_waits_for_it<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let started = store.start(later("a", 10)).await.unwrap();
    assert!(matches!(started, Started::New { lease: None, .. }), "{started:?}");
    assert_eq!(get(&store, "a").await.wake, Some(at(10)));
    assert_eq!(store.next_wake().await.unwrap(), Some(at(10)));
    assert!(claim(&store, 9).await.is_empty());
    let claimed = claim(&store, 10).await;
    assert_eq!(names(&claimed), ["a"]);
    assert_eq!(claimed[0].row.wake, None);
    assert_eq!(store.next_wake().await.unwrap(), None);
}

/// A wake that is not later than the start changes nothing.
pub async fn a_start_that_is_due_begins_at_once<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, later("a", 0)).await;
    assert_eq!(get(&store, "a").await.wake, None);
    take(&store, turn(lease)).await;
}

/// Nobody takes it, and it goes when its time is over.
pub async fn a_task_that_has_ended_before_it_began_is_only_found<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let ended = NewTask { status: Status::Cancelled, expires: Some(at(5)), ..deduped("a") };
    let ended = NewTask { hold: false, ..ended };
    let started = store.start(ended).await.unwrap();
    let Started::New { key, lease: None, mail: false } = started else { panic!("{started:?}") };
    assert_eq!(existing(&store, deduped("b")).await, key);
    assert_eq!(store.next_wake().await.unwrap(), None);
    assert!(claim(&store, 4).await.is_empty());
    let row = store.get(caller("ann"), id("a")).await.unwrap();
    assert_eq!((row.status, row.ended), (Status::Cancelled, Some(at(0))));
    let counts = store.counts(caller("ann")).await.unwrap();
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(Status::Cancelled, 1)]);
    // Its key is free from then on, also before it is removed.
    let late = NewTask { created: at(5), ..deduped("b") };
    assert!(matches!(store.start(late).await.unwrap(), Started::New { .. }));
    let swept = store.sweep(at(5), 9).await.unwrap();
    assert_eq!((swept.removed, swept.overdue.len()), (1, 0));
    assert_eq!(refused(store.get(caller("ann"), id("a")).await), Refusal::Unknown);
}

/// Whoever the first belongs to, and also when it has expired.
pub async fn an_id_is_used_once<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let first = NewTask { owner: Some(who("ann")), expires: Some(at(5)), ..task("a") };
    let key = start(&store, first).await;
    let again = NewTask { owner: Some(who("bob")), created: at(6), ..task("a") };
    assert_eq!(refused(store.start(again).await), Refusal::Exists);
    assert_eq!(store.list(all(), Default::default(), None, 9).await.unwrap().tasks.len(), 1);
    assert_eq!(history(&store, key).await, ["started"]);
}

/// The id is free again once the task is removed.
pub async fn a_removed_id_can_be_used_again<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let first = hold(&store, task("a")).await;
    take(&store, end(first)).await;
    store.purge(operator(0), id("a")).await.unwrap();
    let second = hold(&store, task("a")).await;
    assert_eq!(history(&store, second.key).await, ["started"]);
    assert_eq!(refused(store.turn(turn(first)).await), Refusal::Fenced);
}

fn deduped(name: &str) -> NewTask {
    NewTask { dedup: Some("once".into()), owner: Some(who("ann")), ..task(name) }
}

/// Asked for so long ago that whatever was freed was freed after that, and not too long.
fn long_ago(key: &str) -> Dedup {
    asked_ago(LATE / 2, key)
}

fn asked_ago(ago: Duration, key: &str) -> Dedup {
    let instant = Instant::now().checked_sub(ago).expect("there was such a time");
    Dedup { asked: Since { moment: Moment(i64::MIN), instant }, ..Dedup::from(key) }
}

/// The same, asked for that long ago.
fn waited(name: &str) -> NewTask {
    NewTask { dedup: Some(long_ago("once")), ..deduped(name) }
}

async fn existing(store: &impl Store, task: NewTask) -> TaskKey {
    let (key, freed) = found(store, task).await;
    assert!(!freed, "its key is free");
    key
}

/// The task that has its key, and whether that was freed.
async fn found(store: &impl Store, task: NewTask) -> (TaskKey, bool) {
    match store.start(task).await {
        Ok(Started::Existing { key, id, freed }) => {
            let row = store.row(key).await.unwrap().unwrap();
            assert_eq!(row.id, id);
            (key, freed)
        }
        other => panic!("started anew: {other:?}"),
    }
}

/// Starts what is asked for after a key was freed. A store of many processes need not know to the
/// millisecond that it was after.
async fn start_after_free(store: &impl Store, task: NewTask) -> TaskKey {
    for _ in 0..1_000 {
        if let Started::New { key, .. } = store.start(task.clone()).await.unwrap() {
            return key;
        }
    }
    panic!("a key that was freed is never free");
}

/// The first task is the answer, also after it has ended.
pub async fn a_dedup_key_starts_one_task<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let first: Lease = hold(&one, deduped("a")).await;
    assert_eq!(existing(&two, deduped("b")).await, first.key);
    assert_eq!(refused(two.get(operator(0), id("b")).await), Refusal::Unknown);
    take(&one, end(first)).await;
    assert_eq!(existing(&two, deduped("c")).await, first.key);
}

/// It is this principal's, whatever the tool.
pub async fn a_dedup_key_is_of_one_principal<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let first = start(&store, deduped("a")).await;
    start(&store, NewTask { owner: Some(who("bob")), ..deduped("b") }).await;
    let nobody = start(&store, NewTask { owner: None, ..deduped("c") }).await;
    let of_other_tool = NewTask { tool: "other".into(), ..deduped("d") };
    assert_eq!(existing(&store, of_other_tool).await, first);
    start(&store, NewTask { dedup: Some("twice".into()), ..deduped("e") }).await;
    assert_eq!(existing(&store, NewTask { owner: None, ..deduped("f") }).await, nobody);
}

/// A client that repeats its call with the same id is no intruder.
pub async fn a_dedup_key_comes_before_the_id<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let first = start(&store, deduped("a")).await;
    assert_eq!(existing(&store, deduped("a")).await, first);
}

/// The new task has the key then; the old one's removal does not take it away.
pub async fn a_dedup_key_outlives_a_task_that_expired_or_is_gone<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let old = hold(&store, deduped("a")).await;
    take(&store, end_at(old, Some(at(5)), false)).await;
    assert_eq!(existing(&store, NewTask { created: at(4), ..deduped("b") }).await, old.key);
    let new = hold(&store, NewTask { created: at(5), ..deduped("b") }).await;
    assert_eq!(store.sweep(at(5), 9).await.unwrap().removed, 1);
    assert_eq!(existing(&store, NewTask { created: at(6), ..deduped("c") }).await, new.key);
    take(&store, end(new)).await;
    store.purge(operator(6), id("b")).await.unwrap();
    start(&store, NewTask { created: at(7), ..deduped("d") }).await;
}

/// It can be asked for by its owner until it expires.
pub async fn a_task_is_found_by_its_dedup_key<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    start(&store, NewTask { expires: Some(at(5)), ..deduped("a") }).await;
    start(&store, NewTask { owner: None, ..deduped("b") }).await;
    let by = |name: &str, n| Caller { principal: Some(who(name)), now: at(n) };
    let keyed = async |caller| store.keyed(caller, "once".into()).await.unwrap();
    let held_by = |name| Some(Keyed { id: id(name), freed: None });
    assert_eq!(keyed(by("ann", 4)).await, held_by("a"));
    assert_eq!(keyed(by("ann", 5)).await, None);
    assert_eq!(keyed(by("bob", 4)).await, None);
    assert_eq!(keyed(operator(4)).await, held_by("b"));
    assert_eq!(store.keyed(by("ann", 4), "twice".into()).await.unwrap(), None);
    store.unbind(vec![(id("b"), Bond::Key)], since(2)).await.unwrap();
    let Some(Keyed { freed: Some(_), .. }) = keyed(operator(4)).await else { panic!() };
}

/// The task itself stays as it is.
pub async fn a_freed_dedup_key_can_be_used_again<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let first = hold(&store, deduped("a")).await;
    let before = get(&store, "a").await;
    let freed = vec![(id("a"), Bond::Key), (id("nobody"), Bond::Key), (id("a"), Bond::Desk)];
    store.unbind(freed.clone(), since(1)).await.unwrap();
    assert_eq!(get(&store, "a").await, before);
    let second = start_after_free(&store, NewTask { created: at(2), ..deduped("b") }).await;
    // Freed once more, or gone, the first takes nothing from the second.
    store.unbind(freed, since(3)).await.unwrap();
    take(&store, end(first)).await;
    store.purge(operator(0), id("a")).await.unwrap();
    assert_eq!(existing(&store, deduped("c")).await, second);
}

/// What it asked for was done meanwhile. Who asks now asks for something else.
pub async fn who_asked_before_a_key_was_freed_finds_its_task<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let first = hold(&one, deduped("a")).await;
    take(&one, end(first)).await;
    one.unbind(vec![(id("a"), Bond::Key)], since(5)).await.unwrap();
    assert_eq!(found(&two, NewTask { created: at(6), ..waited("b") }).await, (first.key, true));
    // That it is freed once more changes nothing for who asks then.
    one.unbind(vec![(id("a"), Bond::Key)], since(9)).await.unwrap();
    let second = start_after_free(&two, NewTask { created: at(7), ..deduped("c") }).await;
    assert_eq!(existing(&one, NewTask { created: at(8), ..waited("d") }).await, second);
    assert_eq!(refused(two.get(operator(0), id("b")).await), Refusal::Unknown);
}

/// Also if nobody has its key, and if it is to have that of another. Nothing is found by it either.
pub async fn what_was_asked_for_too_long_ago_is_refused<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let late = asked_ago(LATE + Duration::from_secs(1), "once");
    let too_late = |name: &str| NewTask { dedup: Some(late.clone()), ..deduped(name) };
    assert_eq!(refused(store.start(too_late("a")).await), Refusal::Late);
    let first = start(&store, waited("a")).await;
    assert_eq!(refused(store.start(too_late("b")).await), Refusal::Late);
    let instead = Dedup { instead_of: Some(id("a")), ..late.clone() };
    let instead = NewTask { dedup: Some(instead), ..deduped("b") };
    assert_eq!(refused(store.start(instead).await), Refusal::Late);
    assert_eq!(refused(store.get(operator(0), id("b")).await), Refusal::Unknown);
    assert_eq!(existing(&store, waited("b")).await, first);
}

/// Freed or not; but from no other.
pub async fn a_task_has_the_key_of_the_one_it_is_instead_of<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let instead = |name: &str, of: &str| {
        let dedup = Dedup { instead_of: Some(id(of)), ..waited("x").dedup.unwrap() };
        NewTask { dedup: Some(dedup), ..deduped(name) }
    };
    let first = start(&store, deduped("a")).await;
    assert_eq!(existing(&store, instead("b", "other")).await, first);
    let second = start(&store, instead("b", "a")).await;
    assert_eq!(existing(&store, instead("c", "a")).await, second);
    store.unbind(vec![(id("a"), Bond::Key), (id("b"), Bond::Key)], since(1)).await.unwrap();
    let third = start(&store, instead("c", "b")).await;
    assert_eq!(existing(&store, waited("d")).await, third);
}

/// Whether its own key is in use or not. One that was not cancelled is in nobody's way.
pub async fn a_start_finds_that_it_was_taken_back_under_another_key<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let unless = |name: &str, dedup: Dedup| {
        let dedup = Dedup { unless: Some("other".into()), ..dedup };
        NewTask { dedup: Some(dedup), ..deduped(name) }
    };
    let other = |name: &str| NewTask { dedup: Some("other".into()), ..deduped(name) };
    let running = hold(&one, other("a")).await;
    let first = start(&two, unless("b", "once".into())).await;
    take(&one, end(running)).await;
    assert_eq!(existing(&two, unless("c", "once".into())).await, first);
    store_free(&one, "a").await;
    let withdrawn = NewTask { status: Status::Cancelled, hold: false, ..other("d") };
    let withdrawn =
        start_after_free(&one, NewTask { created: at(2), expires: Some(at(9)), ..withdrawn }).await;
    assert_eq!(existing(&two, unless("e", "once".into())).await, withdrawn);
    assert_eq!(existing(&two, unless("e", "new".into())).await, withdrawn);
    assert_eq!(refused(two.get(operator(0), id("e")).await), Refusal::Unknown);
    // It is another principal's own affair, and so it is later.
    start(&two, NewTask { owner: Some(who("bob")), ..unless("f", "new".into()) }).await;
    start(&two, NewTask { created: at(9), ..unless("g", "newer".into()) }).await;
    // The same for who was not served yet when it was freed.
    store_free(&one, "d").await;
    assert_eq!(found(&two, unless("e", long_ago("new"))).await, (withdrawn, true));
    start_after_free(&two, NewTask { created: at(3), ..unless("e", "new".into()) }).await;
}

async fn store_free(store: &impl Store, name: &str) {
    store.unbind(vec![(id(name), Bond::Key)], since(1)).await.unwrap();
}

/// Or leaves it as it is.
pub async fn a_cancel_frees_the_key_if_it_says_so<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let first = start(&store, deduped("a")).await;
    store.cancel(operator(0), id("a"), cancel(1)).await.unwrap();
    assert_eq!(existing(&store, waited("b")).await, first);
    let other = |name: &str| NewTask { owner: Some(who("bob")), ..waited(name) };
    let second = start(&store, other("b")).await;
    let frees = Cancel { frees: Some(since(1)), ..cancel(1) };
    store.cancel(operator(0), id("b"), frees).await.unwrap();
    assert_eq!(found(&store, other("c")).await, (second, true));
    let later = NewTask { created: at(2), owner: Some(who("bob")), ..deduped("c") };
    start_after_free(&store, later).await;
}

/// Wherever it lies, until it is freed.
pub async fn a_bound_task_says_whose_it_is<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    start(&one, NewTask { bound: true, ..ready("a") }).await;
    hold(&two, NewTask { bound: true, ..task("b") }).await;
    start(&one, ready("c")).await;
    assert_eq!(get(&two, "a").await.bound, Some(one.desk()));
    assert_eq!(get(&one, "b").await.bound, Some(two.desk()));
    assert_eq!(get(&one, "c").await.bound, None);
    let claimed = claim(&two, 9).await;
    assert_eq!(claimed[0].row.bound, Some(one.desk()));
    one.unbind(vec![(id("a"), Bond::Desk)], since(1)).await.unwrap();
    assert_eq!(get(&two, "a").await.bound, None);
    assert_eq!(get(&two, "a").await.desk, Some(two.desk()));
    take(&two, turn(claimed[0].lease())).await;
}
