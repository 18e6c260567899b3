//! Messages.

use steadfast_core::Status;

use super::{Fixture, make::*};
use crate::{Caller, Effect, NewTask, Refusal, SendTo, Started, Store, Touched, Turn};

/// Numbers rise, and are not used again after what they named is consumed.
pub async fn messages_are_read_in_order_and_consumed<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    assert_eq!(send(&one, "a", "m1").await, Touched { key: lease.key, here: true });
    assert_eq!(send(&two, "a", "m2").await, Touched { key: lease.key, here: false });
    let rows = one.inbox(lease.key, 0).await.unwrap();
    assert_eq!(rows.iter().map(text).collect::<Vec<_>>(), ["m1", "m2"]);
    assert!(rows[0].seq > 0 && rows[0].seq < rows[1].seq && rows[0].op.is_none());
    assert_eq!(one.inbox(lease.key, rows[0].seq).await.unwrap(), rows[1..]);
    take(&one, Turn { consumed: Some(rows[0].seq), ..turn(lease) }).await;
    assert_eq!(inbox(&one, lease.key).await, ["m2"]);
    take(&one, Turn { consumed: Some(rows[1].seq), ..turn(lease) }).await;
    assert!(inbox(&one, lease.key).await.is_empty());
    send(&one, "a", "m3").await;
    assert!(one.inbox(lease.key, 0).await.unwrap()[0].seq > rows[1].seq);
}

/// Otherwise a message that comes while the task goes to sleep would not wake it.
pub async fn a_task_parked_with_mail_is_ready<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    send(&store, "a", "m1").await;
    let read = store.inbox(lease.key, 0).await.unwrap()[0].seq;
    send(&store, "a", "m2").await;
    let turned = take(&store, Turn { consumed: Some(read), ..park(lease, Some(at(50))) }).await;
    assert!(turned.ready);
    assert_eq!(get(&store, "a").await.wake, None);
    let claimed = claim(&store, 0).await.remove(0);
    assert_eq!(claimed.inbox.iter().map(text).collect::<Vec<_>>(), ["m2"]);
    let read = Some(claimed.inbox[0].seq);
    let turned = take(&store, Turn { consumed: read, ..park(claimed.lease(), None) }).await;
    assert!(!turned.ready);
    assert!(claim(&store, 99).await.is_empty());
}

/// Its time comes first; the message is there when it begins.
pub async fn mail_does_not_begin_a_task_before_its_time<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    start(&store, later("a", 10)).await;
    send(&store, "a", "m").await;
    assert!(claim(&store, 9).await.is_empty());
    assert_eq!(store.next_wake().await.unwrap(), Some(at(10)));
    assert_eq!(claim(&store, 10).await[0].inbox.len(), 1);
}

/// In the order of the checks: somebody else's, expired, ended.
pub async fn a_message_is_refused_in_the_order_of_the_checks<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let of = NewTask { owner: Some(who("ann")), ..task("a") };
    let lease = hold(&store, of).await;
    take(&store, end_at(lease, Some(at(5)), false)).await;
    let as_at = |name: &str, n| Caller { principal: Some(who(name)), now: at(n) };
    let send = async |by: Caller| refused(store.send(by, letter("a", "m")).await);
    assert_eq!(send(as_at("bob", 5)).await, Refusal::Unknown);
    assert_eq!(send(as_at("ann", 5)).await, Refusal::Expired);
    assert_eq!(send(operator(5)).await, Refusal::Expired);
    assert_eq!(send(as_at("ann", 4)).await, Refusal::Terminal(Status::Completed));
    assert_eq!(refused(store.send(operator(0), letter("none", "m")).await), Refusal::Unknown);
    assert!(inbox(&store, lease.key).await.is_empty());
}

fn early(to: &str, body: &str, until: i64) -> SendTo {
    SendTo { keep_until: Some(at(until)), ..letter(to, body) }
}

/// An event that is raised before its task starts is not lost.
pub async fn early_mail_is_kept_for_the_start<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    for body in ["m1", "m2"] {
        assert_eq!(one.send(operator(0), early("a", body, 50)).await.unwrap(), None);
    }
    let started = two.start(task("a")).await.unwrap();
    let Started::New { key, lease: Some(_), mail: true } = started else { panic!("{started:?}") };
    assert_eq!(inbox(&one, key).await, ["m1", "m2"]);
    send(&one, "a", "m3").await;
    assert_eq!(inbox(&one, key).await, ["m1", "m2", "m3"]);
    let started = two.start(task("b")).await.unwrap();
    assert!(matches!(started, Started::New { mail: false, .. }), "it is for this id alone");
}

