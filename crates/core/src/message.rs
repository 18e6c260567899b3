//! What reaches a task from outside.

use serde::{Deserialize, Serialize};

use crate::{Failure, Json, OpId, Scope, Timestamp};

/// How an operation ended.
pub type Outcome = Result<Json, Failure>;

/// What the user did with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Answered it.
    Accept,
    /// Said no to answering.
    Decline,
    /// Dismissed it.
    Cancel,
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What the user did.
    pub action: Action,
    /// What was answered, if accepted.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    pub content: Option<Json>,
}

/// One message in a task's inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// An external event.
    Signal {
        /// Its name.
        name: String,
        /// Its id: the same id is applied once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// What it carries.
        payload: Json,
    },
    /// An answer to an open question.
    Answer {
        /// The question's key.
        key: String,
        /// The answer.
        answer: Answer,
    },
    /// An activity ended for good.
    ActivityEnded {
        /// Which.
        op: OpId,
        /// How.
        outcome: Outcome,
    },
    /// An activity failed and will be tried again.
    ActivityRetrying {
        /// Which.
        op: OpId,
        /// Why.
        failure: Failure,
        /// When.
        retry_at: Timestamp,
    },
    /// A child task ended.
    ChildEnded {
        /// The operation that started it.
        op: OpId,
        /// How.
        outcome: Outcome,
    },
    /// Durable state that the task watches has changed.
    StateChanged {
        /// Whose.
        scope: Scope,
        /// Which key.
        key: String,
    },
}
