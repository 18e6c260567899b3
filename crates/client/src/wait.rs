//! Waiting for a task.

use std::{collections::HashSet, pin::Pin, time::Duration};

use tokio::time::sleep;

use crate::{
    Answer, CallResult, Error, Status, TaskHandle, TaskState,
    handlers::{Handlers, listens},
    sending::Sending,
};

/// How soon a task is looked at again when it was given an answer: it has something to do now.
const AFTER_ANSWER: Duration = Duration::from_millis(50);

/// Waits for a task. `.await` it for the result.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is awaited"]
pub struct Wait {
    task: TaskHandle,
    handlers: Handlers,
}

listens!(Wait);

impl Wait {
    pub(crate) fn new(task: TaskHandle) -> Wait {
        Wait { task, handlers: Handlers::default() }
    }
}

impl IntoFuture for Wait {
    type Output = Result<CallResult, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.task.wait_with(&TaskHandle::sending(self.handlers)).await })
    }
}

impl TaskHandle {
    pub(crate) async fn wait_with(&self, sending: &Sending) -> Result<CallResult, Error> {
        let mut answered = HashSet::new();
        loop {
            let state = self.get().await?;
            if let Some(hear) = &sending.handlers.status {
                hear(state.clone());
            }
            let pause = state.poll_interval;
            let stateless = self.client().revision().is_stateless();
            match state.status {
                Status::Cancelled => return Err(Error::Cancelled(state.message)),
                Status::Completed | Status::Failed if stateless => return ended(state),
                Status::Completed | Status::Failed => return self.result(sending).await,
                Status::InputRequired if stateless => {
                    let open = answered.len();
                    self.answer_all(&state, &mut answered, sending).await?;
                    if answered.len() > open {
                        sleep(AFTER_ANSWER).await;
                        continue;
                    }
                }
                // What it asks comes on the stream that waits for its result.
                Status::InputRequired if self.client().ask(sending).is_some() => {
                    return match self.result(sending).await {
                        // While it was waited for.
                        Err(Error::Rpc(error)) => match self.get().await? {
                            TaskState { status: Status::Cancelled, message, .. } => {
                                Err(Error::Cancelled(message))
                            }
                            _ => Err(Error::Rpc(error)),
                        },
                        result => result,
                    };
                }
                Status::InputRequired | Status::Working => {}
            }
            sleep(pause).await;
        }
    }

    /// `tasks/result` of 2025-11-25, which waits and carries the questions.
    async fn result(&self, sending: &Sending) -> Result<CallResult, Error> {
        self.client().send("tasks/result", self.named(), sending).await.map(CallResult::read)
    }

    /// Each question once: a task that wants another answer asks under another key.
    async fn answer_all(
        &self,
        state: &TaskState,
        answered: &mut HashSet<String>,
        sending: &Sending,
    ) -> Result<(), Error> {
        let Some(ask) = self.client().ask(sending) else { return Ok(()) };
        for question in &state.questions {
            let Some(key) = question.key.clone() else { continue };
            if answered.insert(key.clone()) {
                let answer: Answer = ask.ask(question.clone()).await;
                self.answer(&key, answer).await?;
            }
        }
        Ok(())
    }
}

/// What a task of 2026-07-28 came to.
fn ended(state: TaskState) -> Result<CallResult, Error> {
    match (state.result, state.error) {
        (Some(result), _) => Ok(result),
        (None, Some(error)) => Err(Error::Rpc(error)),
        (None, None) => Err(Error::Protocol("a task is over and has no result".into())),
    }
}
