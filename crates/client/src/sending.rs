//! A request on its way out.

use std::sync::{PoisonError, atomic::Ordering};

use serde_json::{Map, Value, json};

use crate::{
    Bookmark, Client, Error, Revision, RpcError,
    handlers::Handlers,
    wire::{Exchange, Headers, Message, Outgoing, headers},
};

/// How a request goes out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sending {
    /// It may be answered with a task of 2026-07-28.
    pub(crate) as_task: bool,
    /// Sending it twice does no harm, whatever its method is.
    pub(crate) repeatable: bool,
    pub(crate) handlers: Handlers,
    pub(crate) bookmark: Bookmark,
}

const TASKS: &str = "io.modelcontextprotocol/tasks";

impl Client {
    /// Sends a request and sees it through to its response.
    pub(crate) async fn send(
        &self,
        method: &str,
        params: Value,
        sending: &Sending,
    ) -> Result<Value, Error> {
        let sent = self.converse(self.exchange(method, &params, sending), sending).await;
        match sent {
            // The tool wants parameters as headers, which only the listing says.
            Err(Error::Rpc(RpcError { code: headers::MISMATCH, .. }))
                if method == "tools/call" && !self.knows(&params) =>
            {
                Box::pin(self.list_tools()).await?;
                self.converse(self.exchange(method, &params, sending), sending).await
            }
            sent => sent,
        }
    }

    fn knows(&self, params: &Value) -> bool {
        let marked = self.0.marked.lock().unwrap_or_else(PoisonError::into_inner);
        params["name"].as_str().is_some_and(|name| marked.contains_key(name))
    }

    fn exchange(&self, method: &str, params: &Value, sending: &Sending) -> Exchange {
        let params = match params {
            Value::Object(params) => params.clone(),
            _ => Map::new(),
        };
        let headers = self.headers(method, &Value::Object(params.clone()));
        let (client, name, how) = (self.clone(), method.to_owned(), sending.clone());
        let message = Message::new(move || client.message(&name, params.clone(), &how));
        let outgoing = Outgoing {
            headers,
            message,
            in_session: !self.revision().is_stateless(),
            repeatable: sending.repeatable || is_repeatable(method),
        };
        Exchange::new(self.0.link.clone(), outgoing, self.0.patience)
    }

    fn message(&self, method: &str, mut params: Map<String, Value>, how: &Sending) -> String {
        let id = self.0.ids.fetch_add(1, Ordering::Relaxed);
        how.bookmark.set_request(id);
        let mut meta = match params.remove("_meta") {
            Some(Value::Object(meta)) => meta,
            _ => Map::new(),
        };
        if how.handlers.progress.is_some() {
            meta.entry("progressToken").or_insert(json!(id));
        }
        if self.revision().is_stateless() {
            let mut put = |name: &str, value: Value| {
                meta.entry(format!("io.modelcontextprotocol/{name}")).or_insert(value);
            };
            put("protocolVersion", json!(self.revision().name()));
            put("clientInfo", self.0.info.clone());
            put("clientCapabilities", self.capabilities(how.as_task));
            if how.handlers.log.is_some() {
                put("logLevel", json!("info"));
            }
        }
        if !meta.is_empty() {
            params.insert("_meta".into(), Value::Object(meta));
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    }

    /// What this client can do, in the words of its revision.
    pub(crate) fn capabilities(&self, tasks: bool) -> Value {
        match self.revision() {
            Revision::V2025_03_26 => json!({}),
            Revision::V2025_06_18 => json!({ "elicitation": {} }),
            Revision::V2025_11_25 => json!({ "elicitation": { "form": {}, "url": {} } }),
            Revision::V2026_07_28 => {
                let mut can = json!({ "elicitation": { "form": {}, "url": {} } });
                if tasks {
                    can["extensions"] = json!({ TASKS: {} });
                }
                can
            }
        }
    }

    pub(crate) fn headers(&self, method: &str, params: &Value) -> Headers {
        let version = self.revision().name();
        match self.revision().is_stateless() {
            true => {
                let marked = self.0.marked.lock().unwrap_or_else(PoisonError::into_inner);
                let tool = params["name"].as_str().filter(|_| method == "tools/call");
                let marked =
                    tool.and_then(|tool| marked.get(tool)).map_or(&[][..], |marked| marked);
                headers::stateless(version, method, params, marked)
            }
            false if method == "initialize" => Headers::new(),
            false => headers::of_session(version, self.session_id()),
        }
    }
}

/// Whether a request of this method can be sent twice without harm.
#[must_use]
pub fn is_repeatable(method: &str) -> bool {
    matches!(method, "initialize" | "ping" | "server/discover" | "prompts/get" | "resources/read")
        || matches!(method, "completion/complete" | "logging/setLevel" | "subscriptions/listen")
        || matches!(method, "resources/subscribe" | "resources/unsubscribe")
        || method.ends_with("/list")
        || method.starts_with("tasks/")
}
