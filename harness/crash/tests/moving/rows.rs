//! Every kind of row, with everything odd that may be in one.

use std::collections::BTreeMap;

use steadfast_core::{OpId, Principal, Status};
use steadfast_store::{
    ActivityLease, After, Cancel, ClaimActivities, ClaimTasks, Effect, Lease, NewTask, Parent,
    Retried, SendTo, SessionRow, Started, Store, Suspend, TaskKey, Turn, moving,
};

use crate::{
    home::{Home, Kind, move_away},
    seen::{Names, at, id, operator, seen},
};

/// A tool whose name PostgreSQL can't keep as it is.
const TOOL: &str = "to\0ol\u{f8ff}";

fn task(name: &str) -> NewTask {
    NewTask {
        id: id(name),
        tool: TOOL.into(),
        version: Some(3),
        owner: Principal::new("ann").ok(),
        tags: BTreeMap::new(),
        parent: None,
        dedup: None,
        bound: false,
        status: Status::Running,
        created: at(0),
        wake: None,
        expires: None,
        hold: true,
        about: b"{\"about\": 1}".to_vec(),
        view: b"view".to_vec(),
        events: vec![b"{\"n\":0}".to_vec()],
    }
}

fn turn(lease: Lease, effects: Vec<Effect>, after: After) -> Turn {
    Turn {
        lease,
        at: at(1),
        first: 1,
        events: Vec::new(),
        restart: false,
        consumed: None,
        view: None,
        progress: false,
        effects,
        after,
    }
}

async fn start(store: &dyn Store, task: NewTask) -> (TaskKey, Option<Lease>) {
    match store.start(task).await.unwrap() {
        Started::New { key, lease, .. } => (key, lease),
        other => panic!("{other:?}"),
    }
}

async fn held(store: &dyn Store, task: NewTask) -> Lease {
    start(store, task).await.1.unwrap()
}

fn question(op: u32, key: &str, body: &[u8]) -> Effect {
    Effect::OpenQuestion { key: key.into(), op: OpId(op), body: body.into() }
}

fn activity(op: u32, name: &str, token: &str) -> Effect {
    let (name, token, body) = (name.into(), token.into(), b"[1]".to_vec());
    Effect::ScheduleActivity { op: OpId(op), name, token, body }
}

fn write(scope: &str, key: &str, value: Option<&[u8]>) -> Effect {
    let (scope, key, value) = (scope.into(), key.into(), value.map(Vec::from));
    Effect::WriteState { scope, key, value, notice: b"changed".to_vec() }
}

fn letter(to: &str, body: &[u8], keep: Option<i64>) -> SendTo {
    SendTo { id: id(to), body: body.into(), keep_until: keep.map(at) }
}

fn cancel() -> Cancel {
    Cancel {
        at: at(3),
        event: b"{\"cancelled\":1}".to_vec(),
        view: b"{}".to_vec(),
        end: b"cancelled".to_vec(),
        tell: b"told".to_vec(),
        expires: None,
        frees: None,
    }
}

