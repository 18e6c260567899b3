//! Taking tasks from the ready pile.

use steadfast_core::Status;

use super::{Fixture, make::*};
use crate::{After, ClaimTasks, NewTask, Refusal, Store, Turn};

/// All that is needed to run it comes with it.
pub async fn a_claimed_task_comes_with_history_and_inbox<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let first = hold(&one, task("a")).await;
    let events = vec![bytes("x"), bytes("y")];
    take(&one, Turn { first: 1, events, ..turn(first) }).await;
    send(&one, "a", "m1").await;
    send(&one, "a", "m2").await;
    assert!(take(&one, park(first, None)).await.ready);
    let claimed = claim(&two, 0).await.remove(0);
    assert_eq!(claimed.history, [bytes("started"), bytes("x"), bytes("y")]);
    assert_eq!(claimed.inbox.iter().map(text).collect::<Vec<_>>(), ["m1", "m2"]);
    assert_eq!(claimed.row, get(&one, "a").await);
    assert_eq!(claimed.row.desk, Some(two.desk()));
    assert!(claimed.row.epoch > first.epoch);
    take(&two, turn(claimed.lease())).await;
}

/// Of two handles one gets it.
pub async fn a_task_is_claimed_once<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    start(&one, ready("a")).await;
    assert_eq!(claim(&one, 0).await.len(), 1);
    assert!(claim(&two, 0).await.is_empty());
    assert!(claim(&one, 0).await.is_empty());
}

/// The limit holds, and what is left can be claimed.
pub async fn a_claim_takes_no_more_than_its_limit<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for name in ["a", "b", "c"] {
        start(&store, ready(name)).await;
    }
    assert!(claim_some(&store, 0, 0).await.is_empty());
    assert_eq!(names(&claim_some(&store, 0, 2).await), ["a", "b"]);
    assert_eq!(names(&claim_some(&store, 0, 2).await), ["c"]);
}

/// A process takes only what it can run, and an unserved task is not in its way.
pub async fn a_claim_takes_only_its_tools_and_versions<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let of = |name: &str, tool: &str, version| NewTask {
        tool: tool.into(),
        version: Some(version),
        ..ready(name)
    };
    for task in [of("a1", "a", 1), of("a2", "a", 2), of("a3", "a", 3), of("b1", "b", 1)] {
        start(&store, task).await;
    }
    let take = async |tools: &[(&str, u32, u32)]| {
        let tools = tools.iter().map(|(tool, low, high)| ((*tool).into(), *low, *high)).collect();
        let claimed = store.claim(ClaimTasks { tools, limit: 9, now: at(0) }).await.unwrap();
        claimed.iter().map(|c| c.row.id.to_string()).collect::<Vec<_>>()
    };
    assert!(take(&[]).await.is_empty());
    assert!(take(&[("c", 0, 9), ("a", 4, 9), ("b", 0, 0), ("b", 2, 1)]).await.is_empty());
    assert_eq!(take(&[("a", 2, 2)]).await, ["a2"]);
    assert_eq!(take(&[("b", 1, 1), ("a", 3, u32::MAX), ("a", 3, 3)]).await, ["a3", "b1"]);
}

/// Whoever starts a task need not know the versions of its tool: whoever takes it does. From then on
/// it is a task of that version.
pub async fn a_task_without_a_version_gets_that_of_its_first_claim<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let claim = async |low, high| {
        let tools = vec![("other".into(), 0, 9), ("tool".into(), low, high)];
        store.claim(ClaimTasks { tools, limit: 9, now: at(0) }).await.unwrap()
    };
    start(&store, NewTask { version: None, ..ready("a") }).await;
    start(&store, ready("old")).await;
    assert_eq!(get(&store, "a").await.version, None);
    assert!(claim(3, 2).await.is_empty(), "no version at all can be run");
    let claimed = claim(2, 3).await;
    assert_eq!(names(&claimed), ["a"], "the other is of version 1");
    assert_eq!(claimed[0].row.version, Some(3));
    assert_eq!(claimed[0].row, get(&store, "a").await);
    take(&store, Turn { after: After::Yield, ..turn(claimed[0].lease()) }).await;
    assert!(claim(4, 9).await.is_empty());
    assert_eq!(names(&claim(0, 9).await), ["old", "a"]);
    assert_eq!(get(&store, "a").await.version, Some(3));
}

/// One with a thousand tasks does not keep the others waiting, in one claim…
pub async fn owners_take_turns_within_a_claim<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    crowd(&store).await;
    let mut first = names(&claim_some(&store, 0, 3).await).join(" ");
    first.retain(|c| c != '1');
    let mut owners: Vec<&str> = first.split(' ').collect();
    owners.sort_unstable();
    assert_eq!(owners, ["a", "b", "n"]);
    assert_eq!(names(&claim_some(&store, 0, 9).await), ["a2", "a3"]);
}

