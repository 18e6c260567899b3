//! How a call on a store can fail.

use steadfast_core::{OpId, Status};

/// The result of a call on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call was refused. Nothing was changed by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such thing, or it belongs to somebody else.
    #[error("there is no such task")]
    Unknown,
    /// Its time is over; it will be removed.
    #[error("the task has expired")]
    Expired,
    /// The task has ended.
    #[error("the task is already {0}")]
    Terminal(Status),
    /// The task has not ended.
    #[error("the task is still {0}")]
    NotTerminal(Status),
    /// The task is in another state than the call is for.
    #[error("the task is {0}")]
    WrongStatus(Status),
    /// A task with this id exists.
    #[error("a task with this id already exists")]
    Exists,
    /// It was asked for longer ago than [`LATE`](crate::LATE). Who asks again asks anew.
    #[error("it was asked for too long ago")]
    Late,
    /// The lease is no longer valid: this desk does not hold the task any more, it was cancelled,
    /// or it is gone. The same for an activity.
    #[error("the task is held elsewhere or was cancelled")]
    Fenced,
    /// The effect that this operation asked for lost a race: the question was answered, or the
    /// value was changed.
    #[error("operation {0} was overtaken")]
    Guard(OpId),
    /// The question is not open: it never was, was answered, or was taken back.
    #[error("the question is not open")]
    NotOpen,
}

/// How a call on a store can fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store said no. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store can't now. Nothing was changed; the same call may succeed later.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The store failed in a way that leaves open whether the call took effect.
    #[error("the outcome of a write is not known: {0}")]
    Unknown(String),
    /// The store's content makes no sense.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
}

impl Error {
    /// Why the store said no, if it did.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
