//! How a call on a task can fail.

use steadfast_core::{IdError, Status, TaskId};
use steadfast_store::Refusal;

/// How a call on a task can fail. Nothing was changed by it, unless it says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no such task, or it is another principal's.
    #[error("there is no task {0}")]
    Unknown(TaskId),
    /// Its time is over.
    #[error("the task {0} has expired")]
    Expired(TaskId),
    /// It has ended.
    #[error("the task {id} is already {status}")]
    Terminal {
        /// Which.
        id: TaskId,
        /// How it ended.
        status: Status,
    },
    /// It has not ended.
    #[error("the task {id} is still {status}; cancel it first")]
    NotTerminal {
        /// Which.
        id: TaskId,
        /// Where it stands.
        status: Status,
    },
    /// It is in another state than the call is for.
    #[error("the task {id} is {status}, which this can't be done to")]
    WrongStatus {
        /// Which.
        id: TaskId,
        /// Where it stands.
        status: Status,
    },
    /// The id was used before.
    #[error("a task {0} already exists")]
    Exists(TaskId),
    /// It was [asked for](crate::Start::asked) too long ago to be begun. Who asks again asks anew.
    #[error("this was asked for too long ago; ask again")]
    Late,
    /// An id is not well-formed.
    #[error(transparent)]
    BadId(#[from] IdError),
    /// This process has no such tool.
    #[error("there is no tool {0:?}; register it, or start the task with `even_if_unserved`")]
    NoSuchTool(String),
    /// The question is not open: it never was, was answered, or was taken back.
    #[error("the task {id} has no open question {key:?}")]
    NotAsked {
        /// Which task.
        id: TaskId,
        /// Which question.
        key: String,
    },
    /// The answer does not fit the question's schema. The question stays open.
    #[error("the answer to {key:?} does not fit: {reason}")]
    BadAnswer {
        /// Which question.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cursor is not one that a listing of this kind returned.
    #[error("{0:?} is not a cursor of this listing; start over without one")]
    BadCursor(String),
    /// The history has no such step.
    #[error("the task {id} has no {what} in its history")]
    NoSuchStep {
        /// Which task.
        id: TaskId,
        /// What was looked for.
        what: String,
    },
    /// No activity has this token: it ended, was cancelled, or never was.
    #[error("no activity waits for this token")]
    NoSuchActivity,
    /// A payload is over the limit.
    #[error("{what} is larger than the limit of {limit} bytes of JSON")]
    TooLarge {
        /// What.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A name, a key or the like is over its limit; see [`limits`](crate::limits).
    #[error("{what} is longer than the limit of {limit} bytes")]
    TooLong {
        /// What.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The task has more tags than it may.
    #[error("there are more tags than the limit of {limit}")]
    TooManyTags {
        /// The limit.
        limit: usize,
    },
    /// A payload can't be written as JSON.
    #[error("the payload can't be written as JSON: {0}")]
    Payload(String),
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    ShuttingDown,
    /// The store failed.
    #[error(transparent)]
    Store(steadfast_store::Error),
}

impl CallError {
    /// What a store's refusal means for a call on this task.
    pub(super) fn on(id: &TaskId, error: steadfast_store::Error) -> CallError {
        let id = id.clone();
        match error {
            steadfast_store::Error::Refused(refusal) => match refusal {
                Refusal::Unknown => CallError::Unknown(id),
                Refusal::Expired => CallError::Expired(id),
                Refusal::Terminal(status) => CallError::Terminal { id, status },
                Refusal::NotTerminal(status) => CallError::NotTerminal { id, status },
                Refusal::WrongStatus(status) => CallError::WrongStatus { id, status },
                Refusal::Exists => CallError::Exists(id),
                Refusal::Late => CallError::Late,
                other => CallError::Store(other.into()),
            },
            other => CallError::Store(other),
        }
    }
}
