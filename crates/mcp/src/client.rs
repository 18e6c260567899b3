//! Who calls, and what the caller can do.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_core::{Principal, TaskId};

use crate::{
    Identity, Secret,
    identity::{Claims, Credentials},
    secret::{Keys, Place, Sealed, no_credential},
    wire::{Id, Revision, RpcError, TASKS},
};

/// What a client has said that it can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Capabilities(pub(crate) Map<String, Value>);

impl Capabilities {
    fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.0.get(*first)?, |value, name| value.get(name))
    }

    pub(crate) fn has(&self, path: &[&str]) -> bool {
        self.at(path).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
    }

    /// The tasks extension of 2026-07-28.
    pub(crate) fn tasks(&self) -> bool {
        self.has(&["extensions", TASKS])
    }

    /// Whether the client can be asked this.
    pub(crate) fn can(&self, kind: InputKind) -> bool {
        match kind {
            // An empty object is the form mode alone: there was no other before 2025-11-25.
            InputKind::Form => {
                self.has(&["elicitation", "form"])
                    || self.has(&["elicitation"]) && !self.has(&["elicitation", "url"])
            }
            InputKind::Url => self.has(&["elicitation", "url"]),
            InputKind::Sample => self.has(&["sampling"]),
            InputKind::SampleWithTools => self.has(&["sampling", "tools"]),
            InputKind::Roots => self.has(&["roots"]),
        }
    }
}

/// What a client can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputKind {
    Form,
    Url,
    Sample,
    SampleWithTools,
    Roots,
}

impl InputKind {
    pub(crate) const ALL: [InputKind; 5] = [
        InputKind::Form,
        InputKind::Url,
        InputKind::Sample,
        InputKind::SampleWithTools,
        InputKind::Roots,
    ];

    /// The capability a client needs for it, as the wire has it.
    pub(crate) fn capability(self) -> Value {
        match self {
            InputKind::Form => serde_json::json!({ "elicitation": { "form": {} } }),
            InputKind::Url => serde_json::json!({ "elicitation": { "url": {} } }),
            InputKind::Sample => serde_json::json!({ "sampling": {} }),
            InputKind::SampleWithTools => serde_json::json!({ "sampling": { "tools": {} } }),
            InputKind::Roots => serde_json::json!({ "roots": {} }),
        }
    }

    /// The kind of a request to a client, if it is one that we know.
    pub(crate) fn of(method: &str, params: Option<&Value>) -> Option<InputKind> {
        let has = |name| params.is_some_and(|params| params.get(name).is_some());
        match method {
            "elicitation/create"
                if params.and_then(|p| p.get("mode")).is_some_and(|mode| mode == "url") =>
            {
                Some(InputKind::Url)
            }
            "elicitation/create" => Some(InputKind::Form),
            "sampling/createMessage" if has("tools") || has("toolChoice") => {
                Some(InputKind::SampleWithTools)
            }
            "sampling/createMessage" => Some(InputKind::Sample),
            "roots/list" => Some(InputKind::Roots),
            _ => None,
        }
    }
}

/// Who made a request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) principal: Principal,
    /// What authenticated the request knows of it: of a session, the one that began it.
    pub(crate) claims: Arc<Claims>,
    /// What the request brought for other services. None for a session.
    pub(crate) credentials: Credentials,
    pub(crate) revision: Revision,
    pub(crate) capabilities: Capabilities,
    /// Its name and version, as it says itself.
    pub(crate) info: Option<Value>,
}

/// What a client may say of itself when a session begins, in bytes of JSON: it is kept as long as that,
/// and with each of its tasks.
const MOST_SAID: usize = 64 << 10;

impl Client {
    pub(crate) fn new(
        caller: Identity,
        revision: Revision,
        capabilities: Capabilities,
        info: Option<Value>,
    ) -> Client {
        let (principal, claims, credentials) = caller.into_parts();
        Client { principal, claims, credentials, revision, capabilities, info }
    }

    /// The client of a session, as it is in one of its requests.
    pub(crate) fn for_request(&self, caller: Identity) -> Client {
        Client::new(caller, self.revision, self.capabilities.clone(), self.info.clone())
    }

    /// Refuses one that says too much of itself.
    pub(crate) fn within_limits(self) -> Result<Client, RpcError> {
        let said = serde_json::to_string(&(&self.capabilities, &self.info));
        match said.map_or(usize::MAX, |said| said.len()) > MOST_SAID {
            true => Err(RpcError::invalid_params(format!(
                "the client's capabilities and clientInfo are larger than {MOST_SAID} bytes"
            ))),
            false => Ok(self),
        }
    }
}

/// What a durable call is recorded with: what its code may want to know of who called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    pub(crate) revision: String,
    /// Of the request that made the call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) claims: Claims,
    /// The same, encrypted.
    #[serde(default, skip_serializing_if = "Sealed::is_empty")]
    pub(crate) credentials: Sealed,
    #[serde(default)]
    pub(crate) capabilities: Capabilities,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<Value>,
    /// What the client can't be asked can be answered by a companion tool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) companions: bool,
    /// The input does not fit the schema, for this reason: nothing is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
    /// What its progress is reported under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) progress_token: Option<Value>,
    /// What tells its arguments from others, if its client may come back with answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<u64>,
    /// How long a question waits whose author set no deadline: an answer can't come later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer_within_ms: Option<u64>,
    /// What tells its request from others, if it may be made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<u64>,
    /// Who waits for its result, so that a stream that broke can be taken up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<Waiting>,
}

impl CallRecord {
    pub(crate) fn caller(&self, owner: Option<&Principal>) -> Caller {
        Caller {
            principal: owner.cloned(),
            claims: self.claims.clone(),
            client_info: self.client.clone(),
            capabilities: self.capabilities.0.clone(),
            revision: Revision::named(&self.revision),
        }
    }

    /// Whether this request of this session made the call, and waits for it.
    pub(crate) fn is_waited_for(&self, session: &str, request: &Id) -> bool {
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|waiting| waiting.session == session && waiting.request == *request)
    }

    /// A credential, for a task of this owner that the call started, or that came of it.
    pub(crate) fn credential(
        &self,
        keys: &Keys,
        owner: Option<&Principal>,
        call: &TaskId,
        name: &str,
    ) -> steadfast_engine::Result<Secret> {
        match owner {
            Some(principal) => keys.open(Place { principal, call }, &self.credentials, name),
            None => Err(no_credential(name)),
        }
    }
}

/// A request of a session, up to 2025-11-25.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) session: String,
    pub(crate) request: Id,
    /// It has an idempotency key, which is not free when it is answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) keyed: bool,
}

/// Who called a durable tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// Whose task it is.
    pub principal: Option<Principal>,
    /// What was known of it when it called: what [`Auth::hook`](crate::Auth::hook) returned for the request
    /// that made the call. The same in every replay.
    pub claims: Map<String, Value>,
    /// The client's name and version, as it says itself: not to be relied on.
    pub client_info: Option<Value>,
    /// What the client can do, as it said when it called.
    pub capabilities: Map<String, Value>,
    /// The revision of the protocol that the call came in.
    pub revision: Option<Revision>,
}
