//! A task in every state is moved in the middle, and an engine on the other store finishes it.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use steadfast_engine::{
    Action, Answer, Compensation, Engine, Event, Json, Principal, Status, TaskId, TaskInfo, Tasks,
};
use steadfast_store::SessionRow;

use crate::{
    home::{Handle, Home, Kind, move_away},
    states_tools::{Notes, PAUSE, tools},
};

const LIMIT: Duration = Duration::from_secs(30);

fn name(kind: &str) -> TaskId {
    TaskId::new(kind.replace(' ', "-")).unwrap()
}

async fn until(
    tasks: &Tasks,
    kind: &str,
    what: &str,
    done: impl Fn(&TaskInfo) -> bool + Send + Sync,
) -> TaskInfo {
    match tokio::time::timeout(LIMIT, tasks.wait_for(&name(kind), |info| done(info))).await {
        Ok(info) => info.unwrap(),
        Err(_) => panic!("{kind} is not {what}: {:?}", tasks.get(&name(kind)).await),
    }
}

async fn is(tasks: &Tasks, kind: &str, status: Status) -> TaskInfo {
    until(tasks, kind, &status.to_string(), |info| info.status == status).await
}

async fn when(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Starts a task of each kind and lets all come to where they are to be moved from.
async fn first_life(handle: &Handle, notes: &Notes) -> Engine {
    let engine = tools(Engine::builder(handle.store.clone()), notes).start();
    let tasks = engine.tasks(Principal::new("ada").unwrap());
    let expires = engine.now().plus(Duration::from_secs(600));
    let session = SessionRow { id: "session".into(), expires, body: b"{}".to_vec() };
    handle.store.begin_session(session, 10).await.unwrap();
    for number in 1..=2 {
        engine.post(&json!({ "n": number })).await.unwrap();
    }
    let start = |kind: &str| tasks.start("work", kind).id(name(kind));
    start("bound").bound_to_process().await.unwrap();
    start("completed").idempotency_key("once").tag("a", "b").await.unwrap();
    start("counts").session("session").await.unwrap();
    for kind in [
        "running",
        "asks",
        "suspended",
        "event",
        "stuck",
        "held activity",
        "queued activity",
        "outside activity",
        "undone",
        "failed",
        "timer",
        "retrying",
        "parent",
        "due activity",
    ] {
        start(kind).await.unwrap();
    }
    start("queued").delay(PAUSE).await.unwrap();
    // First those that don't stay as they are.
    for (kind, status) in [
        ("queued", Status::Queued),
        ("timer", Status::Waiting),
        ("retrying", Status::Retrying),
        ("parent", Status::Waiting),
        ("asks", Status::InputRequired),
        ("suspended", Status::Waiting),
        ("event", Status::Waiting),
        ("stuck", Status::Stuck),
        ("completed", Status::Completed),
        ("counts", Status::Completed),
        ("failed", Status::Failed),
    ] {
        is(&tasks, kind, status).await;
    }
    tasks.suspend(&name("suspended"), None).await.unwrap();
    for kind in ["suspended", "event"] {
        tasks.signal(&name(kind), Event::new("go", &1u64).id("one")).await.unwrap();
    }
    let early = Event::new("go", &1u64).even_before_start();
    tasks.signal(&name("early"), early).await.unwrap();
    when("all that is cut off has begun", || {
        [
            "running cut",
            "bound cut",
            "undone cut",
            "held activity began",
            "due activity attempt 1",
            "child first",
        ]
        .iter()
        .all(|what| notes.count(what) == 1)
            && !notes.tokens.lock().unwrap().is_empty()
    })
    .await;
    tasks.cancel(&name("undone"), None).await.unwrap();
    when("its undo has begun", || notes.count("undone undo began") == 1).await;
    is(&tasks, "suspended", Status::Suspended).await;
    engine
}

/// Does what the world does, and waits for all ends.
async fn second_life(handle: &Handle, notes: &Notes) {
    let engine = tools(Engine::builder(handle.store.clone()), notes).start();
    let tasks = engine.tasks(Principal::new("ada").unwrap());
    // What clients hold still leads to the same.
    let again = tasks.start("work", "completed").idempotency_key("once").await.unwrap();
    assert_eq!((again.id, again.new), (name("completed"), false));
    let token = notes.tokens.lock().unwrap()[0].clone();
    tasks.complete_activity(&token, "outside").await.unwrap();
    let open = tasks.get(&name("asks")).await.unwrap();
    assert_eq!(open.status, Status::InputRequired, "{open:?}");
    let answer = Answer { action: Action::Accept, content: Json::of(&7).ok() };
    tasks.answer(&name("asks"), "number", answer).await.unwrap();
    for kind in ["suspended", "stuck"] {
        let halted = tasks.get(&name(kind)).await.unwrap();
        assert!(halted.status.is_halted(), "{halted:?}");
        tasks.resume(&name(kind)).await.unwrap();
    }
    for kind in ["suspended", "event"] {
        // The first came before the move: said again it is the same.
        for (n, id) in [(1u64, "one"), (2, "two")] {
            tasks.signal(&name(kind), Event::new("go", &n).id(id)).await.unwrap();
        }
    }
    tasks.start("work", "event").id(name("early")).await.unwrap();
    tasks.signal(&name("early"), Event::new("go", &2u64)).await.unwrap();
    for kind in [
        "queued",
        "running",
        "timer",
        "asks",
        "retrying",
        "suspended",
        "event",
        "stuck",
        "parent",
        "held activity",
        "queued activity",
        "outside activity",
        "due activity",
        "completed",
        "counts",
        "early",
    ] {
        is(&tasks, kind, Status::Completed).await;
    }
    is(&tasks, "failed", Status::Failed).await;
    for kind in ["undone", "bound"] {
        let undone = |info: &TaskInfo| info.compensation == Some(Compensation::Done);
        let info = until(&tasks, kind, "undone", undone).await;
        assert_eq!(info.status, Status::Cancelled, "{info:?}");
    }
    let (notices, last) = (handle.store.posted(1, 9).await.unwrap(), 2);
    assert_eq!((notices.notices.len(), notices.last), (1, last), "{notices:?}");
    engine.post(&json!({ "n": 3 })).await.unwrap();
    assert_eq!(engine.notices(2, 9).await.unwrap().1, 3);
    tasks.start("work", "counts").session("session").id(name("counts-2")).await.unwrap();
    is(&tasks, "counts-2", Status::Completed).await;
    for scope in ["global", "session/session"] {
        let row = handle.store.state(scope.into(), "n".into()).await.unwrap();
        assert_eq!((row.value, row.version), (Some(b"2".to_vec()), 2), "{scope}");
    }
    assert!(engine.shutdown(LIMIT).await);
}

/// Exactly: once what was recorded, and once more what was cut off.
fn expected() -> BTreeMap<String, u32> {
    let mut all = BTreeMap::new();
    for kind in [
        "queued",
        "running",
        "timer",
        "asks",
        "retrying",
        "suspended",
        "stuck",
        "parent",
        "child",
        "held activity",
        "queued activity",
        "outside activity",
        "due activity",
        "completed",
    ] {
        all.insert(format!("{kind} first"), 1);
        all.insert(format!("{kind} last"), 1);
    }
    for (what, times) in [
        ("event first", 2),
        ("event last", 2),
        ("counts first", 2),
        ("counts last", 2),
        ("failed first", 1),
        ("running cut", 2),
        ("asks got Some(7)", 1),
        ("retrying attempt 1", 1),
        ("retrying attempt 2", 1),
        ("suspended got 3", 1),
        ("event got 3", 2),
        ("parent got a child", 1),
        ("held activity began", 2),
        ("held activity gave held", 1),
        ("queued activity gave queued", 1),
        ("outside activity gave outside", 1),
        ("due activity attempt 1", 1),
        ("due activity attempt 2", 1),
        ("undone first", 1),
        ("undone booked", 1),
        ("undone cut", 1),
        ("undone undo began", 2),
        ("undone undo done", 1),
        ("bound first", 1),
        ("bound booked", 1),
        ("bound cut", 1),
        ("bound undo began", 1),
        ("bound undo done", 1),
    ] {
        all.insert(what.to_owned(), times);
    }
    all
}

async fn moved(from: Kind, to: Kind) {
    let notes = Notes::default();
    let (old, new) = (Home::new(from), Home::new(to));
    let handle = old.open().await;
    let engine = first_life(&handle, &notes).await;
    handle.kill();
    drop(engine);
    old.leases_run_out().await;
    let file = old.export(&move_away()).await.unwrap();
    new.import(&file).await.unwrap();
    let handle = new.open().await;
    let notes = Notes { second_life: true, ..notes };
    second_life(&handle, &notes).await;
    let (seen, expected) = (notes.all(), expected());
    let differ: Vec<_> = expected
        .keys()
        .chain(seen.keys())
        .filter(|what| expected.get(*what) != seen.get(*what))
        .map(|what| format!("{what}: {:?}, not {:?}", seen.get(what), expected.get(what)))
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_in_every_state_goes_on_from_sqlite_on_postgresql() {
    moved(Kind::Sqlite, Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_in_every_state_goes_on_from_postgresql_on_sqlite() {
    moved(Kind::Postgres, Kind::Sqlite).await;
}
