//! The client itself: requests, notifications, answers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value, json};

use crate::{
    Bookmark, Call, Connect, Error, EventStream, Resume, Revision, RpcError, TaskHandle,
    handlers::Handlers,
    question::Ask,
    wire::{
        Attempt, Exchange, Headers, Link, Message, Outgoing, attempt,
        headers::{self, Param},
    },
};

/// A client of one server. Clones are the same client.
#[derive(Clone, Debug)]
pub struct Client(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) revision: Revision,
    pub(crate) session: OnceLock<String>,
    pub(crate) server: OnceLock<Value>,
    pub(crate) info: Value,
    pub(crate) ids: AtomicU64,
    pub(crate) patience: Duration,
    pub(crate) ask: Option<Ask>,
    /// The parameters of tools that go out as headers as well, as far as they are known.
    pub(crate) marked: Mutex<HashMap<String, Vec<Param>>>,
}

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
    /// Connects to a server, for instance at `http://127.0.0.1:8787/mcp`.
    pub fn connect(url: &str) -> Connect {
        Connect::new(url)
    }

    /// Takes up a session that was begun elsewhere, maybe in a process that is gone.
    pub fn reconnect(url: &str, session_id: &str, revision: Revision) -> Connect {
        Connect::again(url, session_id, revision)
    }

    /// The revision that is spoken.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// The session, up to 2025-11-25.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.0.session.get().map(String::as_str)
    }

    /// What the server said of itself when the client connected.
    #[must_use]
    pub fn server(&self) -> Option<&Value> {
        self.0.server.get()
    }

    /// Calls a tool. The arguments are an object.
    pub fn call(&self, tool: &str, arguments: Value) -> Call {
        Call::new(self.clone(), tool, arguments)
    }

    /// Takes up a call of this session whose stream broke after this event.
    pub fn resume(&self, last_event_id: &str) -> Resume {
        Resume::new(self.clone(), last_event_id)
    }

    /// A task of this id, whoever started it.
    #[must_use]
    pub fn task(&self, id: &str) -> TaskHandle {
        TaskHandle::new(self.clone(), id)
    }

    /// Sends any request, and returns its result.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, Error> {
        let tasks = method.starts_with("tasks/") || method == "subscriptions/listen";
        let sending = Sending { as_task: tasks, ..Sending::default() };
        self.send(method, params, &sending).await
    }

    /// All tools.
    pub async fn list_tools(&self) -> Result<Vec<Value>, Error> {
        let tools = self.list("tools/list", "tools").await?;
        let mut marked = self.0.marked.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in &tools {
            if let Some(name) = tool["name"].as_str() {
                marked.insert(name.to_owned(), Param::find(&tool["inputSchema"]));
            }
        }
        drop(marked);
        Ok(tools)
    }

    /// All prompts.
    pub async fn list_prompts(&self) -> Result<Vec<Value>, Error> {
        self.list("prompts/list", "prompts").await
    }

    /// All resources.
    pub async fn list_resources(&self) -> Result<Vec<Value>, Error> {
        self.list("resources/list", "resources").await
    }

    /// All tasks of this caller; 2025-11-25 only.
    pub async fn list_tasks(&self) -> Result<Vec<Value>, Error> {
        self.list("tasks/list", "tasks").await
    }

    async fn list(&self, method: &str, what: &str) -> Result<Vec<Value>, Error> {
        let (mut all, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = match &cursor {
                Value::Null => json!({}),
                cursor => json!({ "cursor": cursor }),
            };
            let mut page = self.request(method, params).await?;
            match page[what].take() {
                Value::Array(items) => all.extend(items),
                _ => return Err(Error::Protocol(format!("the answer to {method} has no {what}"))),
            }
            cursor = page["nextCursor"].take();
            if cursor.is_null() {
                return Ok(all);
            }
        }
    }

    /// Says something that is not answered. `null` stands for no parameters.
    pub async fn notify(&self, method: &str, params: Value) -> Result<(), Error> {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if !params.is_null() {
            message["params"] = params;
        }
        self.say(method, message).await
    }

    /// Answers a request that the server has made.
    pub async fn respond(&self, id: &Value, outcome: Result<Value, RpcError>) -> Result<(), Error> {
        let message = match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": {
                "code": error.code, "message": error.message, "data": error.data,
            } }),
        };
        self.say("", message).await
    }

    async fn say(&self, method: &str, message: Value) -> Result<(), Error> {
        let what = Attempt::Post {
            headers: self.headers(method, &Value::Null),
            message: Message::fixed(message.to_string()),
            repeatable: true,
        };
        let answer = attempt(&self.0.link, &what, self.0.patience).await?;
        match answer.status {
            200..300 => Ok(()),
            status => Err(Error::refused(status, &answer.body)),
        }
    }

    /// The session's own stream: what the server says that belongs to no request. Up to 2025-11-25.
    pub async fn events(&self) -> Result<EventStream, Error> {
        EventStream::open(self).await
    }

    /// Ends the session. Calls that are at work go on.
    pub async fn end_session(&self) -> Result<(), Error> {
        let answer = self.0.link.delete(&self.headers("", &Value::Null)).await?;
        match answer.status {
            200..300 => Ok(()),
            status => Err(Error::refused(status, &answer.body)),
        }
    }

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
