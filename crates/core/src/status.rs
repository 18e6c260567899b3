//! What the world sees of a task.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Failure, Json, Timestamp};

/// Where a task stands.
///
/// ```text
///  Queued ──► Running ◄──► Waiting │ InputRequired │ Retrying
///                │  ▲
///                │  └─ resume ── Suspended │ Stuck
///                ▼
///  Completed │ Failed │ Cancelled        (never left again)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Status {
    /// Accepted, and not yet begun: a start in the future, or no free place.
    Queued = 0,
    /// Its code runs, or may run any moment.
    Running = 1,
    /// It waits for a timer, an event, a child or an activity.
    Waiting = 2,
    /// At least one question to the user is open.
    InputRequired = 3,
    /// A step or an activity failed and will be tried again.
    Retrying = 4,
    /// An operator halted it.
    Suspended = 5,
    /// It can't go on by itself: the view says why. `resume` tries again.
    Stuck = 6,
    /// It returned a result.
    Completed = 7,
    /// It returned an error.
    Failed = 8,
    /// It was cancelled.
    Cancelled = 9,
}

impl Status {
    /// Every status, in the order of its number.
    pub const ALL: [Status; 10] = [
        Status::Queued,
        Status::Running,
        Status::Waiting,
        Status::InputRequired,
        Status::Retrying,
        Status::Suspended,
        Status::Stuck,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
    ];

    /// Whether the task has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self as u8 >= Status::Completed as u8
    }

    /// Whether somebody must resume it before it goes on.
    #[must_use]
    pub fn is_halted(self) -> bool {
        matches!(self, Status::Suspended | Status::Stuck)
    }

    /// The status with this number.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Status> {
        usize::try_from(number).ok().and_then(|n| Status::ALL.get(n).copied())
    }

    /// Its name, as it is written in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::InputRequired => "input_required",
            Status::Retrying => "retrying",
            Status::Suspended => "suspended",
            Status::Stuck => "stuck",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How much is done.
    pub done: f64,
    /// Of how much, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// How the undoing of a failed or cancelled task stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compensation {
    /// Undo functions are being run, or will be.
    Running {
        /// How many have ended.
        done: u32,
        /// How many there are.
        total: u32,
    },
    /// Every undo function succeeded.
    Done,
    /// At least one gave up.
    Failed {
        /// The first that did.
        failure: Failure,
    },
}

/// The public state of a task that changes while it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct View {
    /// What the task last said of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Why it retries or is stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// When the next attempt is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Why it was cancelled or suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How its undoing stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensation: Option<Compensation>,
    /// Marks that the task has set, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub marks: BTreeMap<String, Json>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_its_number_and_its_name() {
        for (number, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, number);
            assert_eq!(Status::from_number(number as i64), Some(status));
            assert_eq!(serde_json::to_string(&status).unwrap(), format!("{:?}", status.name()));
        }
        assert_eq!(Status::from_number(10), None);
        assert_eq!(Status::from_number(-1), None);
    }
}
