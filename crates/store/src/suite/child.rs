//! Children.

use steadfast_core::OpId;

use super::{Fixture, make::*};
use crate::{Effect, NewTask, Parent, Store, TaskKey, Touched, Turn};

fn start_child(task: NewTask) -> Effect {
    Effect::StartTask { task: Box::new(task), exists: bytes("exists") }
}

/// It is ready for anybody, with this task's number as its parent.
pub async fn a_child_is_started_with_the_turn<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let held = NewTask { hold: true, ..child("b", 4) };
    let waits = NewTask { wake: Some(at(50)), ..child("c", 5) };
    let turned = take(&store, effects(lease, [start_child(held), start_child(waits)])).await;
    let row = get(&store, "b").await;
    assert_eq!((row.parent, row.desk), (Some((lease.key, OpId(4))), None));
    assert_eq!(turned.touched, [Touched { key: row.key, here: false }], "c waits for its time");
    assert_eq!(history(&store, row.key).await, ["started"]);
    assert_eq!(names(&claim(&store, 0).await), ["b"]);
    assert_eq!(get(&store, "c").await.wake, Some(at(50)));
}

/// A parked parent is ready then.
pub async fn a_child_that_ends_tells_its_parent<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    take(&one, Turn { effects: vec![start_child(child("b", 4))], ..park(lease, None) }).await;
    let born = claim(&two, 0).await.remove(0);
    let turned = take(&two, end(born.lease())).await;
    assert_eq!(turned.touched, [Touched { key: lease.key, here: false }]);
    let parent = claim(&two, 0).await.remove(0);
    assert_eq!(parent.row.key, lease.key);
    assert_eq!((parent.inbox[0].op, text(&parent.inbox[0])), (Some(OpId(4)), "told".into()));
}

/// A detached child, one whose parent has ended, and one whose parent is gone.
pub async fn a_child_that_nobody_waits_for_tells_nobody<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let of = |parent| NewTask { parent: Some(parent), ..task("x") };
    let quiet = NewTask { id: id("b"), ..of(Parent { notify: false, ..parent(lease.key, 1) }) };
    let quiet = hold(&store, quiet).await;
    let late = hold(&store, NewTask { id: id("c"), ..of(parent(lease.key, 2)) }).await;
    let orphan = hold(&store, NewTask { id: id("d"), ..of(parent(lease.key, 3)) }).await;
    assert!(take(&store, end(quiet)).await.touched.is_empty());
    assert!(inbox(&store, lease.key).await.is_empty());
    take(&store, end(lease)).await;
    assert!(take(&store, end(late)).await.touched.is_empty());
    assert!(inbox(&store, lease.key).await.is_empty());
    store.purge(operator(0), id("a")).await.unwrap();
    assert!(take(&store, end(orphan)).await.touched.is_empty());
    let kept = Some((lease.key, OpId(3)));
    assert_eq!(get(&store, "d").await.parent, kept, "it keeps the number");
}

/// The child's operation hears of it; the turn is good all the same.
pub async fn a_child_whose_id_or_dedup_key_is_taken_is_not_started<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let taken = NewTask { dedup: Some("once".into()), ..ready("b") };
    let taken = start(&store, taken).await;
    let quiet = Parent { notify: false, ..parent(TaskKey(0), 5) };
    let same_id = NewTask { parent: Some(quiet), events: vec![bytes("never")], ..child("b", 5) };
    let same_key = NewTask { dedup: Some("once".into()), ..child("c", 6) };
    let turned = take(&store, effects(lease, [start_child(same_id), start_child(same_key)])).await;
    assert_eq!(turned.touched, [Touched { key: lease.key, here: true }]);
    let mail = store.inbox(lease.key, 0).await.unwrap();
    let found = mail.iter().map(|row| (row.op, text(row))).collect::<Vec<_>>();
    let exists = |op| (Some(OpId(op)), "exists".to_owned());
    assert_eq!(found, [exists(5), exists(6)]);
    assert_eq!(history(&store, taken).await, ["started"]);
    assert_eq!(store.list(all(), Default::default(), None, 9).await.unwrap().tasks.len(), 2);
}

/// It must not sleep over the message.
pub async fn a_parent_that_parks_with_a_taken_child_id_is_ready<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    start(&store, task("b")).await;
    let started = vec![start_child(child("b", 4))];
    let turned = take(&store, Turn { effects: started, ..park(lease, None) }).await;
    assert!(turned.ready && turned.touched.is_empty(), "{turned:?}");
    assert_eq!(claim(&store, 0).await[0].inbox.len(), 1);
}
