//! What is read from a store.

use std::collections::BTreeMap;

use steadfast_core::{OpId, Principal, Status, TaskId, Timestamp};

/// A task's number in its store. Later tasks have higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey(pub i64);

/// One open handle on a store: a process. Always above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Desk(pub i64);

/// Proof of holding a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// Which task.
    pub key: TaskKey,
    /// Since which change of hands.
    pub epoch: i64,
}

/// Who calls, and when. Decides what exists for the call.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Sees only this principal's tasks; `None` is an operator, who sees all.
    pub principal: Option<Principal>,
    /// A task that expires at or before this is [`Expired`](crate::Refusal::Expired). The engine,
    /// to end a task that is overdue, passes a time before that.
    pub now: Timestamp,
}

/// A task without its history.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// Its number.
    pub key: TaskKey,
    /// Its id.
    pub id: TaskId,
    /// The tool it runs.
    pub tool: String,
    /// The version of the tool it was started with, or got when it was first claimed; `None` before
    /// that.
    pub version: Option<u32>,
    /// Whose it is.
    pub owner: Option<Principal>,
    /// Where it stands.
    pub status: Status,
    /// When it was accepted.
    pub created: Timestamp,
    /// When its status or view last changed.
    pub updated: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// When it may be removed.
    pub expires: Option<Timestamp>,
    /// When a parked task is due. Kept by a suspended task that has not begun, and by no other task
    /// that is held, ready or halted.
    pub wake: Option<Timestamp>,
    /// The task that started it, and by which operation. Kept when the parent is removed.
    pub parent: Option<(TaskKey, OpId)>,
    /// Who holds it.
    pub desk: Option<Desk>,
    /// Whose process it was started for, if it is of no use without that.
    pub bound: Option<Desk>,
    /// The present epoch.
    pub epoch: i64,
    /// Processes that died holding it since it last made progress.
    pub deaths: u32,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// What never changes, as the engine wrote it.
    pub about: Vec<u8>,
    /// What changes, as the engine wrote it.
    pub view: Vec<u8>,
    /// What the engine wrote when the task ended.
    pub end: Option<Vec<u8>>,
}

/// A task that this desk now holds, with all that is needed to run it.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The task; its `epoch` is the new one.
    pub row: TaskRow,
    /// Its history, oldest first.
    pub history: Vec<Vec<u8>>,
    /// Its inbox, oldest first.
    pub inbox: Vec<InboxRow>,
}

impl Claimed {
    /// The proof of holding it.
    #[must_use]
    pub fn lease(&self) -> Lease {
        Lease { key: self.row.key, epoch: self.row.epoch }
    }
}

/// A task on this desk, as others may have left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which, and since when.
    pub lease: Lease,
    /// Where it stands.
    pub status: Status,
    /// The number of the last message in its inbox.
    pub mail: Option<i64>,
}

/// A message to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// Its number: rises within a task, and is never used again while the task exists.
    pub seq: i64,
    /// The operation it is for, where the store knows it: of answers, of activities and of
    /// children.
    pub op: Option<OpId>,
    /// The message.
    pub body: Vec<u8>,
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionRow {
    /// Its key.
    pub key: String,
    /// The operation that asks.
    pub op: OpId,
    /// The question, as the engine wrote it.
    pub body: Vec<u8>,
}

/// What is kept of a client between its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// When it is over if nobody says otherwise.
    pub expires: Timestamp,
    /// What is known of the client, as the front wrote it.
    pub body: Vec<u8>,
}

/// A value of durable state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateRow {
    /// The value, if there is one.
    pub value: Option<Vec<u8>>,
    /// How often the key was written, removals included; 0 if never. It never goes back.
    pub version: u64,
}

/// What was put up for all to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Number and content of each, oldest first.
    pub notices: Vec<(u64, Vec<u8>)>,
    /// The number of the last that there ever was; 0 if there was none.
    pub last: u64,
}

/// The scope of a session's state. What lies in it is removed together with the session, and nothing is
/// written to it without one.
#[must_use]
pub fn session_scope(id: &str) -> String {
    format!("{SESSION_SCOPE}{id}")
}

/// What the scopes of sessions begin with.
pub const SESSION_SCOPE: &str = "session/";

/// The scope of a task's own state. What lies in it is removed together with the task.
#[must_use]
pub fn task_scope(id: &TaskId) -> String {
    format!("task/{id}")
}

/// An activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityRow {
    /// Its number in the store.
    pub key: i64,
    /// Raised each time it changes hands.
    pub epoch: i64,
    /// The task that waits for it.
    pub task: TaskKey,
    /// That task's id.
    pub task_id: TaskId,
    /// The operation that waits for it.
    pub op: OpId,
    /// The registered function.
    pub name: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The secret that lets somebody outside end it.
    pub token: String,
    /// The rest, as the engine wrote it.
    pub body: Vec<u8>,
    /// Who holds it.
    pub desk: Option<Desk>,
}

/// Which tasks to list. All conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Any of these; all if empty.
    pub statuses: Vec<Status>,
    /// This tool.
    pub tool: Option<String>,
    /// Has this tag with this value.
    pub tag: Option<(String, String)>,
    /// Belongs to this principal.
    pub owner: Option<Principal>,
    /// Started by this task.
    pub parent: Option<TaskKey>,
    /// Accepted at or after.
    pub created_from: Option<Timestamp>,
    /// Accepted before.
    pub created_before: Option<Timestamp>,
    /// Leaves out what expires at or before this.
    pub now: Timestamp,
}

/// In which order to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// The newest first.
    #[default]
    NewestFirst,
    /// The oldest first.
    OldestFirst,
}

/// A page of a listing.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// The tasks, without [`end`](TaskRow::end).
    pub tasks: Vec<TaskRow>,
    /// Where the next page begins (pass it as `after`); `None` if this is the last.
    pub next: Option<TaskKey>,
}

/// A page of a history.
#[derive(Clone, Debug)]
pub struct HistoryPage {
    /// The events with their numbers, from 0 at the oldest.
    pub events: Vec<(u64, Vec<u8>)>,
    /// Where the next page begins (pass it as `after`); `None` if this is the last.
    pub next: Option<u64>,
}

/// How many tasks there are of each status.
pub type Counts = BTreeMap<Status, u64>;
