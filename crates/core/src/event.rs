//! The lines of a history.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Answer, Ask, Failure, Json, Kind, OpId, Progress, Scope, TaskId, Timestamp, Undo};

/// What a task says on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// A new status text.
    Status(String),
    /// How far it is.
    Progress(Progress),
    /// A log line.
    Log {
        /// `debug`, `info`, `warning` or `error`.
        level: String,
        /// The line.
        text: String,
    },
    /// A mark for whoever serves the task, in place of the one of that name before it.
    Mark {
        /// Its name.
        name: String,
        /// What it says.
        value: Json,
    },
    /// Something for whoever reads notices, in any process.
    Notice(Json),
}

impl Note {
    /// Without numbers that JSON does not know: written as null they could not be read back.
    pub(crate) fn finite(mut self) -> Note {
        if let Note::Progress(Progress { done, total, .. }) = &mut self {
            *done = if done.is_finite() { *done } else { 0.0 };
            *total = total.filter(|total| total.is_finite());
        }
        self
    }
}

/// What a task keeps when it continues as new.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Carry {
    /// Events that came and were not yet taken, oldest first: name and payload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<(String, Json)>,
    /// Ids of events that were applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<String>,
    /// Question keys that were used, and how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, u32>,
    /// Undo functions that were recorded, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undos: Vec<Undo>,
}

/// One thing that happened in a task's life.
///
/// Externally tagged, because payloads are raw JSON text. New variants and new optional fields may
/// be added; what is here never changes its meaning (see `golden/`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // The names of the fields say it; the variants say when.
pub enum Event {
    /// The task began, or began anew.
    Started {
        input: Json,
        seed: u64,
        run: u32,
        carry: Option<Carry>,
    },
    /// The end of an at-most-once step's chance: from here on it has run.
    StepStarted {
        op: OpId,
        name: String,
        attempt: u32,
    },
    StepCompleted {
        op: OpId,
        name: String,
        result: Json,
    },
    /// The step failed for good; the author gets the failure.
    StepFailed {
        op: OpId,
        name: String,
        failure: Failure,
    },
    /// An attempt failed; the next is due at `retry_at`.
    StepRetrying {
        op: OpId,
        name: String,
        attempt: u32,
        failure: Failure,
        retry_at: Timestamp,
    },
    /// How to take back a step that is about to start.
    UndoRecorded {
        op: OpId,
        name: String,
        undo: Undo,
    },
    ActivityScheduled {
        op: OpId,
        name: String,
        input: Json,
    },
    ActivityCompleted {
        op: OpId,
        result: Json,
    },
    ActivityFailed {
        op: OpId,
        failure: Failure,
    },
    TimerSet {
        op: OpId,
        fire_at: Timestamp,
    },
    TimerFired {
        op: OpId,
    },
    SignalReceived {
        name: String,
        id: Option<String>,
        payload: Json,
    },
    SignalSent {
        op: OpId,
        name: String,
        to: TaskId,
    },
    QuestionAsked {
        op: OpId,
        wish: String,
        ask: Ask,
    },
    QuestionAnswered {
        op: OpId,
        answer: Answer,
    },
    QuestionExpired {
        op: OpId,
    },
    /// It was never asked, because a limit was reached.
    QuestionRefused {
        op: OpId,
        wish: String,
        failure: Failure,
    },
    ChildStarted {
        op: OpId,
        tool: String,
        id: TaskId,
        detached: bool,
    },
    ChildCompleted {
        op: OpId,
        result: Json,
    },
    ChildFailed {
        op: OpId,
        failure: Failure,
    },
    StateRead {
        op: OpId,
        scope: Scope,
        key: String,
        value: Option<Json>,
    },
    StateWritten {
        op: OpId,
        scope: Scope,
        key: String,
        value: Option<Json>,
    },
    /// The value was there and could not be read as what the code expects.
    StateFailed {
        op: OpId,
        failure: Failure,
    },
    ConditionWatched {
        op: OpId,
        scope: Scope,
        key: String,
    },
    ConditionMet {
        op: OpId,
        value: Option<Json>,
    },
    /// The code no longer waits for this operation.
    Dropped {
        op: OpId,
    },
    VersionMarked {
        op: OpId,
        change: String,
        version: u32,
    },
    /// Something the task said; `op` is absent when it came from inside a step.
    Noted {
        op: Option<OpId>,
        note: Note,
    },
    /// The task can't go on by itself.
    Stuck {
        failure: Failure,
    },
    Completed {
        output: Json,
    },
    Failed {
        failure: Failure,
    },
    Cancelled {
        reason: Option<String>,
    },
    /// After the end: one undo function ended.
    Undone {
        function: String,
        failure: Option<Failure>,
    },
}

