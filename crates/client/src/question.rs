//! What a server asks the user, and what the user says.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use serde_json::{Value, json};

use crate::Error;

/// A question to the user (`elicitation/create`).
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What a task of 2026-07-28 knows it by.
    pub key: Option<String>,
    /// What is asked, for people.
    pub message: String,
    /// What is wanted.
    pub wants: Wants,
    /// All that the server has sent.
    pub params: Value,
}

/// What a question wants of the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Wants {
    /// A form to be filled in, with the schema of its content.
    Form(Value),
    /// A page to be visited. To accept is to say that it will be.
    Url(String),
}

/// What the user says.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The content of the form; `null` for a page.
    Accept(Value),
    /// No.
    Decline,
    /// Nothing: the user has left without an answer.
    Cancel,
}

impl Question {
    /// Reads what a server asks.
    pub(crate) fn read(key: Option<&str>, method: &str, params: &Value) -> Result<Question, Error> {
        if method != "elicitation/create" {
            return Err(Error::Protocol(format!("it asks for {method}, which was not offered")));
        }
        let wants = match params["mode"].as_str() {
            Some("url") => Wants::Url(params["url"].as_str().unwrap_or_default().to_owned()),
            _ => Wants::Form(params["requestedSchema"].clone()),
        };
        Ok(Question {
            key: key.map(str::to_owned),
            message: params["message"].as_str().unwrap_or_default().to_owned(),
            wants,
            params: params.clone(),
        })
    }
}

impl Answer {
    /// As the wire has it.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Answer::Accept(Value::Null) => json!({ "action": "accept" }),
            Answer::Accept(content) => json!({ "action": "accept", "content": content }),
            Answer::Decline => json!({ "action": "decline" }),
            Answer::Cancel => json!({ "action": "cancel" }),
        }
    }
}

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Who answers questions.
#[derive(Clone)]
pub(crate) struct Ask(Arc<dyn Fn(Question) -> Answering + Send + Sync>);

impl Ask {
    pub(crate) fn new<F, Fut>(ask: F) -> Ask
    where
        F: Fn(Question) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answer> + Send + 'static,
    {
        Ask(Arc::new(move |question| Box::pin(ask(question))))
    }

    pub(crate) fn ask(&self, question: Question) -> Answering {
        (self.0)(question)
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ask(..)")
    }
}
