//! What a file must be, and what is refused.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use std::path::Path;

use common::{held, operator, turn};
use rusqlite::Connection;
use steadfast_core::TaskId;
use steadfast_sqlite::{Durability, OpenError, Options, Store};
use steadfast_store::{Order, Store as _};

fn refused(path: &Path) -> OpenError {
    let before = std::fs::read(path).unwrap();
    let error = Store::open(path).unwrap_err();
    assert_eq!(std::fs::read(path).unwrap(), before, "a refused file is left as it is");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    error
}

async fn made(path: &Path) {
    let store = Store::open(path).unwrap();
    held(&store, "a").await;
    drop(store);
    // Everything into the one file.
    let conn = Connection::open(path).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    conn.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    for durability in [Durability::Full, Durability::ProcessCrashOnly] {
        let store = Options::new(&path).durability(durability).open().unwrap();
        let id = format!("{durability:?}");
        let lease = held(&store, &id).await;
        store.turn(turn(lease, 1, b"one")).await.unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        let row = store.get(operator(), TaskId::new(&id).unwrap()).await.unwrap();
        let page = store.history(row.key, Order::OldestFirst, None, 10).await.unwrap();
        let history = vec![(0, b"started".to_vec()), (1, b"one".to_vec())];
        assert_eq!((page.events, page.next), (history, None));
    }
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    made(&path).await;
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 9999).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::Newer { found: 9999, .. }), "{error}");
    assert!(error.to_string().contains("upgrade"), "{error}");
}

#[test]
fn a_database_of_another_application_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (name, setup) in [
        ("tables.db", "CREATE TABLE theirs (a)"),
        ("marked.db", "PRAGMA application_id = 7; CREATE TABLE theirs (a)"),
    ] {
        let path = dir.path().join(name);
        Connection::open(&path).unwrap().execute_batch(setup).unwrap();
        assert!(matches!(refused(&path), OpenError::Foreign { .. }));
    }
}

#[test]
fn what_is_no_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "these are notes, and more than a hundred bytes of them. ".repeat(20))
        .unwrap();
    assert!(matches!(refused(&path), OpenError::Damaged { .. }));
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    made(&path).await;
    let mut bytes = std::fs::read(&path).unwrap();
    // All but the page with the header and the schema.
    for byte in bytes.iter_mut().skip(4096) {
        *byte ^= 0x5a;
    }
    std::fs::write(&path, bytes).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn a_file_cut_short_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    made(&path).await;
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..8192]).unwrap();
    assert!(matches!(refused(&path), OpenError::Damaged { .. }));
}

#[test]
fn a_missing_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Store::open(dir.path().join("nowhere/tasks.db")).unwrap_err();
    assert!(matches!(error, OpenError::NoDirectory { .. }), "{error}");
    assert!(!dir.path().join("nowhere").exists());
}

#[tokio::test]
async fn many_can_open_a_new_file_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let open = || {
        let path = path.clone();
        std::thread::spawn(move || Store::open(path).unwrap())
    };
    let threads: Vec<_> = (0..4).map(|_| open()).collect();
    let stores: Vec<Store> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    for (n, store) in stores.iter().enumerate() {
        held(store, &format!("task-{n}")).await;
    }
    let counts = stores[0].counts(operator()).await.unwrap();
    assert_eq!(counts.values().sum::<u64>(), 4);
}

#[tokio::test]
async fn lock_files_of_closed_and_of_bare_dead_desks_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let files = || {
        let entries = std::fs::read_dir(dir.path().join("tasks.db.desks")).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let closed = Store::open(&path).unwrap();
    held(&closed, "closed").await;
    closed.close().await.unwrap();
    drop(closed);
    assert!(files().is_empty());
    drop(Store::open(&path).unwrap());
    let died = Store::open(&path).unwrap();
    held(&died, "died").await;
    let desk = died.desk();
    drop(died);
    let last = Store::open(&path).unwrap();
    let mut left = files();
    let own = last.desk().0.to_string();
    left.retain(|name| *name != own && *name != format!("{own}.bell"));
    assert_eq!(left, [desk.0.to_string()], "one holds a task still");
}
