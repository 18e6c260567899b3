//! Where questions lie.

#![allow(clippy::unwrap_used)]

mod common;

use common::{held, turn};
use steadfast_core::OpId;
use steadfast_sqlite::Store;
use steadfast_store::{Effect, Lease, Store as _, Turn};

async fn ask(store: &Store, lease: Lease, first_seq: u64, key: &str) {
    let asked = Effect::OpenQuestion { key: key.into(), op: OpId(1), body: b"?".to_vec() };
    let turn = Turn { effects: vec![asked], ..turn(lease, first_seq, b"asked") };
    store.turn(turn).await.unwrap();
}

async fn open(store: &Store, lease: Lease) -> Vec<String> {
    store.questions(lease.key).await.unwrap().into_iter().map(|question| question.key).collect()
}

/// As after millions of questions in one task, of which two are open.
#[tokio::test]
async fn a_task_whose_last_place_is_taken_asks_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let store = Store::open(&path).unwrap();
    let (before, lease, behind) =
        (held(&store, "a").await, held(&store, "b").await, held(&store, "c").await);
    for neighbour in [before, behind] {
        ask(&store, neighbour, 1, "theirs").await;
    }
    ask(&store, lease, 1, "one").await;
    ask(&store, lease, 2, "two").await;
    let raw = rusqlite::Connection::open(&path).unwrap();
    let sql = "UPDATE question SET place = place + (1 << 24) - 2 WHERE key IN ('two', 'one')";
    assert_eq!(raw.execute(sql, []).unwrap(), 2);
    ask(&store, lease, 3, "three").await;
    ask(&store, lease, 4, "four").await;
    assert_eq!(open(&store, lease).await, ["one", "two", "three", "four"]);
    for neighbour in [before, behind] {
        assert_eq!(open(&store, neighbour).await, ["theirs"]);
    }
}
