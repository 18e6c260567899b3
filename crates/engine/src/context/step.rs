//! Steps: closures run in place, whose results are recorded.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context as Cx, Poll},
};

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{Call, FailureKind, Mode, Outcome, Retry, StepGrant, Undo};
use tokio_util::sync::CancellationToken;

use super::{
    Context, Shared,
    op::{Next, Op},
    outcome,
    second::Second,
};
use crate::{Error, Result, limits};

/// What a step's closure may want to know of the attempt it is.
///
/// It holds nothing of the task: whoever keeps it for long keeps no more than this in memory.
#[derive(Clone, Debug)]
pub struct Attempt {
    key: String,
    number: u32,
    epoch: i64,
    cancelled: CancellationToken,
}

impl Attempt {
    /// The same for every attempt at this step, also after a crash, and for no other step: hand it
    /// to a service that takes idempotency keys.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Which attempt it is, from 1. An attempt that a crash cut off is not counted.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Rises whenever the task changes hands. A process that was taken for dead, and wakes up, goes on with
    /// what it was at until it notices: a service that remembers the highest number it has seen for a task,
    /// and refuses lower ones, takes nothing from it.
    #[must_use]
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Fires when the task is cancelled.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }
}

/// A closure that can be a step: `|| async { … }` or `|attempt: Attempt| async move { … }`, that
/// returns a `Result`. It may borrow from its surroundings.
pub trait StepFn<'a, Args>: Send + 'a {
    /// What it returns if all goes well.
    type Value: Serialize + DeserializeOwned + Send;

    /// Runs one attempt.
    fn attempt(
        &mut self,
        attempt: Attempt,
    ) -> Pin<Box<dyn Future<Output = Result<Self::Value>> + Send + 'a>>;
}

impl<'a, F, Fut, T, E> StepFn<'a, ()> for F
where
    F: FnMut() -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Serialize + DeserializeOwned + Send,
    E: Into<Error>,
{
    type Value = T;

    fn attempt(&mut self, _: Attempt) -> Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>> {
        let future = self();
        Box::pin(async move { future.await.map_err(Into::into) })
    }
}

impl<'a, F, Fut, T, E> StepFn<'a, (Attempt,)> for F
where
    F: FnMut(Attempt) -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Serialize + DeserializeOwned + Send,
    E: Into<Error>,
{
    type Value = T;

    fn attempt(
        &mut self,
        attempt: Attempt,
    ) -> Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>> {
        let future = self(attempt);
        Box::pin(async move { future.await.map_err(Into::into) })
    }
}

/// A step that is about to be awaited.
#[must_use = "a step does nothing unless it is awaited"]
pub struct Step<'a, F, Args> {
    shared: Arc<Shared>,
    name: String,
    function: F,
    mode: Mode,
    retry: Option<Retry>,
    undo: Option<Result<Undo>>,
    varies: bool,
    args: PhantomData<&'a Args>,
}

impl Context {
    /// Runs a closure and records its result: once it is recorded the closure never runs again.
    ///
    /// Without [`retry`](Step::retry) an error is recorded and returned too; only a crash before
    /// the record runs the closure again. Names may repeat, in loops too.
    ///
    /// ```
    /// # use steadfast_engine::{Attempt, Context, Error, Result, Retry};
    /// # struct Order { amount: f64 }
    /// # async fn charge(_: &Order, _: &str) -> Result<String> { Ok(String::new()) }
    /// # async fn tool(ctx: Context, order: Order) -> Result<()> {
    /// let receipt = ctx
    ///     .step("charge the card", |attempt: Attempt| {
    ///         let order = &order;
    ///         async move { charge(order, attempt.key()).await }
    ///     })
    ///     .retry(Retry::exponential().attempts(5))
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn step<'a, Args, F: StepFn<'a, Args>>(
        &self,
        name: impl Into<String>,
        closure: F,
    ) -> Step<'a, F, Args> {
        Step {
            shared: self.shared.clone(),
            name: name.into(),
            function: closure,
            mode: Mode::AtLeastOnce,
            retry: None,
            undo: None,
            varies: false,
            args: PhantomData,
        }
    }
}

impl<'a, F, Args> Step<'a, F, Args> {
    /// Tries again by this policy. The delays are durable.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Never runs it twice. Its start is recorded first; if it was started and its end was not
    /// recorded, it fails for good with an error that [`is_unfinished`](Error::is_unfinished).
    pub fn at_most_once(mut self) -> Self {
        self.mode = Mode::AtMostOnce { reset_on: Vec::new() };
        self
    }

