//! Questions to the user.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{Action, Answer, Ask, Call, Json};

use super::{Context, op::Op, outcome};
use crate::{Error, Result, limits};

/// What the user said to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<T> {
    /// An answer.
    Accepted(T),
    /// No.
    Declined,
    /// The question was dismissed.
    Cancelled,
}

impl<T> Reply<T> {
    /// The answer, if there was one.
    pub fn accepted(self) -> Option<T> {
        match self {
            Reply::Accepted(answer) => Some(answer),
            Reply::Declined | Reply::Cancelled => None,
        }
    }
}

/// A question that is about to be asked.
#[must_use = "a question is not asked unless it is awaited"]
pub struct Question<T> {
    ctx: Context,
    key: String,
    message: String,
    schema: Option<Json>,
    data: Option<Result<Json>>,
    deadline: Option<Duration>,
    answer: PhantomData<fn() -> T>,
}

impl Context {
    /// Asks the user. The answer's JSON Schema is that of `T`, and an answer that does not fit it is
    /// refused before it reaches the task. The wait may take weeks and a restart.
    pub fn ask<T: DeserializeOwned + JsonSchema + Send + 'static>(
        &self,
        message: impl Into<String>,
    ) -> Question<T> {
        Question {
            ctx: self.clone(),
            key: String::new(),
            message: message.into(),
            schema: None,
            data: None,
            deadline: None,
            answer: PhantomData,
        }
    }
}

impl<T: JsonSchema> Question<T> {
    /// Asks, and gives the answer as it came.
    pub async fn answer(self) -> Result<Answer> {
        let (ctx, call) = self.call()?;
        outcome(Op::new(&ctx.shared, call).result().await)
    }
}

impl<T> Question<T> {
    /// The key under which it is answered: used as given the first time, and with a number behind
    /// it when it repeats within the task's life.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// Anything else that the front may show.
    pub fn data<D: Serialize + ?Sized>(mut self, data: &D) -> Self {
        self.data = Some(self.ctx.payload("the question's data", data));
        self
    }

    /// After this long it fails as timed out.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// A schema other than the one derived from `T`.
    pub fn schema(mut self, schema: Json) -> Self {
        self.schema = Some(schema);
        self
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> IntoFuture for Question<T> {
    type Output = Result<Reply<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        match self.call() {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok((ctx, call)) => {
                let op = Op::new(&ctx.shared, call);
                Box::pin(async move { reply(outcome(op.result().await)?) })
            }
        }
    }
}

impl<T: JsonSchema> Question<T> {
    fn call(self) -> Result<(Context, Call)> {
        limits::name("the question's key", &self.key)?;
        let schema = match self.schema {
            Some(schema) => self.ctx.payload("the question's schema", &schema)?,
            None => self.ctx.payload("the question's schema", &schemars::schema_for!(T))?,
        };
        self.ctx.payload("the question's message", &self.message)?;
        let data = self.data.transpose()?;
        let deadline = self.deadline.map(|after| self.ctx.now().plus(after));
        let ask = Ask { key: self.key, message: self.message, schema, data, deadline };
        Ok((self.ctx, Call::Ask(ask)))
    }
}

fn reply<T: DeserializeOwned>(answer: Answer) -> Result<Reply<T>> {
    Ok(match answer.action {
        Action::Accept => {
            let content = answer.content.unwrap_or_else(Json::null);
            Reply::Accepted(crate::registry::read(&content)?)
        }
        Action::Decline => Reply::Declined,
        Action::Cancel => Reply::Cancelled,
    })
}

/// Checks an answer against the question's schema. The error is for whoever answered.
pub(crate) fn check(schema: &Json, content: &Json) -> Result<()> {
    let schema: serde_json::Value = schema.read()?;
    let content: serde_json::Value = content.read()?;
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| Error::new(format!("the question's own schema is not valid: {error}")))?;
    let mut wrong: Vec<String> = Vec::new();
    for error in validator.iter_errors(&content).take(5) {
        let at = error.instance_path().to_string();
        let place = if at.is_empty() { "the answer".to_owned() } else { at };
        wrong.push(format!("{place}: {error}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error::new(wrong.join("; "))) }
}
