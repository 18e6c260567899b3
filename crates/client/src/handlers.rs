//! What is done with what comes before a response.

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::{TaskState, question::Ask};

/// How far a call has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// How much is done.
    pub done: f64,
    /// Of how much, if that is known.
    pub total: Option<f64>,
    /// A few words on it.
    pub message: Option<String>,
}

/// A line of a call's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// How grave it is, from `debug` to `emergency`.
    pub level: String,
    /// Who says it.
    pub logger: Option<String>,
    /// What is said: mostly a text.
    pub data: Value,
}

type Hear<T> = Arc<dyn Fn(T) + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Handlers {
    pub(crate) progress: Option<Hear<Progress>>,
    pub(crate) log: Option<Hear<Log>>,
    pub(crate) status: Option<Hear<TaskState>>,
    pub(crate) ask: Option<Ask>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handlers(..)")
    }
}

impl Handlers {
    /// Takes a notification. Most mean nothing to a call.
    pub(crate) fn hear(&self, method: &str, params: &Value) {
        let text = |name: &str| params[name].as_str().map(str::to_owned);
        match (method, &self.progress, &self.log) {
            ("notifications/progress", Some(hear), _) => hear(Progress {
                done: params["progress"].as_f64().unwrap_or_default(),
                total: params["total"].as_f64(),
                message: text("message"),
            }),
            ("notifications/message", _, Some(hear)) => hear(Log {
                level: text("level").unwrap_or_else(|| "info".into()),
                logger: text("logger"),
                data: params["data"].clone(),
            }),
            _ => {}
        }
    }
}

/// The setters that all who wait for something have.
macro_rules! listens {
    ($type:ident) => {
        impl $type {
            /// Hears of progress.
            pub fn on_progress(
                mut self,
                hear: impl Fn(crate::Progress) + Send + Sync + 'static,
            ) -> $type {
                self.handlers.progress = Some(std::sync::Arc::new(hear));
                self
            }

            /// Hears what is logged.
            pub fn on_log(mut self, hear: impl Fn(crate::Log) + Send + Sync + 'static) -> $type {
                self.handlers.log = Some(std::sync::Arc::new(hear));
                self
            }

            /// Hears how a task stands, each time that it is looked at.
            pub fn on_status(
                mut self,
                hear: impl Fn(crate::TaskState) + Send + Sync + 'static,
            ) -> $type {
                self.handlers.status = Some(std::sync::Arc::new(hear));
                self
            }

            /// Answers questions, instead of who answers those of the client.
            pub fn on_question<F, Fut>(mut self, ask: F) -> $type
            where
                F: Fn(crate::Question) -> Fut + Send + Sync + 'static,
                Fut: Future<Output = crate::Answer> + Send + 'static,
            {
                self.handlers.ask = Some(crate::question::Ask::new(ask));
                self
            }
        }
    };
}
pub(crate) use listens;
