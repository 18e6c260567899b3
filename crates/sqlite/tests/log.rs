//! The log of events: what is found of a history whose end is not filed yet.

#![allow(clippy::unwrap_used)]

mod common;

use common::{held, operator, task, turn};
use steadfast_core::{Status, TaskId, Timestamp};
use steadfast_sqlite::Store;
use steadfast_store::{
    After, Cancel, ClaimTasks, Claimed, Lease, NewTask, Order, Poison, Refusal, SendTo, Started,
    Store as _, TaskKey, Turn,
};

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

fn cancel() -> Cancel {
    Cancel {
        at: Timestamp(5),
        event: b"cancelled".to_vec(),
        view: Vec::new(),
        end: Vec::new(),
        tell: Vec::new(),
        expires: None,
        frees: None,
    }
}

fn end(keep: bool) -> After {
    let (end, tell) = (Vec::new(), Vec::new());
    After::End { status: Status::Completed, expires: None, end, tell, keep }
}

async fn claim(store: &Store) -> Vec<Claimed> {
    let tools = vec![("tool".into(), 1, 1)];
    store.claim(ClaimTasks { tools, limit: 99, now: Timestamp(9) }).await.unwrap()
}

async fn read(store: &Store, key: TaskKey) -> Vec<String> {
    let page = store.history(key, Order::OldestFirst, None, 100_000).await.unwrap();
    let mut back = store.history(key, Order::NewestFirst, None, 100_000).await.unwrap().events;
    back.reverse();
    assert_eq!(page.events, back);
    let text = |(seq, body): (usize, (u64, Vec<u8>))| {
        assert_eq!(seq as u64, body.0);
        String::from_utf8(body.1).unwrap()
    };
    page.events.into_iter().enumerate().map(text).collect()
}

fn lines(history: &[Vec<u8>]) -> Vec<String> {
    history.iter().map(|line| String::from_utf8(line.clone()).unwrap()).collect()
}

/// So many turns of one event each that the log is filed on the way, from the task's own point of
/// view in the middle of something.
async fn go_on(store: &Store, lease: Lease, from: u64, to: u64) {
    for n in from..to {
        store.turn(turn(lease, n, n.to_string().as_bytes())).await.unwrap();
    }
}

fn expected(to: u64) -> Vec<String> {
    std::iter::once("started".to_owned()).chain((1..to).map(|n| n.to_string())).collect()
}

#[tokio::test]
async fn another_process_reads_the_history_of_a_task_on_a_desk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (one, two) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    let (a, b) = (held(&one, "a").await, held(&two, "b").await);
    for n in 1..40 {
        // In turn, so that each finds at every step that the other has written.
        go_on(&one, a, n, n + 1).await;
        go_on(&two, b, n, n + 1).await;
    }
    for store in [&one, &two] {
        assert_eq!(read(store, a.key).await, expected(40));
        assert_eq!(read(store, b.key).await, expected(40));
    }
}

#[tokio::test]
async fn a_history_goes_on_behind_a_cancel_by_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (one, two) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    let lease = held(&one, "a").await;
    go_on(&one, lease, 1, 5).await;
    two.cancel(operator(), id("a"), cancel()).await.unwrap();
    let mut whole = expected(5);
    whole.push("cancelled".into());
    assert_eq!(read(&one, lease.key).await, whole);
    assert!(one.turn(turn(lease, 5, b"late")).await.unwrap_err().refusal().is_some());
    // It is the holder's until that puts it back.
    let held = one.held().await.unwrap().remove(0).lease;
    let yields = Turn { events: Vec::new(), after: After::Yield, ..turn(held, 6, b"") };
    one.turn(yields).await.unwrap();
    let claimed = claim(&one).await;
    assert_eq!(lines(&claimed[0].history), whole);
    one.turn(turn(claimed[0].lease(), 6, b"undone")).await.unwrap();
    whole.push("undone".into());
    assert_eq!(read(&two, lease.key).await, whole);
}

#[tokio::test]
async fn what_the_dead_left_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (dead, living) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    let (short, long) = (held(&dead, "short").await, held(&dead, "long").await);
    go_on(&dead, short, 1, 3).await;
    let mut many = turn(long, 1, b"");
    many.events = (1..9_000).map(|n: u64| n.to_string().into_bytes()).collect();
    dead.turn(many).await.unwrap();
    go_on(&dead, short, 3, 6).await;
    go_on(&dead, long, 9_000, 9_003).await;
    let desk = dead.desk();
    dead.kill();
    // Nobody has taken over yet, and others write.
    go_on(&living, held(&living, "busy").await, 1, 9).await;
    assert_eq!(read(&living, short.key).await, expected(6));
    let poison = Poison { deaths: 5, at: Timestamp(3), view: Vec::new() };
    assert_eq!(living.adopt(desk, poison).await.unwrap().ready, 2);
    assert_eq!(read(&living, short.key).await, expected(6));
    let claimed = claim(&living).await;
    assert_eq!(lines(&claimed[0].history), expected(6));
    assert_eq!(lines(&claimed[1].history), expected(9_003));
}

