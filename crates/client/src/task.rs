//! Tasks, of both generations.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    Answer, CallResult, Client, Error, Question, RpcError, Wait, handlers::Handlers,
    sending::Sending,
};

/// A task of a server.
#[derive(Clone, Debug)]
pub struct TaskHandle {
    client: Client,
    id: String,
}

/// What a task is doing, in the words of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It goes on by itself.
    Working,
    /// It asks something.
    InputRequired,
    /// It has a result.
    Completed,
    /// It has an error; in 2025-11-25 also a result that says so.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// How a task stands.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskState {
    /// Its id.
    pub id: String,
    /// What it is doing.
    pub status: Status,
    /// The same in a few words of its own.
    pub message: Option<String>,
    /// How long to wait before it is looked at again.
    pub poll_interval: Duration,
    /// What it asks; 2026-07-28 only.
    pub questions: Vec<Question>,
    /// What came out; 2026-07-28 only.
    pub result: Option<CallResult>,
    /// Why nothing came out; 2026-07-28 only.
    pub error: Option<RpcError>,
    /// All that the server has sent.
    pub raw: Value,
}

impl Status {
    /// Whether it stays so.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }
}

impl TaskState {
    pub(crate) fn read(raw: Value) -> Result<TaskState, Error> {
        let status = match raw["status"].as_str() {
            Some("working" | "submitted") => Status::Working,
            Some("input_required") => Status::InputRequired,
            Some("completed") => Status::Completed,
            Some("failed") => Status::Failed,
            Some("cancelled") => Status::Cancelled,
            other => {
                let other = other.unwrap_or("none");
                return Err(Error::Protocol(format!("a task has the status {other}")));
            }
        };
        let asked = raw["inputRequests"].as_object().into_iter().flatten();
        let questions = asked.map(|(key, request)| {
            let method = request["method"].as_str().unwrap_or_default();
            Question::read(Some(key), method, &request["params"])
        });
        let millis = raw["pollIntervalMs"].as_f64().or(raw["pollInterval"].as_f64());
        let wanted = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1_000.0).ok());
        Ok(TaskState {
            id: raw["taskId"].as_str().unwrap_or_default().to_owned(),
            status,
            message: raw["statusMessage"].as_str().map(str::to_owned),
            // Whatever is said, neither a flood nor an eternity.
            poll_interval: wanted
                .unwrap_or(Duration::from_secs(1))
                .clamp(Duration::from_millis(10), Duration::from_secs(60)),
            questions: questions.collect::<Result<_, _>>()?,
            result: raw.get("result").cloned().map(CallResult::read),
            error: raw.get("error").and_then(|e| serde_json::from_value(e.clone()).ok()),
            raw,
        })
    }
}

impl TaskHandle {
    pub(crate) fn new(client: Client, id: &str) -> TaskHandle {
        TaskHandle { client, id: id.to_owned() }
    }

    /// Its id, by which it can be taken up from any process.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn named(&self) -> Value {
        json!({ "taskId": self.id })
    }

    /// Looks how it stands.
    pub async fn get(&self) -> Result<TaskState, Error> {
        TaskState::read(self.client.request("tasks/get", self.named()).await?)
    }

    /// Waits until it is over, and answers its questions meanwhile.
    pub fn wait(&self) -> Wait {
        Wait::new(self.clone())
    }

    /// Answers a question. In 2025-11-25 there is no request for that: there they are answered while
    /// somebody waits.
    pub async fn answer(&self, key: &str, answer: Answer) -> Result<(), Error> {
        if !self.client.revision().is_stateless() {
            let message =
                "before 2026-07-28 a task's questions are answered while it is waited for";
            return Err(Error::Setup(message.into()));
        }
        let mut params = self.named();
        params["inputResponses"] = json!({ key: answer.to_value() });
        self.client.request("tasks/update", params).await.map(drop)
    }

    /// Cancels it.
    pub async fn cancel(&self) -> Result<(), Error> {
        self.client.request("tasks/cancel", self.named()).await.map(drop)
    }

    pub(crate) fn sending(handlers: Handlers) -> Sending {
        Sending { as_task: true, handlers, ..Sending::default() }
    }
}
