//! What the engine writes into the columns that a store does not read.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use steadfast_core::{Failure, Json, Message, Outcome, TaskId, Ttl, View};
use steadfast_store::InboxRow;

/// What never changes about a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rerun_of: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// The task that the call started, if it is another: an ancestor, or the one this is a rerun of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<TaskId>,
    /// How far it says it is is not recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) passing_progress: bool,
    pub(crate) retention: Ttl,
}

impl Default for About {
    fn default() -> About {
        About {
            parent: None,
            rerun_of: None,
            trace: None,
            call: None,
            session: None,
            origin: None,
            passing_progress: false,
            retention: Ttl::days(7),
        }
    }
}

/// How a task ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Completed(Json),
    Failed(Failure),
    Cancelled(Option<String>),
}

/// What a worker needs to know of an activity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ActivityBody {
    pub(crate) input: Json,
    pub(crate) retry: steadfast_core::Retry,
    /// The run of the task that asked for it: operations are numbered anew in each.
    #[serde(default)]
    pub(crate) run: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heartbeat_ms: Option<u64>,
}

pub(crate) fn write<T: Serialize>(value: &T) -> Vec<u8> {
    // All of these are plain structures of strings, numbers and valid JSON text, which always
    // serialise; an empty blob reads as an error or a default, never as something else.
    serde_json::to_vec(value).unwrap_or_default()
}

pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, steadfast_store::Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        steadfast_store::Error::Corrupt(format!("a column can't be read: {error}"))
    })
}

/// Views and the like are for show: a damaged one must not keep a task from being seen.
pub(crate) fn read_view(bytes: &[u8]) -> View {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// The message that tells a parent how its child ended. The store knows which operation waits.
pub(crate) fn tell_parent(outcome: Outcome) -> Vec<u8> {
    write(&Message::ChildEnded { op: steadfast_core::OpId(0), outcome })
}

pub(crate) fn read_message(row: &InboxRow) -> Result<Message, steadfast_store::Error> {
    let message: Message = read(&row.body)?;
    Ok(match (message, row.op) {
        (Message::ChildEnded { outcome, .. }, Some(op)) => Message::ChildEnded { op, outcome },
        (message, _) => message,
    })
}
