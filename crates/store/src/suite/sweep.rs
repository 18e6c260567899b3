//! Removing.

use steadfast_core::{Status, Timestamp};

use super::{Fixture, make::*};
use crate::{Caller, Effect, NewTask, Refusal, SendTo, Store, Swept};

async fn sweep(store: &impl Store, n: i64, limit: usize) -> (u64, Vec<String>, bool) {
    let Swept { removed, overdue, more } = store.sweep(at(n), limit).await.unwrap();
    (removed, overdue.iter().map(ToString::to_string).collect(), more)
}

/// A task that ended, to expire at `at(n)`.
async fn over(store: &impl Store, name: &str, n: i64) -> crate::Lease {
    let lease = hold(store, task(name)).await;
    take(store, end_at(lease, Some(at(n)), false)).await;
    lease
}

/// All that belongs to it goes with it; its children stay.
pub async fn a_purged_task_is_gone<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    let start = Effect::StartTask { task: Box::new(child("b", 1)), exists: vec![] };
    take(&one, effects(lease, [start])).await;
    take(&one, end_at(lease, None, true)).await;
    take(&one, effects(lease, [activity(2, "t"), question(3, "q"), watch("k")])).await;
    let work = two.claim_activities(work(0)).await.unwrap().remove(0);
    two.purge(operator(0), id("a")).await.unwrap();
    assert_eq!(refused(one.get(operator(0), id("a")).await), Refusal::Unknown);
    assert_eq!(refused(one.turn(turn(lease)).await), Refusal::Fenced, "whoever held it");
    assert_eq!(one.row(lease.key).await.unwrap(), None);
    assert!(history(&one, lease.key).await.is_empty());
    assert!(one.questions(lease.key).await.unwrap().is_empty());
    assert_eq!(one.activity("t".into()).await.unwrap(), None);
    let end = crate::ActivityEnd { lease: lease_of(&work), body: vec![] };
    assert_eq!(refused(two.end_activity(end).await), Refusal::Fenced);
    assert!(one.held().await.unwrap().is_empty());
    let other = hold(&one, task("c")).await;
    assert!(take(&one, effects(other, [write("k", Some("v"))])).await.touched.is_empty());
    assert_eq!(get(&one, "b").await.parent.unwrap().0, lease.key);
}

/// In the order of the checks; one that has not ended can't be purged.
pub async fn a_purge_is_refused_in_the_order_of_the_checks<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let owned = NewTask { owner: Some(who("ann")), expires: Some(at(5)), ..ready("a") };
    start(&store, owned).await;
    let as_at = |name: &str, n| Caller { principal: Some(who(name)), now: at(n) };
    let purge = async |by| refused(store.purge(by, id("a")).await);
    assert_eq!(purge(as_at("bob", 5)).await, Refusal::Unknown);
    assert_eq!(purge(as_at("ann", 5)).await, Refusal::Expired);
    assert_eq!(purge(as_at("ann", 4)).await, Refusal::NotTerminal(Status::Running));
    assert_eq!(names(&claim(&store, 0).await), ["a"], "nothing happened to it");
}

/// At its time, not before; what has no time stays for ever.
pub async fn a_sweep_removes_ended_tasks_that_expired<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for (name, n) in [("a", 5), ("b", 6)] {
        over(&store, name, n).await;
    }
    let lease = hold(&store, task("never")).await;
    take(&store, end(lease)).await;
    assert_eq!(sweep(&store, 4, 9).await, (0, vec![], false));
    assert_eq!(sweep(&store, 5, 9).await, (1, vec![], false));
    assert_eq!(refused(store.get(operator(0), id("a")).await), Refusal::Unknown);
    assert!(store.get(operator(0), id("b")).await.is_ok());
    let last = store.sweep(Timestamp(i64::MAX), usize::MAX).await.unwrap();
    assert_eq!(last.removed, 1);
    assert!(store.get(operator(0), id("never")).await.is_ok());
    start(&store, task("a")).await;
}

/// What expired first goes first, and the rest next time.
pub async fn a_sweep_keeps_to_its_limit<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for (name, n) in [("c", 7), ("a", 5), ("b", 6)] {
        over(&store, name, n).await;
    }
    start(&store, NewTask { expires: Some(at(4)), ..ready("d") }).await;
    assert_eq!(sweep(&store, 9, 2).await, (1, vec!["d".into()], true));
    assert_eq!(refused(store.get(operator(0), id("a")).await), Refusal::Unknown);
    assert!(store.get(operator(0), id("b")).await.is_ok());
    store.cancel(operator(0), id("d"), cancel(1)).await.unwrap();
    assert_eq!(sweep(&store, 9, 2).await.0, 2);
    assert_eq!(sweep(&store, 9, 2).await, (0, vec![], false));
}

/// Wherever it is; it stays until the engine has ended it.
pub async fn a_sweep_reports_what_expired_and_runs<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let of = |task: NewTask, n| NewTask { expires: Some(at(n)), ..task };
    start(&store, of(task("held"), 3)).await;
    start(&store, of(ready("ready"), 4)).await;
    start(&store, of(later("later", 50), 5)).await;
    start(&store, of(ready("not-yet"), 7)).await;
    let expected = || vec!["held".to_owned(), "ready".into(), "later".into()];
    assert_eq!(sweep(&store, 6, 9).await, (0, expected(), false));
    assert_eq!(sweep(&store, 6, 9).await, (0, expected(), false), "until somebody acts");
    let now = operator(6);
    assert_eq!(refused(store.cancel(now, id("held"), cancel(6)).await), Refusal::Expired);
    store.cancel(operator(0), id("held"), cancel(6)).await.unwrap();
    let row = store.get(operator(6), id("held")).await.unwrap();
    assert_eq!(row.status, Status::Cancelled, "with a life after its end");
    assert_eq!(sweep(&store, 6, 9).await.1, ["ready", "later"]);
}

/// On a desk, on the ready pile or parked with a wake: its last work is not cut off.
pub async fn a_sweep_leaves_ended_tasks_with_work_to_do<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, end_at(lease, Some(at(5)), true)).await;
    assert_eq!(sweep(&store, 9, 9).await, (0, vec![], false));
    take(&store, park(lease, Some(at(50)))).await;
    assert_eq!(sweep(&store, 9, 9).await, (0, vec![], false));
    let lease = claim(&store, 50).await.remove(0).lease();
    take(&store, crate::Turn { after: crate::After::Yield, ..turn(lease) }).await;
    assert_eq!(sweep(&store, 9, 9).await, (0, vec![], false));
    let lease = claim(&store, 0).await.remove(0).lease();
    take(&store, park(lease, None)).await;
    assert_eq!(sweep(&store, 9, 9).await, (1, vec![], false));
}

/// Kept for a task that never came.
pub async fn a_sweep_removes_kept_mail<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for (to, until) in [("a", 5), ("b", 6)] {
        let send = SendTo { keep_until: Some(at(until)), ..letter(to, "m") };
        store.send(operator(0), send).await.unwrap();
    }
    assert_eq!(sweep(&store, 5, 9).await, (0, vec![], false));
    // Created before the time of either, so that only the sweep can have taken the message.
    let a = start(&store, ready("a")).await;
    let b = start(&store, ready("b")).await;
    assert!(inbox(&store, a).await.is_empty());
    assert_eq!(inbox(&store, b).await, ["m"]);
}
