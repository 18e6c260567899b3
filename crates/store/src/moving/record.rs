//! What goes from store to store, whatever tables it comes from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_core::{OpId, Principal, Status, TaskId, Timestamp};

use super::Body;

/// One thing in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A task without its history.
    Task(Box<Task>),
    /// An event of a task's history.
    Event(Event),
    /// A message in a task's inbox.
    Message(Message),
    /// An open question.
    Question(Question),
    /// An activity that has not ended.
    Activity(Activity),
    /// A task wants to know of changes of a value.
    Watch(Watch),
    /// A value of durable state, or that there was one.
    State(State),
    /// What is known of a client.
    Session(Session),
    /// A message for a task that does not exist yet.
    Kept(Kept),
    /// What was put up for all clients.
    Notice(Notice),
    /// Numbers that must not be used again.
    Counters(Counters),
}

/// What a record is about. The kinds stand in a file in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // As in `Record`.
pub enum Kind {
    Task,
    Event,
    Message,
    Question,
    Activity,
    Watch,
    State,
    Session,
    Kept,
    Notice,
    Counters,
}

impl Kind {
    /// Its name, as it stands in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Task => "task",
            Kind::Event => "event",
            Kind::Message => "message",
            Kind::Question => "question",
            Kind::Activity => "activity",
            Kind::Watch => "watch",
            Kind::State => "state",
            Kind::Session => "session",
            Kind::Kept => "kept",
            Kind::Notice => "notice",
            Kind::Counters => "counters",
        }
    }
}

impl Record {
    /// What it is about.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Record::Task(_) => Kind::Task,
            Record::Event(_) => Kind::Event,
            Record::Message(_) => Kind::Message,
            Record::Question(_) => Kind::Question,
            Record::Activity(_) => Kind::Activity,
            Record::Watch(_) => Kind::Watch,
            Record::State(_) => Kind::State,
            Record::Session(_) => Kind::Session,
            Record::Kept(_) => Kind::Kept,
            Record::Notice(_) => Kind::Notice,
            Record::Counters(_) => Kind::Counters,
        }
    }
}

/// A task without its history. See [`TaskRow`](crate::TaskRow) for what is not said here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its number, which cursors of listings hold.
    pub key: i64,
    /// Its id.
    pub id: TaskId,
    /// Its tool.
    pub tool: String,
    /// The version of the tool, if it has one yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Principal>,
    /// Where it stands.
    pub status: Status,
    /// When it was accepted.
    pub created: Timestamp,
    /// When its status or view last changed.
    pub updated: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// When it may be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Where it lies.
    pub place: Place,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Its dedup key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<String>,
    /// It is of no use without the process that it was started for. That is gone after a move: whoever
    /// takes it up cancels it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
    /// Its epoch. One that lay on a desk has the next.
    pub epoch: i64,
    /// Processes that died holding it since it last made progress.
    pub deaths: u32,
    /// Its tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// What never changes.
    pub about: Body,
    /// What changes.
    pub view: Body,
    /// What was written when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Body>,
}

/// Where a task lies. Not on a desk: what does in the old store is ready in the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    /// On the ready pile.
    Ready {
        /// Lower ones come first.
        rank: i64,
    },
    /// It waits for a message, or for its time.
    Parked {
        /// When it is due.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wake: Option<Timestamp>,
    },
    /// It waits for its resume, or was set aside.
    Halted {
        /// When it was to begin, if it had not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wake: Option<Timestamp>,
    },
}

/// Who started a task. It may have been removed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    /// The task's number.
    pub key: i64,
    /// By which operation.
    pub op: OpId,
    /// It wants to be told of the end.
    pub tells: bool,
}

/// An event of a task's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The task's number.
    pub task: i64,
    /// Its own number, from 0.
    pub seq: i64,
    /// The event.
    pub body: Body,
}

/// A message in a task's inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The task's number.
    pub task: i64,
    /// Its own number, which rises.
    pub seq: i64,
    /// The operation it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<OpId>,
    /// It says that a value changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notice: bool,
    /// The message.
    pub body: Body,
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The task's number.
    pub task: i64,
    /// Its place among the open questions of the task, from 0.
    pub place: i64,
    /// Who asks.
    pub op: OpId,
    /// Its key.
    pub key: String,
    /// The question.
    pub body: Body,
}

/// An activity that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activity {
    /// Its number.
    pub key: i64,
    /// The number of the task that waits for it.
    pub task: i64,
    /// By which operation.
    pub op: OpId,
    /// The registered function.
    pub name: String,
    /// The secret that lets somebody outside end it.
    pub token: String,
    /// Where it is.
    pub at: At,
    /// Its epoch. One that lay on a desk has the next.
    pub epoch: i64,
    /// Which attempt this is.
    pub attempt: u32,
    /// The rest.
    pub body: Body,
}

/// Where an activity is. Not on a desk: what is there in the old store is queued in the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum At {
    /// In the queue.
    Queue {
        /// Lower ones come first.
        rank: i64,
    },
    /// It waits for its next attempt.
    Due {
        /// When that is.
        due: Timestamp,
    },
    /// Somebody outside has it.
    Outside {
        /// The end of the heartbeat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
}

/// A task is told of changes of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Whose value.
    pub scope: String,
    /// Which.
    pub key: String,
    /// The task's number.
    pub task: i64,
}

/// A value of durable state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Whose.
    pub scope: String,
    /// Which.
    pub key: String,
    /// How often it was written.
    pub version: i64,
    /// The value; none if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Body>,
}

/// What is known of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// When it is over.
    pub expires: Timestamp,
    /// What is known.
    pub body: Body,
}

/// A message for a task that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Lower ones come first.
    pub n: i64,
    /// The id of the task to be.
    pub id: TaskId,
    /// Who sent it; none if an operator did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Principal>,
    /// How long it is kept.
    pub until: Timestamp,
    /// The message.
    pub body: Body,
}

/// What was put up for all clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notice {
    /// Its number, which ids of events hold.
    pub n: i64,
    /// How long it stays.
    pub until: Timestamp,
    /// What it says.
    pub body: Body,
}

/// Numbers that must not be used again, as clients may hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// The number of the last task.
    pub task: i64,
    /// The number of the last notice.
    pub notice: i64,
}
