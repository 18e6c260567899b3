//! What the cases are made of: short names for rows and calls with nothing special in them.

use std::{collections::BTreeMap, time::Duration};

use steadfast_core::{OpId, Principal, Status, TaskId, Timestamp};

use crate::{
    After, Caller, Cancel, ClaimActivities, ClaimTasks, Claimed, Effect, Error, Filter, InboxRow,
    Lease, NewTask, Parent, Poison, Refusal, Result, Resume, SendTo, Since, Started, Store,
    Suspend, TaskKey, TaskRow, Touched, Turn, Turned,
};

/// A time: `n` milliseconds into the test.
pub(super) fn at(n: i64) -> Timestamp {
    Timestamp(1_800_000_000_000 + n)
}

pub(super) fn id(text: &str) -> TaskId {
    TaskId::new(text).expect("the suite's own ids are valid")
}

pub(super) fn who(text: &str) -> Principal {
    Principal::new(text).expect("the suite's own names are valid")
}

/// A caller at `at(0)`.
pub(super) fn caller(name: &str) -> Caller {
    Caller { principal: Some(who(name)), now: at(0) }
}

/// An operator at `at(n)`.
pub(super) fn operator(n: i64) -> Caller {
    Caller { principal: None, now: at(n) }
}

pub(super) fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// A running task of nobody's, of version 1 of `tool`, to be held.
pub(super) fn task(name: &str) -> NewTask {
    NewTask {
        id: id(name),
        tool: "tool".into(),
        version: Some(1),
        owner: None,
        tags: BTreeMap::new(),
        parent: None,
        dedup: None,
        bound: false,
        status: Status::Running,
        created: at(0),
        wake: None,
        expires: None,
        hold: true,
        about: bytes("about"),
        view: bytes("view"),
        events: vec![bytes("started")],
    }
}

/// The same, to lie on the ready pile.
pub(super) fn ready(name: &str) -> NewTask {
    NewTask { hold: false, ..task(name) }
}

/// The same, to begin at `at(n)`.
pub(super) fn later(name: &str, n: i64) -> NewTask {
    NewTask { status: Status::Queued, wake: Some(at(n)), ..task(name) }
}

/// A child that tells its parent, started by operation `op` in a turn.
pub(super) fn child(name: &str, op: u32) -> NewTask {
    // The store puts in the parent's number.
    NewTask { parent: Some(parent(TaskKey(0), op)), ..ready(name) }
}

pub(super) fn parent(key: TaskKey, op: u32) -> Parent {
    Parent { key, op: OpId(op), notify: true }
}

/// Starts a new task; its number.
pub(super) async fn start(store: &impl Store, task: NewTask) -> TaskKey {
    match store.start(task).await {
        Ok(Started::New { key, .. }) => key,
        other => panic!("not started: {other:?}"),
    }
}

/// Starts a new task that this desk then holds.
pub(super) async fn hold(store: &impl Store, task: NewTask) -> Lease {
    match store.start(task).await {
        Ok(Started::New { lease: Some(lease), .. }) => lease,
        other => panic!("not held: {other:?}"),
    }
}

/// A turn at `at(1)` that does nothing.
pub(super) fn turn(lease: Lease) -> Turn {
    Turn {
        lease,
        at: at(1),
        first: 0,
        events: Vec::new(),
        restart: false,
        consumed: None,
        view: None,
        progress: false,
        effects: Vec::new(),
        after: After::Keep,
    }
}

/// A turn with these effects.
pub(super) fn effects(lease: Lease, effects: impl IntoIterator<Item = Effect>) -> Turn {
    Turn { effects: effects.into_iter().collect(), ..turn(lease) }
}

/// A turn after which the task is parked.
pub(super) fn park(lease: Lease, wake: Option<Timestamp>) -> Turn {
    Turn { after: After::Park { wake }, ..turn(lease) }
}

/// A turn that ends the task, to be kept for ever.
pub(super) fn end(lease: Lease) -> Turn {
    end_at(lease, None, false)
}

/// A turn that ends the task, to expire then, and to stay on the desk with `keep`.
pub(super) fn end_at(lease: Lease, expires: Option<Timestamp>, keep: bool) -> Turn {
    let (end, tell) = (bytes("end"), bytes("told"));
    let after = After::End { status: Status::Completed, expires, end, tell, keep };
    Turn { after, ..turn(lease) }
}

/// Takes a turn that must not be refused.
pub(super) async fn take(store: &impl Store, turn: Turn) -> Turned {
    store.turn(turn).await.expect("the turn is good")
}

/// Everything that can be claimed at `at(n)`.
pub(super) async fn claim(store: &impl Store, n: i64) -> Vec<Claimed> {
    claim_some(store, n, usize::MAX).await
}

/// At most `limit` of it.
pub(super) async fn claim_some(store: &impl Store, n: i64, limit: usize) -> Vec<Claimed> {
    store.claim(wanted(n, limit)).await.expect("a claim")
}

