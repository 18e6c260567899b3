//! The client itself: requests, notifications, answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    Call, Connect, Error, EventStream, Resume, Revision, RpcError, TaskHandle,
    question::Ask,
    sending::Sending,
    wire::{Attempt, Link, Message, attempt, headers::Param},
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
}
