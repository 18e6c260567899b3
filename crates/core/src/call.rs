//! What a task's code can ask for.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{Json, Retry, TaskId, Timestamp};

/// The kind of a durable operation. Together with its name it is what a replay compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A step in place.
    Step,
    /// A registered function run by a worker.
    Activity,
    /// A sleep.
    Timer,
    /// A wait for an external event.
    Signal,
    /// A question to the user.
    Question,
    /// A child task.
    Child,
    /// A read of durable state.
    StateRead,
    /// A write of durable state.
    StateWrite,
    /// A wait for a condition over durable state.
    Condition,
    /// An event sent to another task.
    Send,
    /// A version marker.
    Version,
    /// A status, progress or log line.
    Note,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Step => "step",
            Kind::Activity => "activity",
            Kind::Timer => "timer",
            Kind::Signal => "signal",
            Kind::Question => "question",
            Kind::Child => "child task",
            Kind::StateRead => "state read",
            Kind::StateWrite => "state write",
            Kind::Condition => "state condition",
            Kind::Send => "signal sent",
            Kind::Version => "version marker",
            Kind::Note => "note",
        })
    }
}

/// How often a step may run.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// Again after a crash, until its result is recorded.
    AtLeastOnce,
    /// Never again once its start is recorded, except after an error with one of these codes.
    AtMostOnce {
        /// Codes of errors that say for sure that nothing happened.
        reset_on: Vec<String>,
    },
}

/// A registered function that takes a step back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Undo {
    /// The registered name.
    pub function: String,
    /// Its input.
    pub input: Json,
}

/// Whose durable state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This task's own.
    Task,
    /// Shared by all tasks of the session that the task was started in, and gone with that.
    Session,
    /// Shared by all tasks of the task's principal.
    Owner,
    /// Shared by all.
    Global,
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Scope::Task => "task",
            Scope::Session => "session",
            Scope::Owner => "owner",
            Scope::Global => "global",
        })
    }
}

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Its key: unique over the task's life.
    pub key: String,
    /// What the user reads.
    pub message: String,
    /// JSON Schema of the answer.
    pub schema: Json,
    /// Anything else the front may show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
    /// When it stops waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

/// A child task to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildSpec {
    /// Its tool.
    pub tool: String,
    /// Its input.
    pub input: Json,
    /// Its id; derived from the parent's seed if the author chose none.
    pub id: Option<TaskId>,
    /// It goes on when the parent ends.
    pub detached: bool,
}

/// One durable operation, as the code asks for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Run a closure in place.
    Step {
        /// The author's name for it.
        name: String,
        /// How often it may run.
        mode: Mode,
        /// When to try again.
        retry: Option<Retry>,
        /// How to take it back.
        undo: Option<Undo>,
    },
    /// Have a worker run a registered function.
    Activity {
        /// The registered name.
        name: String,
        /// Its input.
        input: Json,
        /// When to try again.
        retry: Retry,
        /// The longest silence between two heartbeats.
        heartbeat_ms: Option<u64>,
    },
    /// Sleep.
    Timer {
        /// Until when.
        until: Timestamp,
    },
    /// Wait for an event.
    Signal {
        /// Its name.
        name: String,
    },
    /// Ask the user. The key is the author's wish, or empty.
    Ask(Ask),
    /// Start a task.
    Child(ChildSpec),
    /// Read a value.
    StateGet {
        /// Whose.
        scope: Scope,
        /// Under which key.
        key: String,
    },
    /// Write a value, or remove it.
    StateSet {
        /// Whose.
        scope: Scope,
        /// Under which key.
        key: String,
        /// The new value.
        value: Option<Json>,
    },
    /// Read, change and write a value without losing another's update.
    StateUpdate {
        /// Whose.
        scope: Scope,
        /// Under which key.
        key: String,
    },
    /// Wait until a value meets a condition.
    StateWait {
        /// Whose.
        scope: Scope,
        /// Under which key.
        key: String,
    },
    /// Send an event to another task.
    Send {
        /// To whom.
        to: TaskId,
        /// The event's name.
        name: String,
        /// What it carries.
        payload: Json,
    },
}

impl Call {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Call::Step { .. } => Kind::Step,
            Call::Activity { .. } => Kind::Activity,
            Call::Timer { .. } => Kind::Timer,
            Call::Signal { .. } => Kind::Signal,
            Call::Ask(_) => Kind::Question,
            Call::Child(_) => Kind::Child,
            Call::StateGet { .. } => Kind::StateRead,
            Call::StateSet { .. } | Call::StateUpdate { .. } => Kind::StateWrite,
            Call::StateWait { .. } => Kind::Condition,
            Call::Send { .. } => Kind::Send,
        }
    }

    /// Its name within the kind.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Call::Step { name, .. }
            | Call::Activity { name, .. }
            | Call::Signal { name }
            | Call::Send { name, .. } => name.into(),
            Call::Timer { .. } => "".into(),
            Call::Ask(ask) => (&ask.key).into(),
            Call::Child(child) => (&child.tool).into(),
            Call::StateGet { scope, key }
            | Call::StateSet { scope, key, .. }
            | Call::StateUpdate { scope, key }
            | Call::StateWait { scope, key } => state_name(*scope, key).into(),
        }
    }
}

/// How a key of a scope is named in a history.
pub(crate) fn state_name(scope: Scope, key: &str) -> String {
    format!("{scope}/{key}")
}