/// What every task in the suite is claimed by.
pub(super) fn wanted(n: i64, limit: usize) -> ClaimTasks {
    ClaimTasks { tools: vec![("tool".into(), 0, u32::MAX)], limit, now: at(n) }
}

/// The ids of what was claimed.
pub(super) fn names(claimed: &[Claimed]) -> Vec<&str> {
    claimed.iter().map(|claimed| claimed.row.id.as_str()).collect()
}

/// What every activity in the suite is claimed by.
pub(super) fn work(n: i64) -> ClaimActivities {
    ClaimActivities { names: vec!["work".into()], limit: usize::MAX, now: at(n) }
}

/// An activity of operation `op`, whose token is its name.
pub(super) fn activity(op: u32, token: &str) -> Effect {
    let (name, token) = ("work".into(), token.into());
    Effect::ScheduleActivity { op: OpId(op), name, token, body: bytes("body") }
}

/// A question of operation `op`.
pub(super) fn question(op: u32, key: &str) -> Effect {
    Effect::OpenQuestion { key: key.into(), op: OpId(op), body: bytes("question") }
}

pub(super) fn write(key: &str, value: Option<&str>) -> Effect {
    let (value, notice) = (value.map(bytes), bytes(&format!("notice {key}")));
    Effect::WriteState { scope: "scope".into(), key: key.into(), value, notice }
}

pub(super) fn swap(op: u32, key: &str, value: &str, expect: u64) -> Effect {
    let (value, notice) = (Some(bytes(value)), bytes(&format!("notice {key}")));
    let (scope, key) = ("scope".into(), key.into());
    Effect::SwapState { op: OpId(op), scope, key, value, expect, notice }
}

pub(super) fn watch(key: &str) -> Effect {
    Effect::Watch { scope: "scope".into(), key: key.into() }
}

/// A message that is not kept for later.
pub(super) fn letter(to: &str, body: &str) -> SendTo {
    SendTo { id: id(to), body: bytes(body), keep_until: None }
}

/// Sends a message as an operator.
pub(super) async fn send(store: &impl Store, to: &str, body: &str) -> Touched {
    let sent = store.send(operator(0), letter(to, body)).await.expect("a message can be sent");
    sent.expect("the task is there")
}

/// By one clock it is `at(n)`, by the other now.
pub(super) fn since(n: i64) -> Since {
    Since { moment: at(n).into(), instant: std::time::Instant::now() }
}

/// A cancel at `at(n)`.
pub(super) fn cancel(n: i64) -> Cancel {
    Cancel {
        at: at(n),
        event: bytes("cancelled"),
        view: bytes("cancelled view"),
        end: bytes("cancelled end"),
        tell: bytes("child cancelled"),
        expires: Some(at(1_000_000)),
        frees: None,
    }
}

pub(super) fn suspend(n: i64) -> Suspend {
    Suspend { at: at(n), view: bytes("suspended view") }
}

pub(super) fn resume(n: i64) -> Resume {
    Resume { at: at(n), view: bytes("resumed view") }
}

/// Sets a task aside at this many deaths.
pub(super) fn poison(deaths: u32) -> Poison {
    Poison { deaths, at: at(9), view: bytes("poisoned view") }
}

/// All that has not expired at `at(0)`.
pub(super) fn all() -> Filter {
    Filter { now: at(0), ..Filter::default() }
}

/// A task as an operator sees it.
pub(super) async fn get(store: &impl Store, name: &str) -> TaskRow {
    store.get(operator(0), id(name)).await.expect("the task is there")
}

/// A task's inbox, as text.
pub(super) async fn inbox(store: &impl Store, key: TaskKey) -> Vec<String> {
    store.inbox(key, 0).await.expect("an inbox").iter().map(text).collect()
}

pub(super) fn text(row: &InboxRow) -> String {
    String::from_utf8_lossy(&row.body).into_owned()
}

/// A task's history, as text.
pub(super) async fn history(store: &impl Store, key: TaskKey) -> Vec<String> {
    let order = crate::Order::OldestFirst;
    let page = store.history(key, order, None, usize::MAX).await.expect("a history");
    page.events.iter().map(|(_, event)| String::from_utf8_lossy(event).into_owned()).collect()
}

/// Why a call was refused.
#[track_caller]
pub(super) fn refused<T: std::fmt::Debug>(result: Result<T>) -> Refusal {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// Waits for a notice that must come. The time is only there to end a test that would hang.
pub(super) async fn notified(changed: &crate::Changes) {
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, changed.next()).await.expect("a change is announced");
}

/// The proof of holding an activity.
pub(super) fn lease_of(row: &crate::ActivityRow) -> crate::ActivityLease {
    crate::ActivityLease { key: row.key, epoch: row.epoch }
}
