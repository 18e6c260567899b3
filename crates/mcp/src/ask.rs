//! What a task asks its client for: answers of the user, samples of a model, roots.

mod progress;
mod roots;
mod schema;

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use steadfast_core::{Action, Answer, Json};
use steadfast_engine::{Error, Reply, Result};

pub use progress::AnswerProgress;
pub(crate) use progress::Listener;
pub use roots::RootsWatch;
pub(crate) use roots::{ROOTS_CHANGED, counter};

use crate::{Context, Role, client::InputKind};

/// How often a question is asked again after an answer that does not fit.
const AGAIN: usize = 3;

/// A question that no client of the task can answer: the code of its error.
pub(crate) const NO_CAPABLE_CLIENT: &str = "no_capable_client";
/// All answers to a question did not fit: the code of its error.
pub(crate) const BAD_ANSWERS: &str = "bad_answers";
/// The client answered with an error: the code of its error.
pub(crate) const CLIENT_ERROR: &str = "client_error";

type Pending<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// What every question has.
struct Question {
    ctx: Context,
    key: String,
    message: String,
    deadline: Option<Duration>,
    wait: bool,
}

impl Question {
    fn new(ctx: &Context, message: impl Into<String>) -> Question {
        let message = message.into();
        Question { ctx: ctx.clone(), key: String::new(), message, deadline: None, wait: false }
    }

    /// Asks, and gives what came back.
    async fn ask(&self, kind: InputKind, request: &Value, schema: Json) -> Result<Answer> {
        let call = &self.ctx.call;
        let by_tool = call.companions && kind == InputKind::Form;
        if !self.wait && !by_tool && !call.capabilities.can(kind) {
            let needed = kind.capability();
            let message = format!("the client can't answer this: it has not declared {needed}");
            return Err(Error::new(message).code(NO_CAPABLE_CLIENT).data(&needed).permanent());
        }
        let mut question =
            self.ctx.engine.ask::<Value>(self.message.as_str()).key(self.key.as_str());
        if let Some(deadline) = self.deadline.or_else(|| self.ctx.answer_within()) {
            question = question.deadline(deadline);
        }
        let answer = question.schema(schema).data(request).answer().await?;
        match client_error(&answer) {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }
}

/// How a client's JSON-RPC error is recorded as an answer.
pub(crate) fn error_answer(error: &Value) -> Answer {
    let content = Json::of(&json!({ "error": error })).ok();
    Answer { action: Action::Decline, content }
}

fn client_error(answer: &Answer) -> Option<Error> {
    let content: Value = answer.content.as_ref()?.read().ok()?;
    let error = content.get("error").filter(|_| answer.action == Action::Decline)?;
    let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    Some(
        Error::new(format!("the client failed to answer: {message}"))
            .code(CLIENT_ERROR)
            .data(error),
    )
}

macro_rules! common {
    () => {
        /// The key under which it is answered: used as given the first time, and with a number
        /// behind it when it repeats within the task's life.
        pub fn key(mut self, key: impl Into<String>) -> Self {
            self.question.key = key.into();
            self
        }

        /// After this long it fails as timed out.
        pub fn deadline(mut self, deadline: Duration) -> Self {
            self.question.deadline = Some(deadline);
            self
        }

        /// Waits for a client who can answer, even if the one who called can't.
        pub fn wait_for_capable_client(mut self) -> Self {
            self.question.wait = true;
            self
        }
    };
}

/// A question to the user, with a form to fill in.
#[must_use = "a question is not asked unless it is awaited"]
pub struct Ask<T> {
    question: Question,
    schema: Option<Value>,
    data: Option<Value>,
    answer: PhantomData<fn() -> T>,
}

impl Context {
    /// Asks the user. The form is made from the fields of `T`: texts, numbers, booleans, enums and
    /// lists of enums, with their defaults. An answer that does not fit is asked for again up to
    /// three times, with the reason; then it is an error. The wait may take weeks and a restart.
    ///
    /// If the client that called can't ask its user, it is an error at once, with the code
    /// `no_capable_client`; [`wait_for_capable_client`](Ask::wait_for_capable_client) waits instead.
    pub fn ask<T: DeserializeOwned + JsonSchema + Send + 'static>(
        &self,
        message: impl Into<String>,
    ) -> Ask<T> {
        Ask {
            question: Question::new(self, message),
            schema: None,
            data: None,
            answer: PhantomData,
        }
    }

