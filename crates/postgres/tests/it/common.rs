//! Small tasks and turns.

use std::time::{Duration, Instant};

use steadfast_core::{Moment, Principal, Status, TaskId, Timestamp};
use steadfast_postgres::Store;
use steadfast_store::{After, Caller, Lease, NewTask, Since, Started, Store as _, Turn};

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

pub(crate) fn task(name: &str) -> NewTask {
    NewTask {
        id: id(name),
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

pub(crate) fn turn(lease: Lease, first: u64, event: &str) -> Turn {
    Turn {
        lease,
        at: Timestamp(2),
        first,
        events: vec![event.as_bytes().to_vec()],
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

pub(crate) async fn held(store: &Store, name: &str) -> Lease {
    match store.start(task(name)).await.unwrap() {
        Started::New { lease: Some(lease), .. } => lease,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn history(store: &Store, lease: Lease) -> Vec<String> {
    let page = store
        .history(lease.key, steadfast_store::Order::OldestFirst, None, usize::MAX)
        .await
        .unwrap();
    page.events.into_iter().map(|(_, body)| String::from_utf8(body).unwrap()).collect()
}

/// So many seconds ago.
pub(crate) fn since(seconds: u64) -> Since {
    let ago = Duration::from_secs(seconds);
    let instant = Instant::now().checked_sub(ago).expect("there was such a time");
    Since { moment: Moment(0).minus(ago), instant }
}
