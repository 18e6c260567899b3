//! Who is who: `initialize`, `server/discover`, log levels.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steadfast_engine::CallError;

use super::{Reply, params};
use crate::{
    Identity,
    catalog::Body,
    client::{Capabilities, Client},
    front::{Front, LEVELS, Request, level},
    session::Session,
    wire::{Object, Revision, RpcError, TASKS},
};

/// What `initialize` says of a client.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Opening {
    protocol_version: String,
    #[serde(default)]
    capabilities: Capabilities,
    #[serde(default)]
    client_info: Option<Value>,
}

impl Opening {
    pub(crate) fn read(params: &str) -> Result<Opening, RpcError> {
        serde_json::from_str(params).map_err(|error| {
            RpcError::invalid_params(format!("the parameters of initialize can't be read: {error}"))
        })
    }

    /// The client, in the revision that it asked for, or the newest that it may know.
    pub(crate) fn client(self, caller: Identity) -> Client {
        let asked = Revision::named(&self.protocol_version).filter(|r| !r.is_stateless());
        let revision = asked.unwrap_or(Revision::NEWEST_WITH_SESSIONS);
        let client = Client::new(caller, revision, self.capabilities, self.client_info);
        // Those are for calls, each of which has its own.
        Client { credentials: Default::default(), ..client }
    }
}

/// The answer to `initialize`.
pub(crate) fn initialize(front: &Arc<Front>, session: &Session) -> String {
    let client = &session.client;
    Object::new()
        .put("protocolVersion", client.revision.name())
        .put("capabilities", &front.capabilities(client))
        .put("serverInfo", &front.identity.render(client.revision))
        .maybe("instructions", front.identity.instructions.as_ref())
        .close()
}

impl Front {
    pub(super) fn discover(&self, request: &Request<'_>) -> Reply {
        let versions: Vec<&str> = Revision::ALL.iter().map(|revision| revision.name()).collect();
        let result = self
            .result(&request.client)
            .put("supportedVersions", &versions)
            .put("capabilities", &self.capabilities(&request.client))
            .maybe("instructions", self.identity.instructions.as_ref());
        let result = self.cache_hints(&request.client, result, self.settings.cache_life);
        Ok(self.close(&request.client, result))
    }

    /// What we can do, as a client of this revision reads it.
    fn capabilities(&self, client: &Client) -> Value {
        let offer = self.catalog.offer();
        let mut can = Map::new();
        can.insert("tools".into(), json!({ "listChanged": true }));
        if !offer.prompts.is_empty() {
            can.insert("prompts".into(), json!({ "listChanged": true }));
        }
        if !offer.resources.is_empty() || !offer.templates.is_empty() {
            can.insert("resources".into(), json!({ "subscribe": true, "listChanged": true }));
        }
        let completes = offer.prompts.items().iter().any(|p| !p.prompt.completions.is_empty())
            || offer.templates.items().iter().any(|t| !t.template.completions.is_empty());
        if completes && client.revision >= Revision::V2025_03_26 {
            can.insert("completions".into(), json!({}));
        }
        can.insert("logging".into(), json!({}));
        match client.revision {
            Revision::V2026_07_28 => {
                can.insert("extensions".into(), json!({ TASKS: {} }));
            }
            Revision::V2025_11_25 if self.offers_tasks() => {
                let mut tasks = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
                if let (Some(tasks), true) = (tasks.as_object_mut(), self.may_list(client)) {
                    tasks.insert("list".into(), json!({}));
                }
                can.insert("tasks".into(), tasks);
            }
            _ => {}
        }
        Value::Object(can)
    }

    /// Whether there is anything that can be called as a task of 2025-11-25.
    pub(super) fn offers_tasks(&self) -> bool {
        let offer = self.catalog.offer();
        offer.tools.items().iter().any(|entry| matches!(entry.tool.body, Body::Durable(_)))
    }

    /// Whether a client may list its tasks: not if there may be others behind the same principal.
    pub(super) fn may_list(&self, client: &Client) -> bool {
        self.settings.anonymous_list || client.principal != self.anonymous
    }

    pub(super) async fn set_level(&self, request: &Request<'_>) -> Reply {
        #[derive(Deserialize)]
        struct Params {
            level: String,
        }
        let Params { level: name } = params(request)?;
        let level = level(&name).ok_or_else(|| {
            let levels = LEVELS.join(", ");
            RpcError::invalid_params(format!("a log level is one of {levels}"))
        })?;
        if let Some(session) = &request.session {
            session.set_log_level(level);
            self.keep(session).await?;
        }
        Ok("{}".into())
    }

    /// Writes down what a client has set for its session, before it is told so.
    pub(super) async fn keep(&self, session: &Arc<Session>) -> Result<(), RpcError> {
        let kept = self.sessions.keep(session).await;
        kept.map_err(|error| super::task_error(CallError::Store(error)))
    }
}
