//! Small tasks and turns. Not every test file uses all of them.

#![allow(dead_code, clippy::unwrap_used)]

use steadfast_core::{Principal, Status, TaskId, Timestamp};
use steadfast_sqlite::Store;
use steadfast_store::{After, Caller, Lease, NewTask, Started, Store as _, Turn};

pub(crate) fn task(id: &str) -> NewTask {
    NewTask {
        id: TaskId::new(id).unwrap(),
        tool: "tool".into(),
        version: Some(1),
        owner: Some(Principal::new("me").unwrap()),
        tags: Default::default(),
        parent: None,
        dedup: None,
        bound: false,
        status: Status::Running,
        created: Timestamp(1),
        wake: None,
        expires: None,
        hold: true,
        about: b"about".to_vec(),
        view: b"view".to_vec(),
        events: vec![b"started".to_vec()],
    }
}

pub(crate) fn turn(lease: Lease, first: u64, event: &[u8]) -> Turn {
    Turn {
        lease,
        at: Timestamp(2),
        first,
        events: vec![event.to_vec()],
        restart: false,
        consumed: None,
        view: None,
        progress: true,
        effects: Vec::new(),
        after: After::Keep,
    }
}

pub(crate) fn operator() -> Caller {
    Caller { principal: None, now: Timestamp(10) }
}

pub(crate) async fn held(store: &Store, id: &str) -> Lease {
    match store.start(task(id)).await.unwrap() {
        Started::New { lease: Some(lease), .. } => lease,
        other => panic!("{other:?}"),
    }
}
