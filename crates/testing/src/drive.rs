//! Tasks of a server in the test, from Rust.

use serde::Serialize;
use serde_json::{Value, json};
use steadfast_engine::{
    Action, Answer, Json, OpenQuestion, Principal, Status, TaskId, TaskInfo, Tasks,
};

use crate::{TestServer, wait::soon};

/// The principal of callers who are not told apart, over HTTP and pipes.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// Tasks without a client. All of it panics, with what was tried, if it can't be done.
impl TestServer {
    /// The tasks of callers who are not told apart: those of [`start`](TestServer::start), and of clients
    /// without a token.
    #[must_use]
    pub fn tasks(&self) -> Tasks {
        self.tasks_of(ANONYMOUS)
    }

    /// The tasks of a principal.
    #[must_use]
    pub fn tasks_of(&self, principal: &str) -> Tasks {
        match Principal::new(principal) {
            Ok(principal) => self.running().engine().tasks(principal),
            Err(error) => panic!("{principal:?} is no principal: {error}"),
        }
    }

    /// Starts a task of a tool, as a call of a client that can be asked everything would.
    #[track_caller]
    pub fn start<I>(&self, tool: &str, input: &I) -> impl Future<Output = TaskId> + use<I>
    where
        I: Serialize + ?Sized,
    {
        // What a front records with a call; without it there is nobody to ask.
        let call = json!({
            "revision": "2026-07-28",
            "capabilities": { "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} },
        });
        // A tool's input is an object, also if there is nothing in it.
        let input = match serde_json::to_value(input) {
            Ok(Value::Null) => json!({}),
            Ok(input) => input,
            Err(error) => panic!("the input of {tool} can't be written: {error}"),
        };
        let start = self.tasks().start(tool, &input).call(&call);
        // Where the server is, so that what the task spawns dies with it.
        let started = self.life().spawn(start.into_future());
        let started = soon(format!("a task of {tool} to start"), started);
        let tool = tool.to_owned();
        async move {
            match started.await {
                Ok(Ok(task)) => task.id,
                Ok(Err(error)) => panic!("{tool} can't be started: {error}"),
                Err(_) => panic!("{tool} can't be started: the server is gone"),
            }
        }
    }

    /// How a task stands.
    pub async fn get(&self, task: &TaskId) -> TaskInfo {
        let seen = self.tasks().get(task).await;
        seen.unwrap_or_else(|error| panic!("{task} can't be looked at: {error}"))
    }

    /// Waits until a task has ended.
    #[track_caller]
    pub fn wait(&self, task: &TaskId) -> impl Future<Output = TaskInfo> {
        let (tasks, task) = (self.tasks(), task.clone());
        soon(format!("{task} to end"), async move {
            let ended = tasks.wait(&task).await;
            ended.unwrap_or_else(|error| panic!("{task} can't be waited for: {error}"))
        })
    }

    /// Waits until a task asks something, and gives the question. If it ends instead, that is a panic.
    #[track_caller]
    pub fn asked(&self, task: &TaskId) -> impl Future<Output = OpenQuestion> {
        let (tasks, task) = (self.tasks(), task.clone());
        soon(format!("{task} to ask something"), async move {
            // One that has been answered is not open, but the status may be a moment behind.
            let wanted = |info: &TaskInfo| info.status.is_terminal() || !info.questions.is_empty();
            let seen = tasks.wait_for(&task, wanted).await;
            let seen = seen.unwrap_or_else(|error| panic!("{task} can't be waited for: {error}"));
            match seen.questions.into_iter().next() {
                Some(question) => question,
                None => panic!("{task} is {} and asks nothing: {:?}", seen.status, seen.failure),
            }
        })
    }

    /// Answers a question with the content of its form.
    pub async fn answer(&self, task: &TaskId, question: &OpenQuestion, content: impl Serialize) {
        let content = match Json::of(&content) {
            Ok(content) => content,
            Err(error) => panic!("the answer can't be written: {error}"),
        };
        let answer = Answer { action: Action::Accept, content: Some(content) };
        self.reply(task, question, answer).await;
    }

    /// Answers a question with no.
    pub async fn decline(&self, task: &TaskId, question: &OpenQuestion) {
        self.reply(task, question, Answer { action: Action::Decline, content: None }).await;
    }

    async fn reply(&self, task: &TaskId, question: &OpenQuestion, answer: Answer) {
        let told = self.tasks().answer(task, &question.key, answer).await;
        told.unwrap_or_else(|error| panic!("{:?} can't be answered: {error}", question.message));
    }

    /// Cancels a task.
    pub async fn cancel(&self, task: &TaskId) {
        let cancelled = self.tasks().cancel(task, None).await;
        cancelled.unwrap_or_else(|error| panic!("{task} can't be cancelled: {error}"));
    }
}

/// The texts that a completed task of a tool returned, one below the other.
///
/// # Panics
/// If it is not completed.
#[must_use]
#[track_caller]
pub fn text(info: &TaskInfo) -> String {
    let result = result(info);
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}

/// What a completed task of a tool returned, as a client would get it.
///
/// # Panics
/// If it is not completed.
#[must_use]
#[track_caller]
pub fn result(info: &TaskInfo) -> Value {
    assert_eq!(info.status, Status::Completed, "{} of {}: {:?}", info.id, info.tool, info.failure);
    let output = info.output.as_ref().and_then(|output| output.read().ok());
    output.unwrap_or_else(|| panic!("{} has no output that can be read", info.id))
}