    /// Runs it at most once, except that an error with one of these codes says for sure that
    /// nothing happened: then it may be tried again, by the retry policy or by
    /// [`Retry::exponential`].
    pub fn reset_on<S: Into<String>>(mut self, codes: impl IntoIterator<Item = S>) -> Self {
        self.mode = Mode::AtMostOnce { reset_on: codes.into_iter().map(Into::into).collect() };
        self
    }

    /// Says that its result may be another each time, though it has no effect that must not happen
    /// twice: what time it is, or what a service says right now. Only effect validation
    /// ([`Builder::validate_effects`](crate::Builder::validate_effects)) goes by it: it still runs the
    /// closure twice, and does not compare the two results.
    pub fn result_varies(mut self) -> Self {
        self.varies = true;
        self
    }

    /// How to take it back: a registered function and its input, recorded before the step starts.
    /// If the task fails or is cancelled, the undo functions of all steps that were started run in
    /// reverse order, also of those that failed: they may have done half their work.
    pub fn undo<I: Serialize + ?Sized>(mut self, function: impl Into<String>, input: &I) -> Self {
        let most = self.shared.core.settings.max_payload;
        let function = function.into();
        let input = crate::registry::payload("the input of the undo function", input, most);
        let named = limits::name("the name of the undo function", &function).map_err(Error::from);
        self.undo = Some(named.and(input).map(|input| Undo { function, input }));
        self
    }
}

impl<'a, Args: 'a, F: StepFn<'a, Args>> IntoFuture for Step<'a, F, Args> {
    type Output = Result<F::Value>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Step { shared, name, mut function, mode, retry, undo, varies, .. } = self;
        let named = limits::name("the step's name", &name).map_err(Error::from);
        let undo = match named.and_then(|()| undo.transpose()) {
            Ok(undo) => undo,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let validated = shared.core.settings.validate_effects && mode == Mode::AtLeastOnce;
        let second = validated.then(|| Box::new(Second { retry: retry.clone(), varies }));
        let mut op = Op::new(&shared, Call::Step { name: name.clone(), mode, retry, undo });
        Box::pin(async move {
            loop {
                match op.next().await {
                    Next::Ready(recorded) => return outcome(recorded),
                    Next::Run(grant) => {
                        let ended = match &second {
                            None => {
                                Some(run(&shared, &name, &op, &mut function, grant, false).await)
                            }
                            // Boxed, so that a step is no larger for it.
                            Some(second) => {
                                Box::pin(second.run(&shared, &name, &op, &mut function, grant))
                                    .await
                            }
                        };
                        if let Some(ended) = ended {
                            let now = shared.now();
                            shared.machine().step_ended(op.id, ended, now);
                        }
                    }
                }
            }
        })
    }
}

/// Runs the closure once. Muted, what it says is not heard.
pub(super) async fn run<'a, Args, F: StepFn<'a, Args>>(
    shared: &Arc<Shared>,
    name: &str,
    op: &Op,
    function: &mut F,
    grant: StepGrant,
    muted: bool,
) -> Outcome {
    let key = format!("{}:{}:{}", shared.id, shared.machine().run(), op.id.0);
    let (number, epoch, cancelled) = (grant.attempt, shared.epoch, shared.cancel.clone());
    let attempt = Attempt { key, number, epoch, cancelled };
    let future = Inside { shared, name, muted, future: function.attempt(attempt) };
    let ended = match grant.timeout {
        None => future.await,
        Some(limit) => tokio::time::timeout(limit, future).await.unwrap_or_else(|_| {
            let message = format!("the step {name:?} took longer than {limit:?}");
            Err(Error::of(FailureKind::TimedOut, message))
        }),
    };
    let most = shared.core.settings.max_payload;
    let recorded = ended.and_then(|value| {
        crate::registry::payload(format_args!("the result of the step {name:?}"), &value, most)
    });
    recorded.map_err(|error| error.recorded_within(most))
}

/// Tells the machine while the closure's own future is polled, so that a durable operation inside
/// a step is noticed.
pub(super) struct Inside<'s, T> {
    pub(super) shared: &'s Shared,
    pub(super) name: &'s str,
    pub(super) muted: bool,
    pub(super) future: Pin<Box<dyn Future<Output = T> + Send + 's>>,
}

impl<T> Future for Inside<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<T> {
        let outer = self.shared.machine().enter_step(Some(self.name.into()));
        let heard = self.shared.muted.swap(self.muted, Ordering::Relaxed);
        let polled = self.future.as_mut().poll(cx);
        self.shared.muted.store(heard, Ordering::Relaxed);
        self.shared.machine().enter_step(outer);
        polled
    }
}
