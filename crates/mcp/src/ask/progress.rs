//! How far clients are with what they were asked.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use steadfast_core::TaskId;

/// How far a client says that it is with a question of a task.
///
/// It is told while the question is open, in the process that hears it, and is not recorded: a replay does
/// not hear it again, and what was said while no process listened is lost. So it belongs to the server
/// ([`Server::on_answer_progress`](crate::Server::on_answer_progress)) and not to the tool's code, which
/// is not in memory while it waits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AnswerProgress {
    /// The task that asks.
    pub task: TaskId,
    /// Its tool.
    pub tool: String,
    /// The key of the question.
    pub key: String,
    /// How far the client is. It should grow, but that is for the client to see to.
    pub progress: f64,
    /// Of how much, if the client knows.
    pub total: Option<f64>,
    /// The same in words.
    pub message: Option<String>,
}

/// Who wants to know.
#[derive(Clone, Default)]
pub(crate) struct Listener(Option<Arc<dyn Fn(AnswerProgress) + Send + Sync>>);

impl Listener {
    pub(crate) fn new(function: impl Fn(AnswerProgress) + Send + Sync + 'static) -> Listener {
        Listener(Some(Arc::new(function)))
    }

    /// Whether anybody does: else clients need not say it.
    pub(crate) fn listens(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn tell(&self, said: AnswerProgress) {
        let Some(function) = &self.0 else { return };
        // It runs where the client's messages are read, which go on to be.
        if catch_unwind(AssertUnwindSafe(|| function(said))).is_err() {
            tracing::error!("the function that hears of progress panicked");
        }
    }
}
