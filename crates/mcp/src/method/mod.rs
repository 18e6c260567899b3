//! The methods, one file a family.

mod call;
mod companion;
mod completion;
mod early;
mod follow;
mod heard;
mod lifecycle;
mod listen;
mod lost;
mod outcome;
mod prompts;
mod questions;
mod resources;
mod rounds;
mod start;
mod status;
mod tasks;
mod theirs;
mod tools;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use steadfast_engine::CallError;
use steadfast_store as store;

pub(crate) use companion::{Companion, companions};
pub(crate) use follow::Point;
pub(crate) use lifecycle::{Opening, initialize};
pub(crate) use lost::LostCall;
pub(crate) use questions::Routed;

use crate::{
    client::{Capabilities, Client},
    front::{Front, LEVELS, Meta, Request, level},
    wire::{Revision, RpcError, code, meta},
};

type Reply = Result<String, RpcError>;

impl Front {
    /// Answers a request: the text of its result, or an error.
    pub(crate) async fn answer(self: &Arc<Self>, request: &Request<'_>) -> Reply {
        use Revision::{V2025_11_25, V2026_07_28};
        let revision = request.client.revision;
        match request.method {
            "server/discover" if revision == V2026_07_28 => self.discover(request),
            "ping" if revision < V2026_07_28 => Ok("{}".into()),
            "logging/setLevel" if revision < V2026_07_28 => self.set_level(request).await,
            "tools/list" => self.list_tools(request),
            "tools/call" => self.call_tool(request).await,
            "prompts/list" => self.list_prompts(request),
            "prompts/get" => self.get_prompt(request).await,
            "resources/list" => self.list_resources(request),
            "resources/templates/list" => self.list_templates(request),
            "resources/read" => self.read_resource(request).await,
            "resources/subscribe" if revision < V2026_07_28 => self.subscribe(request, true).await,
            "resources/unsubscribe" if revision < V2026_07_28 => {
                self.subscribe(request, false).await
            }
            "completion/complete" => self.complete(request).await,
            "subscriptions/listen" if revision == V2026_07_28 => self.listen(request).await,
            "tasks/get" if revision >= V2025_11_25 => self.get_task(request).await,
            "tasks/cancel" if revision >= V2025_11_25 => self.cancel_task(request).await,
            "tasks/update" if revision == V2026_07_28 => self.update_task(request).await,
            "tasks/result" if revision == V2025_11_25 => self.task_result(request).await,
            "tasks/list" if revision == V2025_11_25 => self.list_tasks(request).await,
            other => Err(match revision {
                V2026_07_28 => RpcError::no_method(other).status(404),
                _ => RpcError::no_method(other),
            }),
        }
    }
}

/// Reads the parameters of a method.
fn params<T: DeserializeOwned>(request: &Request<'_>) -> Result<T, RpcError> {
    serde_json::from_str(request.params)
        .map_err(|error| RpcError::invalid_params(format!("the parameters can't be read: {error}")))
}

/// The longest idempotency key, in bytes: with what the front puts before it, it is a name to the engine.
const MOST_OF_KEY: usize = 256;

/// What the `_meta` of a request says.
pub(crate) struct ReadMeta {
    /// The version that it names, which makes it a request of 2026-07-28 or later.
    pub(crate) version: Option<String>,
    pub(crate) capabilities: Option<Capabilities>,
    pub(crate) info: Option<Value>,
    pub(crate) meta: Meta,
}

