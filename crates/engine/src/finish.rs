//! Calls that go on when their caller does not.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::engine::Core;

/// A call that is carried to its end, also if whoever awaits it gives up in the middle.
///
/// A write can't be taken back once it is on its way, and what follows from it (a runner for a task
/// that was started, a nudge for one that was cancelled) must follow. In the ordinary case this
/// costs nothing: the call is polled in place, and handed to the engine only when it is dropped.
#[must_use = "nothing happens unless it is awaited"]
pub(crate) struct Finish<F: Future<Output: Send> + Send + 'static> {
    call: Option<Pin<Box<F>>>,
    begun: bool,
    core: Arc<Core>,
}

pub(crate) fn finish<F>(core: &Arc<Core>, call: F) -> Finish<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    Finish { call: Some(Box::pin(call)), begun: false, core: core.clone() }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Finish<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.begun = true;
        let Some(call) = &mut self.call else { return Poll::Pending };
        let polled = call.as_mut().poll(cx);
        if polled.is_ready() {
            self.call = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Finish<F> {
    fn drop(&mut self) {
        let Some(call) = self.call.take().filter(|_| self.begun) else { return };
        // Outside of a runtime the engine is gone too, and the store's desk with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let call = self.core.tasks.track_future(async move { drop(call.await) });
            runtime.spawn(call);
        }
    }
}