    /// Sends the user to a web page, for what must not pass through the client: a payment, a log-in.
    /// It is accepted when the user agrees to go there; that the user is done there is an
    /// [event](steadfast_engine::Context::event) that the page's server sends.
    pub fn ask_url(&self, message: impl Into<String>, url: impl Into<String>) -> AskUrl {
        AskUrl { question: Question::new(self, message), url: url.into() }
    }

    /// Asks the client's model.
    pub fn sample(&self, sample: Sample) -> AskSample {
        AskSample { question: Question::new(self, "a sample of the client's model"), sample }
    }

    /// Asks for the directories that the client works in, as they are now.
    /// [`watch_roots`](Context::watch_roots) says when to ask again.
    pub fn roots(&self) -> AskRoots {
        AskRoots { question: Question::new(self, "the client's roots") }
    }
}

impl<T> Ask<T> {
    common!();

    /// Anything else for whoever shows the question, in its `_meta`.
    pub fn data(mut self, data: &impl Serialize) -> Self {
        self.data = serde_json::to_value(data).ok();
        self
    }

    /// A form other than the one made from `T`, as JSON Schema.
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = Some(schema);
        self
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> IntoFuture for Ask<T> {
    type Output = Result<Reply<T>>;
    type IntoFuture = Pending<Reply<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Ask<T> {
    async fn run(mut self) -> Result<Reply<T>> {
        let form = match self.schema.take() {
            Some(schema) => schema,
            None => schema::form::<T>()?,
        };
        let (message, mut reason) = (self.question.message.clone(), String::new());
        for _ in 0..=AGAIN {
            let mut params = json!({
                "mode": "form",
                "message": self.question.message,
                "requestedSchema": form,
            });
            if let (Some(data), Some(params)) = (&self.data, params.as_object_mut()) {
                params.insert("_meta".into(), json!({ "dev.steadfast/data": data }));
            }
            let request = json!({ "method": "elicitation/create", "params": params });
            let schema = Json::of(&form).unwrap_or_else(|_| Json::null());
            let answer = self.question.ask(InputKind::Form, &request, schema).await?;
            match answer.action {
                Action::Decline => return Ok(Reply::Declined),
                Action::Cancel => return Ok(Reply::Cancelled),
                Action::Accept => {}
            }
            match schema::read::<T>(&form, answer.content.as_ref()) {
                Ok(value) => return Ok(Reply::Accepted(value)),
                Err(wrong) => {
                    self.question.message =
                        format!("{message}\n\nThe last answer did not fit: {wrong}");
                    reason = wrong;
                }
            }
        }
        let message = format!("no answer fitted, after {} tries: {reason}", AGAIN + 1);
        Err(Error::new(message).code(BAD_ANSWERS).permanent())
    }
}

/// What the user said to being sent to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlReply {
    /// The user agreed to go there, and may not be done yet.
    Accepted,
    /// No.
    Declined,
    /// The question was dismissed.
    Cancelled,
}

/// A user about to be sent to a web page.
#[must_use = "a question is not asked unless it is awaited"]
pub struct AskUrl {
    question: Question,
    url: String,
}

impl AskUrl {
    common!();

    async fn run(self) -> Result<UrlReply> {
        let params = json!({ "mode": "url", "message": self.question.message, "url": self.url });
        let request = json!({ "method": "elicitation/create", "params": params });
        let answer = self.question.ask(InputKind::Url, &request, anything()).await?;
        Ok(match answer.action {
            Action::Accept => UrlReply::Accepted,
            Action::Decline => UrlReply::Declined,
            Action::Cancel => UrlReply::Cancelled,
        })
    }
}

impl IntoFuture for AskUrl {
    type Output = Result<UrlReply>;
    type IntoFuture = Pending<UrlReply>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A line of a conversation with a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleMessage {
    /// Who says it.
    pub role: Role,
    /// What: a content block, or several.
    pub content: Value,
}

impl SampleMessage {
    /// Something that the user says.
    pub fn user(text: impl Into<String>) -> SampleMessage {
        SampleMessage { role: Role::User, content: json!({ "type": "text", "text": text.into() }) }
    }

