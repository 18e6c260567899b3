//! Two processes on one file: who lives, and who is told.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{held, operator, task};
use steadfast_core::{TaskId, Timestamp};
use steadfast_sqlite::Store;
use steadfast_store::{ClaimTasks, Desk, Poison, Started, Store as _};

const FILE: &str = "STEADFAST_TEST_FILE";

/// Not a test by itself: the other process, which holds a task until it is killed.
#[tokio::test]
async fn other_process() {
    let Ok(path) = std::env::var(FILE) else { return };
    let store = Store::open(path).unwrap();
    held(&store, "theirs").await;
    println!("\ndesk {}", store.desk().0);
    std::future::pending::<()>().await;
}

fn spawn(path: &Path) -> (Child, Desk) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "other_process", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut desks = lines
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("desk ").and_then(|desk| desk.parse().ok()));
    let desk = desks.next().unwrap();
    (child, Desk(desk))
}

#[tokio::test]
async fn a_killed_process_is_dead_at_once_and_a_living_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let store = Store::open(&path).unwrap();
    let (mut child, desk) = spawn(&path);
    let poison = || Poison { deaths: 5, at: Timestamp(3), view: Vec::new() };
    assert!(store.dead().await.unwrap().is_empty());
    assert_eq!(store.adopt(desk, poison()).await.unwrap().ready, 0, "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.dead().await.unwrap(), [desk]);
    assert_eq!(store.adopt(desk, poison()).await.unwrap().ready, 1);
    assert!(store.dead().await.unwrap().is_empty());
    let claim = ClaimTasks { tools: vec![("tool".into(), 1, 1)], limit: 9, now: Timestamp(4) };
    let claimed = store.claim(claim).await.unwrap();
    assert_eq!(claimed[0].row.id, TaskId::new("theirs").unwrap());
    assert_eq!(claimed[0].row.deaths, 1);
}

#[tokio::test]
async fn a_handle_is_told_of_others_commits_and_not_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (a, b) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    let (changed_a, changed_b) = (a.changed(), b.changed());
    assert!(matches!(a.start(task("a")).await.unwrap(), Started::New { .. }));
    let soon = Duration::from_secs(5);
    tokio::time::timeout(soon, changed_b.next()).await.expect("b is told");
    // More than one look of an idle writer.
    let never = tokio::time::timeout(Duration::from_millis(600), changed_a.next()).await;
    assert!(never.is_err(), "a is not told of what it did itself");
    assert!(b.get(operator(), TaskId::new("a").unwrap()).await.is_ok());
}

#[tokio::test]
async fn a_killed_handle_does_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (a, b) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    held(&a, "a").await;
    a.kill();
    assert!(matches!(a.start(task("late")).await, Err(steadfast_store::Error::Unavailable(_))));
    assert!(a.row(steadfast_store::TaskKey(1)).await.is_err());
    assert_eq!(b.dead().await.unwrap(), [a.desk()]);
    assert!(b.get(operator(), TaskId::new("late").unwrap()).await.is_err());
}
