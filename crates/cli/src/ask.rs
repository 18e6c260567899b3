//! Who answers a server's questions: the person at the terminal, or the words of the command.

use std::{io::IsTerminal, sync::Arc};

use clap::Args;
use serde_json::Value;
use steadfast_client::{Answer, Question, Wants};

use crate::{arguments::Argument, form, screen::Screen};

/// How questions are answered.
#[derive(Args, Clone, Default)]
pub(crate) struct Answering {
    /// Answer a field of a question: name=value, or name:=JSON. May repeat
    ///
    /// Where standard input is no terminal, a question for which something is missing is declined.
    #[arg(long = "answer", value_name = "NAME=VALUE")]
    given: Vec<Argument>,

    /// Consent to every page that the server wants visited
    #[arg(long)]
    consent: bool,

    /// Ask on standard input even if it is no terminal
    #[arg(long)]
    ask: bool,
}

impl Answering {
    /// Answers one question.
    pub(crate) async fn answer(self: Arc<Self>, question: Question, screen: Screen) -> Answer {
        screen.clear();
        if matches!(question.wants, Wants::Url(_)) && self.consent {
            return Answer::Accept(Value::Null);
        }
        if self.ask || std::io::stdin().is_terminal() {
            return self.by_person(question).await;
        }
        let answered = match &question.wants {
            Wants::Form(form) => form::from_command(form, &self.given),
            Wants::Url(url) => Err(format!("it wants {url} visited, and there is no --consent")),
        };
        answered.unwrap_or_else(|why| {
            let asked = &question.message;
            screen.line(&format!("declined, because nobody can be asked: {asked:?}; {why}"));
            Answer::Decline
        })
    }

    async fn by_person(self: Arc<Self>, question: Question) -> Answer {
        // Lines are waited for on a thread: the call goes on meanwhile.
        let asked = tokio::task::spawn_blocking(move || {
            let (mut input, mut out) = (std::io::stdin().lock(), std::io::stderr());
            form::ask(&question, &self.given, &mut input, &mut out)
        });
        match asked.await {
            Ok(Ok(answer)) => answer,
            _ => Answer::Cancel,
        }
    }
}