/// A principal writes to its own tasks, an operator to anybody's.
pub async fn early_mail_is_for_a_task_of_the_sender<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for (by, body) in [(caller("ann"), "ann"), (caller("bob"), "bob"), (operator(0), "op")] {
        for to in ["a", "b", "n"] {
            assert_eq!(store.send(by.clone(), early(to, body, 50)).await.unwrap(), None);
        }
    }
    let a = start(&store, NewTask { owner: Some(who("ann")), ..ready("a") }).await;
    let b = start(&store, NewTask { owner: Some(who("bob")), ..ready("b") }).await;
    let n = start(&store, ready("n")).await;
    assert_eq!(inbox(&store, a).await, ["ann", "op"]);
    assert_eq!(inbox(&store, b).await, ["bob", "op"]);
    assert_eq!(inbox(&store, n).await, ["op"], "nobody's task is not a principal's");
}

/// The answer does not tell whether somebody else has a task with this id.
pub async fn early_mail_to_a_task_of_somebody_else_is_kept_the_same<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, NewTask { owner: Some(who("ann")), ..task("a") }).await;
    assert_eq!(store.send(caller("bob"), early("a", "m", 50)).await.unwrap(), None);
    assert!(inbox(&store, lease.key).await.is_empty());
    let late = Caller { now: at(9), ..caller("ann") };
    take(&store, end_at(lease, Some(at(9)), false)).await;
    let expired = refused(store.send(late, early("a", "m", 50)).await);
    assert_eq!(expired, Refusal::Expired, "a task of one's own that expired is there");
}

/// Its time is over when the task starts at that time or later.
pub async fn early_mail_is_kept_until_its_time<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for to in ["a", "b"] {
        store.send(operator(0), early(to, "m", 5)).await.unwrap();
    }
    let before = start(&store, NewTask { created: at(4), ..ready("a") }).await;
    assert_eq!(inbox(&store, before).await, ["m"]);
    let after = start(&store, NewTask { created: at(5), ..ready("b") }).await;
    assert!(inbox(&store, after).await.is_empty());
}

/// A child and a task with a start in the future get theirs too.
pub async fn early_mail_reaches_children_and_later_starts<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    for to in ["b", "c"] {
        store.send(operator(0), early(to, "m", 50)).await.unwrap();
    }
    let start_b = Effect::StartTask { task: Box::new(child("b", 1)), exists: vec![] };
    take(&store, effects(lease, [start_b])).await;
    start(&store, later("c", 10)).await;
    assert!(claim(&store, 9).await.iter().all(|claimed| claimed.row.id != id("c")));
    for name in ["b", "c"] {
        assert_eq!(inbox(&store, get(&store, name).await.key).await, ["m"]);
    }
}

/// The sender's principal decides, and a task without one may write to all.
pub async fn a_task_sends_to_tasks_of_its_principal<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let ann = hold(&store, NewTask { owner: Some(who("ann")), ..task("a") }).await;
    let nobody = hold(&store, task("n")).await;
    let ended = hold(&store, NewTask { owner: Some(who("ann")), ..task("ended") }).await;
    take(&store, end(ended)).await;
    for (name, owner) in [("a2", "ann"), ("b", "bob")] {
        let lease = hold(&store, NewTask { owner: Some(who(owner)), ..task(name) }).await;
        take(&store, park(lease, None)).await;
    }
    let over = NewTask { owner: Some(who("ann")), expires: Some(at(1)), ..ready("over") };
    let over = start(&store, over).await;
    let to = |to: &str| Effect::Send { to: id(to), body: bytes("m") };
    let all = ["a2", "b", "n", "ended", "over", "none"];
    let turned = take(&store, effects(ann, all.map(to))).await;
    let (a2, b) = (get(&store, "a2").await.key, get(&store, "b").await.key);
    assert_eq!(turned.touched, [Touched { key: a2, here: false }]);
    assert_eq!(inbox(&store, a2).await, ["m"]);
    for key in [b, nobody.key, ended.key, over] {
        assert!(inbox(&store, key).await.is_empty());
    }
    let turned = take(&store, effects(nobody, [to("b"), to("b"), to("n")])).await;
    let touched = [Touched { key: nobody.key, here: true }, Touched { key: b, here: false }];
    assert_eq!(turned.touched, touched, "each once, by number");
    assert_eq!(inbox(&store, b).await, ["m", "m"]);
    assert_eq!(names(&claim(&store, 0).await).len(), 3, "a2, b and over");
}