/// Fills a store: tasks wherever one can lie, and all that belongs to them and to clients.
async fn fill(store: &dyn Store) -> Names {
    let names = Names {
        values: [("scope", "a"), ("scope", "gone"), ("sc\0ope", "\u{f8ff}"), ("session/s-1", "k")]
            .map(|(scope, key)| (scope.to_owned(), key.to_owned()))
            .to_vec(),
        sessions: vec!["s-1".into(), "s\0-2".into()],
        tokens: ["queued", "due", "held", "outside", "beating"].map(String::from).to_vec(),
        dedups: vec![("ann".into(), "once\0".into()), ("bob".into(), "once\0".into())],
    };
    for (n, id) in (0..).zip(&names.sessions) {
        let (expires, body) = (at(5_000 + n), b"{\"client\": {}}".to_vec());
        store.begin_session(SessionRow { id: id.clone(), expires, body }, 100).await.unwrap();
    }
    let (ready, _) = start(store, NewTask { hold: false, ..task("ready") }).await;

    // On a desk, with a history that no index leads to, odd bytes, tags, a key and a bond.
    let tags = BTreeMap::from([("ta\0g".to_owned(), "v\u{f8ff}".to_owned())]);
    let on_desk = NewTask { tags, dedup: Some("once\0".into()), bound: true, ..task("held") };
    let lease = held(store, on_desk).await;
    let events = [&b"{\n}"[..], b"", &[0xff, 0, b'\n'], b" 1 ", b"\"\\ud800\""];
    let events = events.map(Vec::from).to_vec();
    let turned = Turn { events, ..turn(lease, vec![], After::Keep) };
    store.turn(turned).await.unwrap();
    let child = Parent { key: lease.key, op: OpId(4), notify: true };
    let child = NewTask { parent: Some(child), hold: false, ..task("child") };
    let child =
        NewTask { owner: Principal::new("bob").ok(), dedup: Some("once\0".into()), ..child };
    let effects = vec![
        Effect::StartTask { task: Box::new(child), exists: b"exists".to_vec() },
        activity(5, "work", "queued"),
        activity(6, "other", "due"),
        activity(7, "wo\0rk", "held"),
        activity(8, "outside", "outside"),
        activity(9, "outside", "beating"),
        Effect::Watch { scope: "scope".into(), key: "a".into() },
        Effect::Watch { scope: "sc\0ope".into(), key: "\u{f8ff}".into() },
    ];
    store.turn(Turn { first: 6, ..turn(lease, effects, After::Keep) }).await.unwrap();
    activities(store).await;

    // Parked: with a time; with questions and messages; on what another writes.
    let parked = held(store, task("parked")).await;
    let later = After::Park { wake: Some(at(9_000)) };
    store.turn(turn(parked, vec![], later)).await.unwrap();
    let asks = held(store, NewTask { version: None, owner: None, ..task("asks") }).await;
    let effects = vec![
        question(3, "second", b"2"),
        question(1, "fi\0rst", b"{\"ask\": \"?\"}"),
        Effect::Watch { scope: "scope".into(), key: "a".into() },
    ];
    store.turn(turn(asks, effects, After::Keep)).await.unwrap();
    for body in [&b"one"[..], b"{\"two\":2}"] {
        store.send(operator(), letter("asks", body, None)).await.unwrap();
    }
    // Not begun, and halted; halted on a desk; set to begin.
    let delayed = || NewTask { status: Status::Queued, wake: Some(at(7_000)), ..task("delayed") };
    start(store, delayed()).await;
    start(store, NewTask { id: id("put-off"), ..delayed() }).await;
    held(store, task("halted-on-desk")).await;
    for name in ["put-off", "halted-on-desk"] {
        let suspend = Suspend { at: at(2), view: b"suspended".to_vec() };
        store.suspend(operator(), id(name), suspend).await.unwrap();
    }
    state_and_ends(store).await;
    for (n, body) in [&b"{\"notice\":0}"[..], b"1", b"2"].iter().enumerate() {
        let number = store.post(body.to_vec(), at(8_000), 2).await.unwrap();
        assert_eq!(number, n as u64 + 1);
    }
    for principal in [None, Principal::new("ann").ok()] {
        let caller = steadfast_store::Caller { principal, now: at(0) };
        let sent = store.send(caller, letter("to-be", b"early", Some(6_000))).await.unwrap();
        assert_eq!(sent, None);
    }
    assert!(store.row(ready).await.unwrap().is_some());
    names
}

/// One in the queue is left; one waits for its next attempt, one is on a desk, two are outside.
async fn activities(store: &dyn Store) {
    let names = ["other", "wo\0rk", "outside"].map(String::from).to_vec();
    let claim = ClaimActivities { names, limit: 10, now: at(0) };
    for row in store.claim_activities(claim).await.unwrap() {
        let lease = ActivityLease { key: row.key, epoch: row.epoch };
        match row.token.as_str() {
            "due" => {
                let retried = Retried { lease, due: at(4_000), body: b"failed".to_vec() };
                store.retry_activity(retried).await.unwrap();
            }
            "outside" => store.beat_activity(lease, None, true).await.unwrap(),
            "beating" => store.beat_activity(lease, Some(at(9_999)), true).await.unwrap(),
            _ => {}
        }
    }
}

/// Values, of which one was removed; tasks that have ended, and one that is gone, with the last number.
async fn state_and_ends(store: &dyn Store) {
    let lease = held(store, task("writes")).await;
    let effects = vec![
        write("scope", "a", Some(b"1")),
        write("scope", "a", Some(b"[2]")),
        write("scope", "gone", Some(b"3")),
        write("scope", "gone", None),
        write("sc\0ope", "\u{f8ff}", Some(&[0, 0xff])),
        write("session/s-1", "k", Some(b"\"of a session\"")),
    ];
    let end = |tell: &[u8]| After::End {
        status: Status::Completed,
        expires: Some(at(50_000)),
        end: b"{\"result\":1}".to_vec(),
        tell: tell.into(),
        keep: false,
    };
    store.turn(turn(lease, effects, end(b"told"))).await.unwrap();
    // Ended, with something left to do, on a desk.
    let lease = held(store, task("undoes")).await;
    let After::End { status: _, expires, end: outcome, tell, .. } = end(b"") else {
        unreachable!()
    };
    let failed = After::End { status: Status::Failed, expires, end: outcome, tell, keep: true };
    store.turn(turn(lease, vec![], failed)).await.unwrap();
    held(store, task("cancelled")).await;
    store.cancel(operator(), id("cancelled"), cancel()).await.unwrap();
    let lease = held(store, task("removed")).await;
    store.turn(turn(lease, vec![], end(b""))).await.unwrap();
    store.purge(operator(), id("removed")).await.unwrap();
}

