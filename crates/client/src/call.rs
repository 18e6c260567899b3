//! Calling a tool.

use std::{pin::Pin, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    Bookmark, CallResult, Canceller, Client, Error, Question, TaskHandle,
    cancel::Stop,
    handlers::{Handlers, listens},
    sending::Sending,
    wire::Exchange,
};

/// The field of a call's `_meta` by which a server knows that it has had the same call before.
pub const IDEMPOTENCY_KEY: &str = "dev.steadfast/idempotency-key";

/// A call of a tool. `.await` it for the result.
///
/// A plain call is waited for. When the connection breaks, or the server is killed and started again:
/// up to 2025-11-25 the stream is taken up where it broke; in 2026-07-28 the call is made again, if it
/// has an idempotency key. A call as a task is looked at again and again until it is over.
///
/// Dropped before its end, a plain call of 2026-07-28 without a key is cancelled; all others go on.
/// [`canceller`](Call::canceller) is for those.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is awaited"]
pub struct Call {
    client: Client,
    tool: String,
    arguments: Value,
    as_task: bool,
    ttl: Option<Duration>,
    key: Option<String>,
    handlers: Handlers,
    bookmark: Bookmark,
    stop: Stop,
}

listens!(Call);

/// What a call as a task comes to at first.
#[derive(Clone, Debug)]
pub enum Started {
    /// A task.
    Task(TaskHandle),
    /// The result itself: it was quick, or can't be a task.
    Done(CallResult),
}

impl Call {
    pub(crate) fn new(client: Client, tool: &str, arguments: Value) -> Call {
        Call {
            client,
            tool: tool.to_owned(),
            arguments,
            as_task: false,
            ttl: None,
            key: None,
            handlers: Handlers::default(),
            bookmark: Bookmark::default(),
            stop: Stop::default(),
        }
    }

    /// Waits for the result on the stream of the call. So it is unless something else is said.
    pub fn plain(mut self) -> Call {
        self.as_task = false;
        self
    }

    /// Lets the server make a task of it. In 2026-07-28 it is the server's choice.
    pub fn as_task(mut self) -> Call {
        self.as_task = true;
        self
    }

    /// How long a task of 2025-11-25 is to be kept.
    pub fn ttl(mut self, ttl: Duration) -> Call {
        self.ttl = Some(ttl);
        self
    }

    /// A call with a key that was used before is the call of that time: so it can be made again when it
    /// is not known what has become of it. That is for servers that know such keys: another would do
    /// it twice.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Call {
        self.key = Some(key.into());
        self
    }

    /// Says where the call stands while it runs, and after it came to nothing.
    #[must_use]
    pub fn bookmark(&self) -> Bookmark {
        self.bookmark.clone()
    }

    /// Takes the call back while it is awaited elsewhere. To be had when all else is said of the call.
    ///
    /// ```no_run
    /// # async fn example(client: steadfast_client::Client) -> Result<(), steadfast_client::Error> {
    /// let call = client.call("purchase_order", serde_json::json!({ "item": "desk lamp" }));
    /// let canceller = call.canceller();
    /// let running = tokio::spawn(call.into_future());
    /// canceller.cancel().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        let (client, bookmark) = (self.client.clone(), self.bookmark.clone());
        Canceller::new(client, bookmark, self.as_task, self.key.is_some(), self.stop.clone())
    }

    fn sending(&self) -> Sending {
        Sending {
            as_task: self.as_task,
            repeatable: self.key.is_some(),
            handlers: self.handlers.clone(),
            bookmark: self.bookmark.clone(),
        }
    }

    fn params(&self, more: Map<String, Value>) -> Value {
        let mut params = json!({ "name": self.tool, "arguments": self.arguments });
        if let Some(key) = &self.key {
            params["_meta"] = json!({ IDEMPOTENCY_KEY: key });
        }
        for (name, value) in more {
            params[name] = value;
        }
        params
    }

    /// Starts the call as a task and does not wait for it.
    pub async fn start(mut self) -> Result<Started, Error> {
        self.as_task = true;
        self.begin().await
    }

    async fn begin(&self) -> Result<Started, Error> {
        let result = match self.client.revision().is_stateless() {
            true => self.rounds().await?,
            false => self.in_session().await?,
        };
        // One generation has it in a field of its own, the other inline.
        let task = match result["resultType"] == "task" {
            true => result["taskId"].as_str(),
            false => result["task"]["taskId"].as_str().filter(|_| self.as_task),
        };
        Ok(match task {
            Some(id) => {
                self.bookmark.set_task(id);
                Started::Task(self.client.task(id))
            }
            None => Started::Done(CallResult::read(result)),
        })
    }

    async fn in_session(&self) -> Result<Value, Error> {
        let mut more = Map::new();
        if self.as_task {
            let ttl = self.ttl.map(|ttl| json!({ "ttl": ttl.as_millis() as u64 }));
            more.insert("task".into(), ttl.unwrap_or_else(|| json!({})));
        }
        self.client.send("tools/call", self.params(more), &self.sending()).await
    }

    /// Calls, and calls again with the answers while something is asked.
    async fn rounds(&self) -> Result<Value, Error> {
        let (sending, mut more) = (self.sending(), Map::new());
        let ask = self.client.ask_or_dismiss(&sending);
        loop {
            let mut result = self.client.send("tools/call", self.params(more), &sending).await?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            let mut answers = Map::new();
            for (key, request) in result["inputRequests"].as_object().into_iter().flatten() {
                let method = request["method"].as_str().unwrap_or_default();
                let question = Question::read(Some(key), method, &request["params"])?;
                answers.insert(key.clone(), ask.ask(question).await.to_value());
            }
            more = Map::new();
            more.insert("inputResponses".into(), Value::Object(answers));
            if !result["requestState"].is_null() {
                more.insert("requestState".into(), result["requestState"].take());
            }
        }
    }

    async fn run(self) -> Result<CallResult, Error> {
        let ended = async {
            match self.begin().await? {
                Started::Done(result) => Ok(result),
                Started::Task(task) => task.wait_with(&self.sending()).await,
            }
        };
        tokio::select! {
            // Nothing is sent of what was taken back before.
            biased;
            () = self.stop.fired() => Err(Error::Cancelled(Some("it was taken back".into()))),
            ended = ended => ended,
        }
    }
}

impl IntoFuture for Call {
    type Output = Result<CallResult, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A call that is taken up where its stream broke. `.await` it for the result.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is awaited"]
pub struct Resume {
    client: Client,
    event: String,
    handlers: Handlers,
    bookmark: Bookmark,
}

listens!(Resume);

impl Resume {
    pub(crate) fn new(client: Client, event: &str) -> Resume {
        let bookmark = Bookmark::default();
        bookmark.set_event(Some(event));
        Resume { client, event: event.to_owned(), handlers: Handlers::default(), bookmark }
    }

    /// Says where the call stands while it runs, and after it came to nothing.
    #[must_use]
    pub fn bookmark(&self) -> Bookmark {
        self.bookmark.clone()
    }

    async fn run(self) -> Result<CallResult, Error> {
        let Resume { client, event, handlers, bookmark } = self;
        let headers = client.headers("", &Value::Null);
        let exchange = Exchange::resume(client.0.link.clone(), headers, event, client.0.patience);
        let sending = Sending { handlers, bookmark, ..Sending::default() };
        client.converse(exchange, &sending).await.map(CallResult::read)
    }
}

impl IntoFuture for Resume {
    type Output = Result<CallResult, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
