//! The functions that this process can run.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{FailureKind, Json, Outcome, Ttl};

use crate::{ActivityContext, Context, Error, Result};

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type ToolFn = Arc<dyn Fn(Context, Json) -> BoxFuture<Outcome> + Send + Sync>;
type ActivityFn = Arc<dyn Fn(ActivityContext, Json) -> BoxFuture<Outcome> + Send + Sync>;

/// A durable tool: a name and an async function `(Context, Input) -> Result<Output>`.
#[derive(Clone)]
pub struct Tool {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) oldest: u32,
    pub(crate) retention: Option<Ttl>,
    pub(crate) max_age: Option<Ttl>,
    pub(crate) run: ToolFn,
}

impl Tool {
    /// Makes a tool of a function.
    pub fn new<I, O, F, Fut>(name: impl Into<String>, function: F) -> Tool
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let function = Arc::new(function);
        let run = move |ctx: Context, input: Json| -> BoxFuture<Outcome> {
            let function = function.clone();
            Box::pin(async move {
                let input = read(&input).map_err(Error::into_failure)?;
                let most = ctx.max_payload();
                let output =
                    function(ctx, input).await.map_err(|error| error.recorded_within(most))?;
                payload("the result of the task", &output, most).map_err(Error::into_failure)
            })
        };
        Tool {
            name: name.into(),
            version: 0,
            oldest: 0,
            retention: None,
            max_age: None,
            run: Arc::new(run),
        }
    }

    /// The version that new tasks get, and the oldest whose tasks this code can still run.
    #[must_use]
    pub fn versions(mut self, newest: u32, oldest: u32) -> Tool {
        self.version = newest;
        self.oldest = oldest.min(newest);
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this code can run a task of this version, or of none yet.
    pub(crate) fn serves(&self, version: Option<u32>) -> bool {
        version.is_none_or(|version| (self.oldest..=self.version).contains(&version))
    }

    /// How long its tasks are kept after they end.
    #[must_use]
    pub fn retention(mut self, ttl: impl Into<Ttl>) -> Tool {
        self.retention = Some(ttl.into());
        self
    }

    /// A task that has not ended by this age is cancelled. Without it a running task never expires.
    #[must_use]
    pub fn max_age(mut self, ttl: impl Into<Ttl>) -> Tool {
        self.max_age = Some(ttl.into());
        self
    }
}

#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) run: ActivityFn,
}

impl Function {
    pub(crate) fn new<I, O, F, Fut>(function: F) -> Function
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        F: Fn(ActivityContext, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let function = Arc::new(function);
        let run = move |ctx: ActivityContext, input: Json| -> BoxFuture<Outcome> {
            let function = function.clone();
            Box::pin(async move {
                let input = read(&input).map_err(Error::into_failure)?;
                let most = ctx.max_payload();
                let output =
                    function(ctx, input).await.map_err(|error| error.recorded_within(most))?;
                payload("the result of the activity", &output, most).map_err(Error::into_failure)
            })
        };
        Function { run: Arc::new(run) }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub(crate) tools: BTreeMap<String, Tool>,
    pub(crate) functions: BTreeMap<String, Function>,
}

impl Registry {
    /// What work can be taken up of.
    pub(crate) fn names(&self) -> Vec<String> {
        self.tools.keys().chain(self.functions.keys()).cloned().collect()
    }
}

/// Reads a payload that another version of the code may have written.
pub(crate) fn read<T: DeserializeOwned>(json: &Json) -> Result<T> {
    json.read().map_err(|error| {
        let expected = std::any::type_name::<T>();
        Error::of(FailureKind::Payload, format!("the value does not read as {expected}: {error}"))
            .permanent()
    })
}

/// Writes a payload within the size limit.
pub(crate) fn payload<T: Serialize + ?Sized>(
    what: impl fmt::Display,
    value: &T,
    most: usize,
) -> Result<Json> {
    let json = Json::of(value).map_err(|error| {
        Error::of(FailureKind::Payload, format!("{what} can't be written as JSON: {error}"))
            .permanent()
    })?;
    let size = json.text().len();
    if size > most {
        let message = format!("{what} has {size} bytes of JSON, over the limit of {most}");
        return Err(Error::of(FailureKind::Limit, message).permanent());
    }
    Ok(json)
}
