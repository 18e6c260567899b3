//! Activities, as the task that wants one sees them.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{Call, Json, Retry};

use super::{Context, op::Op, outcome};
use crate::{Result, limits};

/// An activity that is about to be scheduled.
#[must_use = "an activity is not scheduled unless it is awaited"]
pub struct ActivityCall<O> {
    ctx: Context,
    name: String,
    input: Result<Json>,
    retry: Retry,
    heartbeat: Option<Duration>,
    output: PhantomData<fn() -> O>,
}

impl Context {
    /// Has a registered function run by any worker process that shares the store, and waits for
    /// its result. Tried once, unless [`retry`](ActivityCall::retry) says otherwise; taken over when
    /// its worker dies.
    pub fn activity<O: DeserializeOwned + Send + 'static>(
        &self,
        name: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> ActivityCall<O> {
        ActivityCall {
            ctx: self.clone(),
            name: name.into(),
            input: self.payload("the activity's input", input),
            retry: Retry::never(),
            heartbeat: None,
            output: PhantomData,
        }
    }
}

impl<O> ActivityCall<O> {
    /// Tries again by this policy. The delays are durable.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// If it is silent for longer than this, another worker takes it over.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = Some(every);
        self
    }

    fn call(self) -> Result<(Context, Call)> {
        limits::name("the activity's name", &self.name)?;
        let heartbeat_ms =
            self.heartbeat.map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
        let (name, input, retry) = (self.name, self.input?, self.retry);
        Ok((self.ctx, Call::Activity { name, input, retry, heartbeat_ms }))
    }
}

impl<O: DeserializeOwned + Send + 'static> IntoFuture for ActivityCall<O> {
    type Output = Result<O>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<O>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        match self.call() {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok((ctx, call)) => {
                let op = Op::new(&ctx.shared, call);
                Box::pin(async move { outcome(op.result().await) })
            }
        }
    }
}
