//! What went wrong, in a form that can be recorded and come back after a crash.

use serde::{Deserialize, Serialize};

use crate::Json;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The author's code returned an error.
    Error,
    /// An at-most-once step was started and its end was never recorded. It is not run again.
    Unfinished,
    /// An attempt, a question or an activity ran out of time.
    TimedOut,
    /// The code panicked.
    Panicked,
    /// It was cancelled.
    Cancelled,
    /// A documented limit was reached.
    Limit,
    /// A value could not be written as, or read from, JSON of the expected shape.
    Payload,
    /// A child task failed or was cancelled.
    Child,
    /// The call itself was wrong, such as a durable operation inside a step.
    Usage,
    /// Effect validation ran it twice, and it did not do the same the second time.
    Unrepeatable,
}

/// A recorded failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of thing went wrong.
    pub kind: FailureKind,
    /// One sentence for the caller.
    pub message: String,
    /// The author's name for the error, if it has one. Retry rules go by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Structured detail from the author.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    pub data: Option<Json>,
    /// For the operator's eyes only, such as the place of a panic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// No retry can help.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub permanent: bool,
}

impl Failure {
    /// A failure of this kind with a message, open to retry.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        let message = message.into();
        Failure { kind, message, code: None, data: None, detail: None, permanent: false }
    }

    /// The same, marked as beyond retry.
    #[must_use]
    pub fn permanently(mut self) -> Failure {
        self.permanent = true;
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
