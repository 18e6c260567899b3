//! Timers and events.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    task::{Context as Cx, Poll},
};

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{Call, TaskId, Timestamp};

use super::{
    Context,
    op::{Next, Op},
    outcome,
};
use crate::{Result, limits};

/// A durable sleep.
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct Sleep(Op);

impl Sleep {
    pub(super) fn new(ctx: &Context, until: Timestamp) -> Sleep {
        Sleep(Op::new(&ctx.shared, Call::Timer { until }))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<()> {
        match self.0.poll(cx) {
            Poll::Ready(Next::Ready(_)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

/// A wait for an external event.
#[must_use = "an event is not waited for unless this is awaited"]
pub struct Signal<T> {
    ctx: Context,
    name: String,
    payload: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for Signal<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        if let Err(error) = limits::name("the event's name", &self.name) {
            return Box::pin(std::future::ready(Err(error.into())));
        }
        let op = Op::new(&self.ctx.shared, Call::Signal { name: self.name });
        Box::pin(async move { outcome(op.result().await) })
    }
}

impl Context {
    /// Waits for an external event with this name. One that came before, even before the task
    /// started, is there at once; each is taken by one wait, oldest first.
    pub fn event<T: DeserializeOwned + Send + 'static>(
        &self,
        name: impl Into<String>,
    ) -> Signal<T> {
        Signal { ctx: self.clone(), name: name.into(), payload: PhantomData }
    }

    /// Sends an event to another task of the same owner, exactly once. Nothing happens if there is
    /// no such task or it has ended.
    pub async fn send_event<T: Serialize + ?Sized>(
        &self,
        to: &TaskId,
        name: impl Into<String>,
        payload: &T,
    ) -> Result<()> {
        let name = name.into();
        limits::name("the event's name", &name)?;
        let payload = self.payload("the event's payload", payload)?;
        let call = Call::Send { to: to.clone(), name, payload };
        outcome(Op::new(&self.shared, call).result().await)
    }
}