/// What an engine that comes to the new store finds to do, and what new things it can make.
async fn goes_on(store: &dyn Store, what: &str) {
    let tools = vec![(TOOL.to_owned(), 0, 9)];
    let claim = ClaimTasks { tools, limit: 100, now: at(0) };
    let claimed = store.claim(claim).await.unwrap();
    let mut found: Vec<(&str, &str)> = claimed
        .iter()
        .map(|c| (c.row.owner.as_ref().map_or("", Principal::as_str), c.row.id.as_str()))
        .collect();
    // Owners take turns; of one owner's, those that were ready come before those that lay on a desk.
    found.sort_by_key(|(owner, _)| *owner);
    let expected = [
        ("", "asks"),
        ("ann", "ready"),
        ("ann", "cancelled"),
        ("ann", "held"),
        ("ann", "undoes"),
        ("bob", "child"),
    ];
    assert_eq!(found, expected, "{what}");
    let by_name = |name: &str| claimed.iter().find(|c| c.row.id.as_str() == name).unwrap();
    assert_eq!(by_name("held").history.len(), 6, "{what}");
    assert_eq!(by_name("asks").inbox.len(), 3, "two messages, and that a value changed");
    assert_eq!(by_name("asks").row.version, Some(9), "the first who takes it gives it one");
    // It was bound to a process, which is none here.
    let bound = by_name("held").row.bound.unwrap();
    assert!(!store.is_alive(bound).await.unwrap(), "{what}");
    // Numbers go on where they were.
    let last = claimed.iter().map(|c| c.row.key).max().unwrap();
    let (key, lease) = start(store, task("to-be")).await;
    assert!(key.0 > last.0 + 1, "{what}: the number of a task that was removed is used again");
    let mail = store.inbox(key, 0).await.unwrap();
    assert_eq!(mail.len(), 2, "{what}: messages that were kept for it");
    assert_eq!(store.post(b"4".to_vec(), at(8_000), 9).await.unwrap(), 4, "{what}");
    // What is written to a task that came along wakes who waits for it.
    let effects = vec![write("scope", "a", Some(b"3")), activity(1, "work", "new")];
    store.turn(turn(lease.unwrap(), effects, After::Keep)).await.unwrap();
    assert_eq!(store.state("scope".into(), "a".into()).await.unwrap().version, 3, "{what}");
    let told = store.inbox(by_name("held").row.key, 0).await.unwrap();
    let known = by_name("held").inbox.last().unwrap().seq;
    let told = told.last().map(|letter| (letter.body.as_slice(), letter.seq > known));
    assert_eq!(told, Some((&b"changed"[..], true)), "{what}");
    let names = ["work", "wo\0rk"].map(String::from).to_vec();
    let claim = ClaimActivities { names, limit: 9, now: at(0) };
    let work = store.claim_activities(claim).await.unwrap();
    let tokens: Vec<(&str, u32)> = work.iter().map(|a| (a.token.as_str(), a.attempt)).collect();
    assert_eq!(tokens, [("queued", 1), ("held", 2), ("new", 1)], "{what}");
    // What belongs to a task goes with its end.
    for name in ["asks", "held"] {
        store.cancel(operator(), id(name), cancel()).await.unwrap();
        let key = by_name(name).row.key;
        assert!(store.questions(key).await.unwrap().is_empty(), "{what}");
        let left = store.inbox(key, 0).await.unwrap();
        assert!(left.is_empty(), "{what}: {left:?}");
    }
    for token in ["queued", "due", "held", "outside", "beating"] {
        assert_eq!(store.activity(token.into()).await.unwrap(), None, "{what}: {token}");
    }
}

async fn round_trip(first: Kind, second: Kind) {
    let (one, two, three) = (Home::new(first), Home::new(second), Home::new(first));
    let handle = one.open().await;
    let names = fill(&*handle.store).await;
    let before = seen(&*handle.store, &names).await;
    handle.kill();
    one.leases_run_out().await;

    let file = one.export(&move_away()).await.unwrap();
    let tally = two.import(&file).await.unwrap();
    for kind in [
        moving::Kind::Task,
        moving::Kind::Event,
        moving::Kind::Message,
        moving::Kind::Question,
        moving::Kind::Activity,
        moving::Kind::Watch,
        moving::Kind::State,
        moving::Kind::Session,
        moving::Kind::Kept,
        moving::Kind::Notice,
        moving::Kind::Counters,
    ] {
        assert!(tally.count(kind) > 0, "no {kind:?} among {tally}");
    }
    let file = two.export(&move_away()).await.unwrap();
    let back = three.import(&file).await.unwrap();
    assert_eq!((back.counts(), back.digest()), (tally.counts(), tally.digest()));

    for (home, what) in [(&two, "there"), (&three, "and back")] {
        home.reopen().await;
        let handle = home.open().await;
        assert_eq!(seen(&*handle.store, &names).await, before, "{what}");
        goes_on(&*handle.store, what).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_from_sqlite_to_postgresql_and_back() {
    round_trip(Kind::Sqlite, Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_from_postgresql_to_sqlite_and_back() {
    round_trip(Kind::Postgres, Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_from_sqlite_to_sqlite() {
    round_trip(Kind::Sqlite, Kind::Sqlite).await;
}
