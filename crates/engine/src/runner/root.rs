//! The task's own future, and who wakes it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use steadfast_core::{Failure, Outcome};
use tokio::sync::Notify;

use crate::{panic, registry::BoxFuture};

/// Set when something woke the future since it was last polled.
#[derive(Default)]
pub(super) struct RootWaker {
    woken: AtomicBool,
    notify: Notify,
}

impl Wake for RootWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.notify.notify_one();
        }
    }
}

impl RootWaker {
    pub(super) async fn woken(&self) {
        // A permit may be left from a wake that a delivery's poll has dealt with already.
        while !self.woken.load(Ordering::Acquire) {
            self.notify.notified().await;
        }
    }
}

pub(super) struct Root {
    future: Option<BoxFuture<Outcome>>,
    state: Arc<RootWaker>,
    waker: Waker,
}

impl Root {
    pub(super) fn new(future: BoxFuture<Outcome>) -> Root {
        let state = Arc::new(RootWaker::default());
        Root { future: Some(future), waker: state.clone().into(), state }
    }

    pub(super) fn waker(&self) -> Arc<RootWaker> {
        self.state.clone()
    }

    /// Polls once: the outcome if it returned, an error if it panicked.
    pub(super) fn poll(&mut self) -> Result<Option<Outcome>, Failure> {
        let Some(future) = self.future.as_mut() else { return Ok(None) };
        // Cleared first: a wake during the poll counts.
        self.state.woken.store(false, Ordering::Release);
        let mut cx = Context::from_waker(&self.waker);
        match panic::guard("the tool", || future.as_mut().poll(&mut cx))? {
            Poll::Ready(outcome) => Ok(Some(outcome)),
            Poll::Pending => Ok(None),
        }
    }

    /// Drops the future. A panic in a destructor of an author's must not take the engine along.
    pub(super) fn drop_future(&mut self) {
        let future = self.future.take();
        if let Err(failure) = panic::guard("the tool", || drop(future)) {
            tracing::error!(detail = failure.detail, "a tool panicked while it was dropped");
        }
    }
}