#[tokio::test]
async fn a_task_that_was_put_down_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("tasks.db")).unwrap();
    for (name, after) in
        [("parks", After::Park { wake: Some(Timestamp(3)) }), ("yields", After::Yield)]
    {
        let lease = held(&store, name).await;
        go_on(&store, lease, 1, 4).await;
        let mut down = turn(lease, 4, b"4");
        down.after = after;
        store.turn(down).await.unwrap();
        assert_eq!(read(&store, lease.key).await, expected(5), "{name}");
        let claimed = claim(&store).await;
        assert_eq!(lines(&claimed[0].history), expected(5), "{name}");
        go_on(&store, claimed[0].lease(), 5, 6).await;
        assert_eq!(read(&store, lease.key).await, expected(6), "{name}");
    }
}

#[tokio::test]
async fn numbers_are_not_used_again_when_the_newest_task_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let store = Store::open(&path).unwrap();
    let first = held(&store, "first").await;
    go_on(&store, first, 1, 3).await;
    let newest = held(&store, "newest").await;
    // One that is refused must not make another look like the newest.
    assert!(store.start(task("newest")).await.unwrap_err().refusal().is_some());
    store.turn(Turn { after: end(false), ..turn(newest, 1, b"over") }).await.unwrap();
    store.purge(operator(), id("newest")).await.unwrap();
    let desk = store.desk();
    drop(store);
    let store = Store::open(&path).unwrap();
    let started = store.start(NewTask { hold: false, ..task("next") }).await.unwrap();
    let Started::New { key, .. } = started else { panic!("{started:?}") };
    assert!(key > newest.key, "{key:?} after {:?}", newest.key);
    // And the log goes on behind what is left of it.
    let poison = Poison { deaths: 5, at: Timestamp(3), view: Vec::new() };
    assert_eq!(store.adopt(desk, poison).await.unwrap().ready, 1);
    for claimed in claim(&store).await {
        let next = claimed.history.len() as u64;
        store.turn(turn(claimed.lease(), next, b"more")).await.unwrap();
    }
    let mut whole = expected(3);
    whole.push("more".into());
    assert_eq!(read(&store, first.key).await, whole);
    assert_eq!(read(&store, key).await, ["started", "more"]);
}

#[tokio::test]
async fn the_lease_of_a_task_that_was_removed_is_no_lease_of_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (one, two) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    let old = held(&one, "a").await;
    assert!(one.start(task("a")).await.unwrap_err().refusal().is_some());
    // It has ended and is still on the desk, with something to clean up.
    one.turn(Turn { after: end(true), ..turn(old, 1, b"over") }).await.unwrap();
    one.purge(operator(), id("a")).await.unwrap();
    let send = SendTo { id: id("nobody"), body: Vec::new(), keep_until: Some(Timestamp(99)) };
    two.send(operator(), send).await.unwrap();
    held(&one, "b").await;
    let park = Turn { events: Vec::new(), after: After::Park { wake: None }, ..turn(old, 0, b"") };
    assert_eq!(one.turn(park).await.unwrap_err().refusal(), Some(&Refusal::Fenced));
}

#[tokio::test]
async fn a_start_that_is_refused_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let store = Store::open(&path).unwrap();
    held(&store, "a").await;
    // A number that changes with every commit of another connection.
    let other = rusqlite::Connection::open(&path).unwrap();
    let commits = || -> i64 { other.query_row("PRAGMA data_version", [], |r| r.get(0)).unwrap() };
    let before = commits();
    for hold in [true, false] {
        let refused = store.start(NewTask { hold, ..task("a") }).await.unwrap_err();
        assert_eq!(refused.refusal(), Some(&Refusal::Exists));
    }
    assert_eq!(commits(), before);
    held(&store, "b").await;
    assert_ne!(commits(), before);
}

#[tokio::test]
async fn a_log_that_leads_in_circles_is_read_to_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    for (name, damage) in [("self", "n"), ("next", "n + 1"), ("far", "99"), ("nowhere", "-1")] {
        let store = Store::open(&path).unwrap();
        let lease = held(&store, name).await;
        go_on(&store, lease, 1, 4).await;
        let mut parked = turn(lease, 4, b"4");
        parked.after = After::Yield;
        store.turn(parked).await.unwrap();
        let other = rusqlite::Connection::open(&path).unwrap();
        let sql = format!("UPDATE event SET before = {damage} WHERE task = ? AND seq = 2");
        assert_eq!(other.execute(&sql, [lease.key.0]).unwrap(), 1);
        for order in [Order::OldestFirst, Order::NewestFirst] {
            let page = store.history(lease.key, order, None, 99).await.unwrap();
            assert_eq!(page.events.len(), 3, "{name}: 2, 3 and 4 can be reached");
        }
        let claimed = claim(&store).await;
        assert_eq!(lines(&claimed[0].history), ["2", "3", "4"], "{name}");
        // What is there can still be removed.
        let over = Turn { after: end(false), ..turn(claimed[0].lease(), 5, b"over") };
        store.turn(over).await.unwrap();
        store.purge(operator(), id(name)).await.unwrap();
    }
}