/// Reads the `_meta` in a request's parameters.
pub(crate) fn read_meta(params: &str) -> Result<ReadMeta, RpcError> {
    #[derive(serde::Deserialize)]
    struct Params {
        #[serde(default, rename = "_meta")]
        meta: Option<Map<String, Value>>,
    }
    let wrong = |what: &str| RpcError::invalid_params(format!("_meta: {what}")).status(400);
    let Params { meta: fields } = serde_json::from_str(params)
        .map_err(|error| wrong(&format!("the parameters can't be read: {error}")))?;
    let mut fields = fields.unwrap_or_default();
    let progress_token = match fields.remove(meta::PROGRESS) {
        None | Some(Value::Null) => None,
        Some(token @ Value::String(_)) => Some(token),
        Some(Value::Number(token)) if !token.is_f64() => Some(Value::Number(token)),
        Some(_) => return Err(wrong("a progress token is a text or a whole number")),
    };
    let version = match fields.remove(meta::VERSION) {
        None => None,
        Some(Value::String(version)) => Some(version),
        Some(_) => return Err(wrong("the protocol version is a text")),
    };
    let capabilities = match fields.remove(meta::CAPABILITIES) {
        None => None,
        Some(Value::Object(object)) => Some(Capabilities(object)),
        Some(_) => return Err(wrong("the client's capabilities are an object")),
    };
    let log_level = match fields.remove(meta::LOG_LEVEL) {
        None => None,
        Some(Value::String(name)) if level(&name).is_some() => level(&name),
        Some(_) => {
            let levels = LEVELS.join(", ");
            return Err(wrong(&format!("a log level is one of {levels}")));
        }
    };
    let trace = fields.remove("traceparent").and_then(|trace| match trace {
        Value::String(trace) => Some(trace),
        _ => None,
    });
    let key = match fields.remove(meta::KEY) {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) if (1..=MOST_OF_KEY).contains(&key.len()) => Some(key),
        Some(_) => {
            let what = format!("{} is a text of 1 to {MOST_OF_KEY} bytes", meta::KEY);
            return Err(wrong(&what));
        }
    };
    let info = fields.remove(meta::CLIENT_INFO).filter(Value::is_object);
    let meta = Meta { progress_token, log_level, trace, key };
    Ok(ReadMeta { version, capabilities, info, meta })
}

/// The revision without sessions of this name.
pub(crate) fn stateless_revision(version: &str) -> Result<Revision, RpcError> {
    let known = Revision::named(version).filter(|revision| revision.is_stateless());
    known.ok_or_else(|| unsupported(version))
}

/// A revision that is not served, or not so.
pub(crate) fn unsupported(version: &str) -> RpcError {
    let supported: Vec<&str> = Revision::ALL.iter().map(|revision| revision.name()).collect();
    let requested: String = version.chars().take(100).collect();
    let data = serde_json::json!({ "supported": supported, "requested": requested });
    RpcError::new(code::UNSUPPORTED_VERSION, "unsupported protocol version").data(&data).status(400)
}

/// What a failed call on a task means to a client.
fn task_error(error: CallError) -> RpcError {
    match error {
        CallError::Unknown(_) => RpcError::invalid_params("task not found"),
        CallError::Expired(_) => RpcError::invalid_params("the task has expired"),
        CallError::Terminal { status, .. } => {
            RpcError::invalid_params(format!("the task is already {status}"))
        }
        CallError::BadId(_) => RpcError::invalid_params("task not found"),
        CallError::BadCursor(_) => {
            RpcError::invalid_params("this is no cursor of this listing; start without one")
        }
        error @ (CallError::TooLarge { .. } | CallError::TooLong { .. }) => {
            RpcError::invalid_params(error.to_string())
        }
        CallError::ShuttingDown => {
            RpcError::new(code::INTERNAL, "the server is shutting down; try again").status(503)
        }
        CallError::Late => {
            RpcError::new(code::INTERNAL, "the request came too late; make it again").status(503)
        }
        // Nothing was done. Another process may reach it.
        CallError::Store(error @ store::Error::Unavailable(_)) => {
            tracing::error!(%error, "a call on a task failed");
            RpcError::new(code::INTERNAL, "the store can't be reached; try again").status(503)
        }
        // Who tries again finds out.
        CallError::Store(error @ store::Error::Unknown(_)) => {
            tracing::error!(%error, "it is not known what became of a call on a task");
            RpcError::new(code::INTERNAL, "it is not known whether this was done; try again")
                .status(503)
        }
        error => {
            tracing::error!(%error, "a call on a task failed");
            RpcError::internal()
        }
    }
}

impl Client {
    /// Whether it is one of the protocol with tasks of its own kind, and has said so.
    pub(crate) fn follows_tasks(&self) -> bool {
        self.revision.is_stateless() && self.capabilities.tasks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever can try again is told so, by the status and by the text: a stream that has begun has no status.
    #[test]
    fn what_the_store_does_not_know_can_be_asked_again() {
        for error in
            [store::Error::Unknown("lost".into()), store::Error::Unavailable("away".into())]
        {
            let told = format!("{:?}", task_error(CallError::Store(error)));
            assert!(told.contains("503") && told.contains("; try again"), "{told}");
        }
        let told = format!("{:?}", task_error(CallError::Store(store::Error::Corrupt("x".into()))));
        assert!(!told.contains("503"), "{told}");
    }
}
