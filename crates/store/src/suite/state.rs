//! Durable state.

use steadfast_core::OpId;

use super::{Fixture, make::*};
use crate::{Effect, Refusal, StateRow, Store, Touched, Turn, task_scope};

async fn state(store: &impl Store, key: &str) -> StateRow {
    store.state("scope".into(), key.into()).await.unwrap()
}

fn row(value: Option<&str>, version: u64) -> StateRow {
    StateRow { value: value.map(bytes), version }
}

/// Each write counts, a removal too, and the count never goes back.
pub async fn a_version_never_goes_back<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    assert_eq!(state(&one, "k").await, row(None, 0));
    for (value, version) in [(Some("1"), 1), (None, 2), (None, 3), (Some(""), 4), (Some(""), 5)] {
        take(&one, effects(lease, [write("k", value)])).await;
        assert_eq!(state(&two, "k").await, row(value, version));
    }
    take(&one, effects(lease, [swap(1, "k", "5", 5)])).await;
    assert_eq!(state(&two, "k").await, row(Some("5"), 6));
}

/// A scope does not see another's keys.
pub async fn scopes_and_keys_are_apart<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, effects(lease, [write("k", Some("1"))])).await;
    for (scope, key) in [("other", "k"), ("scope", "K"), ("", "k"), ("scopek", ""), ("scope", "")] {
        assert_eq!(store.state(scope.into(), key.into()).await.unwrap(), row(None, 0));
    }
    take(&store, end(lease)).await;
    store.purge(operator(0), id("a")).await.unwrap();
    assert_eq!(state(&store, "k").await, row(Some("1"), 1), "it outlives who wrote it");
}

/// What lies in a task's own scope goes when the task does; a neighbour's stays.
pub async fn a_tasks_own_state_is_removed_with_it<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let own = |name: &str, key: &str| Effect::WriteState {
        scope: task_scope(&id(name)),
        key: key.into(),
        value: Some(bytes("1")),
        notice: Vec::new(),
    };
    take(&store, effects(lease, [own("a", "k"), own("a", "l"), own("ab", "k")])).await;
    take(&store, end(lease)).await;
    store.purge(operator(0), id("a")).await.unwrap();
    for (name, key, left) in [("a", "k", 0), ("a", "l", 0), ("ab", "k", 1)] {
        let row = store.state(task_scope(&id(name)), key.into()).await.unwrap();
        assert_eq!(row.version, left, "{name} {key}");
    }
}

/// Of two that read the same version one must read again.
pub async fn a_swap_of_an_old_version_is_refused<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let a = hold(&one, task("a")).await;
    let b = hold(&two, task("b")).await;
    take(&one, effects(a, [swap(1, "k", "a", 0)])).await;
    let late = two.turn(effects(b, [swap(2, "k", "b", 0)])).await;
    assert_eq!(refused(late), Refusal::Guard(OpId(2)));
    let ahead = two.turn(effects(b, [swap(3, "k", "b", 2)])).await;
    assert_eq!(refused(ahead), Refusal::Guard(OpId(3)));
    assert_eq!(state(&one, "k").await, row(Some("a"), 1));
    take(&two, effects(b, [swap(2, "k", "b", 1)])).await;
    take(&two, effects(b, [write("k", None)])).await;
    let removed = one.turn(effects(a, [swap(4, "k", "a", 0)])).await;
    assert_eq!(
        refused(removed),
        Refusal::Guard(OpId(4)),
        "removed is not the same as never written"
    );
    take(&one, effects(a, [swap(4, "k", "a", 3)])).await;
    assert_eq!(state(&two, "k").await, row(Some("a"), 4));
}

/// Writes and swaps alike; a parked watcher is ready.
pub async fn who_watches_a_key_is_told_of_changes<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let writer = hold(&one, task("w")).await;
    let parked = hold(&one, task("p")).await;
    take(&one, Turn { effects: vec![watch("k"), watch("k")], ..park(parked, None) }).await;
    let other = hold(&two, task("o")).await;
    take(&two, effects(other, [watch("k"), watch("l")])).await;
    let turned = take(&one, effects(writer, [write("k", Some("1"))])).await;
    let expected = [parked.key, other.key].map(|key| Touched { key, here: false });
    assert_eq!(turned.touched, expected);
    assert_eq!(inbox(&two, other.key).await, ["notice k"]);
    assert_eq!(claim(&two, 0).await[0].inbox.len(), 1);
    take(&one, effects(writer, [swap(1, "l", "1", 0)])).await;
    assert_eq!(inbox(&two, other.key).await, ["notice k", "notice l"]);
    assert!(take(&one, effects(writer, [write("m", Some("1"))])).await.touched.is_empty());
}

/// Also one that watches what it writes itself.
pub async fn a_writer_that_watches_is_told_too<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let turned = take(&store, effects(lease, [watch("k"), write("k", Some("1"))])).await;
    assert_eq!(turned.touched, [Touched { key: lease.key, here: true }]);
    let turned = take(&store, park(lease, None)).await;
    assert!(turned.ready);
}

/// A watcher that sleeps through a thousand writes finds one notice.
pub async fn a_notice_that_still_lies_there_is_not_doubled<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let writer = hold(&store, task("w")).await;
    let watcher = hold(&store, task("a")).await;
    take(&store, Turn { effects: vec![watch("k"), watch("l")], ..park(watcher, None) }).await;
    for value in ["1", "2", "3"] {
        let writes = [write("k", Some(value)), write("l", Some(value)), write("k", None)];
        take(&store, effects(writer, writes)).await;
    }
    let mut found = inbox(&store, watcher.key).await;
    found.sort();
    assert_eq!(found, ["notice k", "notice l"]);
}

/// The value may have changed after the holder looked: consuming what it has read must not swallow
/// the news of that.
pub async fn a_notice_comes_again_behind_one_that_was_read<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let writer = hold(&store, task("w")).await;
    let watcher = hold(&store, task("a")).await;
    take(&store, effects(watcher, [watch("k")])).await;
    take(&store, effects(writer, [write("k", Some("1"))])).await;
    let read = store.inbox(watcher.key, 0).await.unwrap()[0].seq;
    take(&store, effects(writer, [write("k", Some("2"))])).await;
    let turned = take(&store, Turn { consumed: Some(read), ..park(watcher, None) }).await;
    assert!(turned.ready);
    let news = claim(&store, 0).await.remove(0);
    assert_eq!(news.inbox.iter().map(text).collect::<Vec<_>>(), ["notice k"]);
    assert!(news.inbox[0].seq > read);
}

/// From then on it is not told.
pub async fn who_no_longer_watches_is_not_told<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let writer = hold(&store, task("w")).await;
    let watcher = hold(&store, task("a")).await;
    let unwatch = |key: &str| Effect::Unwatch { scope: "scope".into(), key: key.into() };
    take(&store, effects(watcher, [watch("k"), watch("l"), unwatch("k"), unwatch("none")])).await;
    take(&store, effects(writer, [write("k", Some("1")), write("l", Some("1"))])).await;
    assert_eq!(inbox(&store, watcher.key).await, ["notice l"]);
}