impl Event {
    /// The operation it speaks of, with what a replay compares where this event carries it.
    pub(crate) fn identity(&self) -> Option<(OpId, Option<(Kind, String)>)> {
        use Event as E;
        let state = |scope: &Scope, key: &String| crate::call::state_name(*scope, key);
        Some(match self {
            E::StepStarted { op, name, .. }
            | E::StepCompleted { op, name, .. }
            | E::StepFailed { op, name, .. }
            | E::StepRetrying { op, name, .. }
            | E::UndoRecorded { op, name, .. } => (*op, Some((Kind::Step, name.clone()))),
            E::ActivityScheduled { op, name, .. } => (*op, Some((Kind::Activity, name.clone()))),
            E::TimerSet { op, .. } => (*op, Some((Kind::Timer, String::new()))),
            E::SignalSent { op, name, .. } => (*op, Some((Kind::Send, name.clone()))),
            E::QuestionAsked { op, wish, .. } | E::QuestionRefused { op, wish, .. } => {
                (*op, Some((Kind::Question, wish.clone())))
            }
            E::ChildStarted { op, tool, .. } => (*op, Some((Kind::Child, tool.clone()))),
            E::StateRead { op, scope, key, .. } => {
                (*op, Some((Kind::StateRead, state(scope, key))))
            }
            E::StateWritten { op, scope, key, .. } => {
                (*op, Some((Kind::StateWrite, state(scope, key))))
            }
            E::ConditionWatched { op, scope, key } => {
                (*op, Some((Kind::Condition, state(scope, key))))
            }
            E::VersionMarked { op, change, .. } => (*op, Some((Kind::Version, change.clone()))),
            E::Noted { op: Some(op), .. } => (*op, Some((Kind::Note, String::new()))),
            E::ActivityCompleted { op, .. }
            | E::ActivityFailed { op, .. }
            | E::TimerFired { op }
            | E::QuestionAnswered { op, .. }
            | E::QuestionExpired { op }
            | E::ChildCompleted { op, .. }
            | E::ChildFailed { op, .. }
            | E::ConditionMet { op, .. }
            | E::StateFailed { op, .. }
            | E::Dropped { op } => (*op, None),
            E::Started { .. }
            | E::SignalReceived { .. }
            | E::Noted { op: None, .. }
            | E::Stuck { .. }
            | E::Completed { .. }
            | E::Failed { .. }
            | E::Cancelled { .. }
            | E::Undone { .. } => return None,
        })
    }

    /// The operation it speaks of.
    #[must_use]
    pub fn op(&self) -> Option<OpId> {
        self.identity().map(|(op, _)| op)
    }
}

/// An event and when it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When.
    pub at: Timestamp,
    /// What.
    pub event: Event,
}

/// A stored line that can't be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "event {seq} of this history can't be read ({source}); it may have been written by a newer \
     version of Steadfast: run that version, or purge the task"
)]
pub struct DecodeError {
    /// Which line.
    pub seq: u64,
    /// Why.
    pub source: serde_json::Error,
}

/// Writes a record as a line of a history.
#[must_use]
pub fn encode(record: &Record) -> Vec<u8> {
    // Every part is a string-keyed structure over valid JSON text, which always serialises.
    serde_json::to_vec(record).unwrap_or_default()
}

/// Reads line number `seq` of a history.
pub fn decode(seq: u64, line: &[u8]) -> Result<Record, DecodeError> {
    serde_json::from_slice(line).map_err(|source| DecodeError { seq, source })
}