    /// Something that the model said.
    pub fn assistant(text: impl Into<String>) -> SampleMessage {
        let content = json!({ "type": "text", "text": text.into() });
        SampleMessage { role: Role::Assistant, content }
    }
}

/// What to ask a client's model.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    messages: Vec<SampleMessage>,
    max_tokens: u64,
    more: serde_json::Map<String, Value>,
}

impl Sample {
    /// Asks the model this, for at most 1,000 tokens.
    pub fn new(text: impl Into<String>) -> Sample {
        Sample::conversation(vec![SampleMessage::user(text)])
    }

    /// Asks the model to go on with a conversation.
    #[must_use]
    pub fn conversation(messages: Vec<SampleMessage>) -> Sample {
        Sample { messages, max_tokens: 1_000, more: serde_json::Map::new() }
    }

    /// How much the model may say.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Sample {
        self.max_tokens = tokens;
        self
    }

    /// What the model is told about its part.
    #[must_use]
    pub fn system_prompt(self, text: impl Into<String>) -> Sample {
        self.with("systemPrompt", &text.into())
    }

    /// Any other parameter of `sampling/createMessage`, such as `temperature` or `tools`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: &impl Serialize) -> Sample {
        self.more.insert(name.into(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }
}

/// What the client's model said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleReply {
    /// Who says it.
    pub role: Role,
    /// What: a content block, or several.
    pub content: Value,
    /// The model's name.
    pub model: String,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

impl SampleReply {
    /// All text in it.
    #[must_use]
    pub fn text(&self) -> String {
        let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
        match &self.content {
            Value::Array(blocks) => blocks.iter().filter_map(text).collect(),
            block => text(block).unwrap_or_default(),
        }
    }
}

/// A client's model about to be asked.
#[must_use = "a model is not asked unless this is awaited"]
pub struct AskSample {
    question: Question,
    sample: Sample,
}

impl AskSample {
    common!();

    async fn run(self) -> Result<SampleReply> {
        let mut params = self.sample.more;
        params.insert("messages".into(), json!(self.sample.messages));
        params.insert("maxTokens".into(), json!(self.sample.max_tokens));
        let params = Value::Object(params);
        let kind = InputKind::of("sampling/createMessage", Some(&params));
        let request = json!({ "method": "sampling/createMessage", "params": params });
        let answer =
            self.question.ask(kind.unwrap_or(InputKind::Sample), &request, anything()).await?;
        result(&answer)
    }
}

impl IntoFuture for AskSample {
    type Output = Result<SampleReply>;
    type IntoFuture = Pending<SampleReply>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A directory that a client works in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// A `file:` URI.
    pub uri: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A client about to be asked for its roots.
#[must_use = "a client is not asked unless this is awaited"]
pub struct AskRoots {
    question: Question,
}

impl AskRoots {
    common!();

    async fn run(self) -> Result<Vec<Root>> {
        #[derive(Deserialize)]
        struct Roots {
            roots: Vec<Root>,
        }
        let request = json!({ "method": "roots/list" });
        let answer = self.question.ask(InputKind::Roots, &request, anything()).await?;
        result::<Roots>(&answer).map(|found| found.roots)
    }
}

impl IntoFuture for AskRoots {
    type Output = Result<Vec<Root>>;
    type IntoFuture = Pending<Vec<Root>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Reads the result that a client gave.
fn result<T: DeserializeOwned>(answer: &Answer) -> Result<T> {
    let content = answer.content.clone().unwrap_or_else(Json::null);
    content.read().map_err(|error| {
        Error::new(format!("the client's answer can't be read: {error}")).code(CLIENT_ERROR)
    })
}

/// The schema of a result that is read by its type alone.
fn anything() -> Json {
    Json::of(&true).unwrap_or_else(|_| Json::null())
}