/// …and from one claim to the next.
pub async fn owners_take_turns_from_claim_to_claim<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    crowd(&store).await;
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(claim_some(&store, 0, 1).await.remove(0).row.owner);
    }
    first.sort();
    assert_eq!(first, [None, Some(who("ann")), Some(who("bob"))]);
}

/// Three tasks of ann's, then one of bob's, then one of nobody's.
async fn crowd(store: &impl Store) {
    let of = |name: &str, owner| NewTask { owner, ..ready(name) };
    for name in ["a1", "a2", "a3"] {
        start(store, of(name, Some(who("ann")))).await;
    }
    start(store, of("b1", Some(who("bob")))).await;
    start(store, of("n1", None)).await;
}

/// Ready first, served first: a task that yields goes behind the others.
pub async fn a_task_that_yields_goes_behind_the_others<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    start(&store, ready("b")).await;
    take(&store, Turn { after: After::Yield, ..turn(lease) }).await;
    assert_eq!(refused(store.turn(turn(lease)).await), Refusal::Fenced);
    assert_eq!(names(&claim(&store, 0).await), ["b", "a"]);
}

/// Not before, and without a message.
pub async fn a_parked_task_is_ready_when_it_is_due<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    assert!(!take(&store, park(lease, Some(at(10)))).await.ready);
    let row = get(&store, "a").await;
    assert_eq!((row.wake, row.desk), (Some(at(10)), None));
    assert!(claim(&store, 9).await.is_empty());
    assert_eq!(names(&claim(&store, 10).await), ["a"]);
    assert_eq!(get(&store, "a").await.wake, None);
}

/// Parked with no wake, it waits for ever.
pub async fn a_parked_task_without_a_wake_waits_for_mail<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, park(lease, None)).await;
    assert!(claim(&store, i64::MAX / 2).await.is_empty());
    assert!(!send(&store, "a", "m").await.here);
    assert_eq!(names(&claim(&store, 0).await), ["a"]);
}

/// The earliest counts; what is ready or held does not.
pub async fn the_next_wake_is_the_earliest<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    assert_eq!(store.next_wake().await.unwrap(), None);
    start(&store, ready("ready")).await;
    for (name, wake) in [("a", 30), ("b", 20), ("c", 40)] {
        let lease = hold(&store, task(name)).await;
        take(&store, park(lease, Some(at(wake)))).await;
    }
    assert_eq!(store.next_wake().await.unwrap(), Some(at(20)));
    send(&store, "b", "m").await;
    assert_eq!(store.next_wake().await.unwrap(), Some(at(30)));
}

/// Otherwise a process would spin over a task that it can't run.
pub async fn a_due_task_that_nobody_can_run_does_not_hide_the_next_wake<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for (tool, wake) in [("other", 10), ("tool", 20)] {
        let lease = hold(&store, NewTask { tool: tool.into(), ..task(tool) }).await;
        take(&store, park(lease, Some(at(wake)))).await;
    }
    assert!(claim(&store, 10).await.is_empty());
    assert_eq!(store.next_wake().await.unwrap(), Some(at(20)));
    let tools = vec![("other".into(), 1, 1)];
    let claimed = store.claim(ClaimTasks { tools, limit: 9, now: at(10) }).await.unwrap();
    assert_eq!(names(&claimed), ["other"], "it is ready for whoever can");
}

/// A process learns what others did to the tasks it holds.
pub async fn what_a_desk_holds_is_listed<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let a = hold(&one, task("a")).await;
    let b = hold(&one, task("b")).await;
    let gone = hold(&one, task("gone")).await;
    hold(&two, task("other")).await;
    start(&two, ready("ready")).await;
    two.suspend(operator(0), id("a"), suspend(1)).await.unwrap();
    send(&two, "b", "m1").await;
    send(&two, "b", "m2").await;
    two.cancel(operator(0), id("gone"), cancel(1)).await.unwrap();
    let held = one.held().await.unwrap();
    assert!(held.iter().all(|held| held.lease != gone));
    let found = held.iter().map(|held| (held.lease.key, held.status)).collect::<Vec<_>>();
    let expected =
        [(a.key, Status::Suspended), (b.key, Status::Running), (gone.key, Status::Cancelled)];
    assert_eq!(found, expected);
    assert_eq!(held[0].mail, None);
    let last = one.inbox(b.key, 0).await.unwrap().last().unwrap().seq;
    assert_eq!(held[1].mail, Some(last));
}

/// Somebody who waits for work hears of it.
pub async fn other_handles_are_told_of_changes<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let changed = two.changed();
    start(&one, ready("a")).await;
    // The notice is kept for whoever begins to wait only now.
    notified(&changed).await;
    assert_eq!(names(&claim(&two, 0).await), ["a"]);
    let changed = one.changed();
    send(&two, "a", "m").await;
    notified(&changed).await;
}
