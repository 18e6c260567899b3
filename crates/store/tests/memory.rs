//! The store in memory passes the suite, and dies like a process when told to.

use steadfast_core::{Principal, Timestamp};
use steadfast_store::{
    Caller, Disk, Error, Filter, Memory, Order, SendTo, Store, store_suite, suite::Fixture,
};

struct Ram(Disk);

impl Fixture for Ram {
    type Store = Memory;

    async fn open(&self) -> Memory {
        self.0.open()
    }

    async fn kill(&self, handle: Memory) {
        handle.kill();
    }
}

store_suite!(Ram(Disk::new()));

/// A write that always succeeds.
fn letter() -> (Caller, SendTo) {
    let (to, now) = ("later".parse().expect("a valid id"), Timestamp(0));
    let keep_until = Some(Timestamp(1));
    (Caller { principal: None, now }, SendTo { id: to, body: Vec::new(), keep_until })
}

async fn send(store: &Memory) -> Result<(), Error> {
    let (caller, letter) = letter();
    store.send(caller, letter).await.map(drop)
}

#[tokio::test]
async fn a_killed_handle_neither_reads_nor_writes() {
    let disk = Disk::new();
    let (store, other) = (disk.open(), disk.open());
    send(&store).await.expect("it is alive");
    let changed = other.changed();
    changed.next().await;
    store.kill();
    assert!(matches!(send(&store).await, Err(Error::Unavailable(_))));
    let list = store.list(Filter::default(), Order::default(), None, 1).await;
    assert!(matches!(list, Err(Error::Unavailable(_))));
    assert!(changed.take().is_none(), "nothing changed");
}

#[tokio::test]
async fn a_call_made_before_a_kill_and_polled_after_it_has_no_effect() {
    let disk = Disk::new();
    let (store, other) = (disk.open(), disk.open());
    let (caller, letter) = letter();
    let call = store.send(caller, letter);
    store.kill();
    assert!(matches!(call.await, Err(Error::Unavailable(_))));
    assert!(other.changed().take().is_none());
}

#[tokio::test]
async fn a_handle_is_told_of_the_writes_of_others_alone() {
    let disk = Disk::new();
    let (store, other) = (disk.open(), disk.open());
    send(&store).await.expect("a write");
    send(&store).await.expect("a write");
    assert!(store.changed().take().is_none(), "it knows what it did itself");
    assert!(other.changed().take().is_some());
    assert!(other.changed().take().is_none(), "two writes are one notice");
}

#[tokio::test]
async fn a_call_that_changes_nothing_is_not_announced() {
    let disk = Disk::new();
    let (store, other) = (disk.open(), disk.open());
    let ann = Principal::new("ann").expect("a valid name");
    let caller = Caller { principal: Some(ann), now: Timestamp(0) };
    let id = "none".parse().expect("a valid id");
    assert!(store.purge(caller.clone(), id).await.is_err());
    store.counts(caller).await.expect("a look");
    store.sweep(Timestamp(0), 9).await.expect("nothing to sweep");
    store.close().await.expect("nothing to give back");
    assert!(other.changed().take().is_none());
}

#[tokio::test]
async fn the_content_outlives_its_handles() {
    let disk = Disk::new();
    send(&disk.open()).await.expect("a write");
    let swept = disk.clone().open();
    let other = disk.open();
    swept.sweep(Timestamp(1), 9).await.expect("a sweep");
    assert!(other.changed().take().is_some(), "there was a message to remove");
}

/// A case that the macro leaves out would be run by nobody.
#[test]
fn every_case_of_the_suite_is_a_test() {
    let suite = include_str!("../src/suite.rs");
    let themes = [
        ("activity", include_str!("../src/suite/activity.rs")),
        ("cancel", include_str!("../src/suite/cancel.rs")),
        ("child", include_str!("../src/suite/child.rs")),
        ("claim", include_str!("../src/suite/claim.rs")),
        ("desk", include_str!("../src/suite/desk.rs")),
        ("halt", include_str!("../src/suite/halt.rs")),
        ("mail", include_str!("../src/suite/mail.rs")),
        ("question", include_str!("../src/suite/question.rs")),
        ("read", include_str!("../src/suite/read.rs")),
        ("session", include_str!("../src/suite/session.rs")),
        ("start", include_str!("../src/suite/start.rs")),
        ("state", include_str!("../src/suite/state.rs")),
        ("sweep", include_str!("../src/suite/sweep.rs")),
        ("turn", include_str!("../src/suite/turn.rs")),
    ];
    assert_eq!(suite.matches("pub mod ").count(), themes.len());
    for (theme, source) in themes {
        let cases = source.split("pub async fn ").skip(1).filter_map(|rest| rest.split('<').next());
        for case in cases {
            assert!(suite.contains(&format!("                {case},\n")), "{theme}::{case}");
        }
    }
}
