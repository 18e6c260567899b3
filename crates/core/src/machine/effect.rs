//! What a turn asks of the world, to be made durable together with its events.

use crate::{Ask, Json, OpId, Retry, Scope, TaskId};

/// One thing to be done in the same commit as the events that speak of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Show a question.
    OpenQuestion {
        /// Who asks.
        op: OpId,
        /// What.
        ask: Ask,
    },
    /// Take a question back, answered or not.
    CloseQuestion {
        /// Which.
        key: String,
    },
    /// Take a question back because its time is up. Refused if an answer got in first.
    ExpireQuestion {
        /// Who asked.
        op: OpId,
        /// Which.
        key: String,
    },
    /// Queue an activity.
    ScheduleActivity {
        /// Who waits for it.
        op: OpId,
        /// The registered function.
        name: String,
        /// Its input.
        input: Json,
        /// When to try again.
        retry: Retry,
        /// The longest silence between two heartbeats.
        heartbeat_ms: Option<u64>,
    },
    /// Nobody waits for an activity any more.
    CancelActivity {
        /// Who waited for it.
        op: OpId,
    },
    /// Start a child task.
    StartChild {
        /// Who waits for it.
        op: OpId,
        /// Its id.
        id: TaskId,
        /// Its tool.
        tool: String,
        /// Its input.
        input: Json,
        /// Nobody waits for it.
        detached: bool,
    },
    /// Nobody waits for a child any more.
    CancelChild {
        /// Which.
        id: TaskId,
    },
    /// Write a value, or remove it.
    WriteState {
        /// Whose.
        scope: Scope,
        /// Under which key.
        key: String,
        /// The value.
        value: Option<Json>,
    },
    /// Write a value if nobody else did since it was read. Refused otherwise.
    SwapState {
        /// Who writes.
        op: OpId,
        /// Whose.
        scope: Scope,
        /// Under which key.
        key: String,
        /// The value.
        value: Option<Json>,
        /// The version that was read; 0 for no value.
        expect: u64,
    },
    /// Tell this task when a value changes.
    Watch {
        /// Whose.
        scope: Scope,
        /// Which key.
        key: String,
    },
    /// No longer tell it.
    Unwatch {
        /// Whose.
        scope: Scope,
        /// Which key.
        key: String,
    },
    /// Commit what a step did in a transaction of the store, whose end this is. Refused if it failed
    /// there, or was overtaken.
    Join {
        /// Which.
        op: OpId,
    },
    /// Send an event to another task.
    Send {
        /// To whom.
        to: TaskId,
        /// The event's name.
        name: String,
        /// Its id, so that it is applied once.
        id: String,
        /// What it carries.
        payload: Json,
    },
}
