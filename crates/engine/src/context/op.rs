//! The part that all durable futures share.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::{Context as Cx, Poll, Waker},
};

use steadfast_core::{Call, OpId, OpPoll, Outcome, StepGrant};

use super::Shared;

/// Whom to wake when an operation's result is delivered.
///
/// Needed because not every combinator polls all it holds: some poll only what was woken.
#[derive(Default)]
pub(crate) struct Wakers(Mutex<BTreeMap<OpId, Waker>>);

impl Wakers {
    fn set(&self, op: OpId, waker: &Waker) {
        let mut wakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match wakers.get_mut(&op) {
            Some(old) => old.clone_from(waker),
            None => drop(wakers.insert(op, waker.clone())),
        }
    }

    fn remove(&self, op: OpId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&op);
    }

    pub(crate) fn wake(&self, op: OpId) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&op).cloned();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A durable operation that the code holds on to.
pub(super) struct Op {
    pub(super) shared: Arc<Shared>,
    pub(super) id: OpId,
    done: bool,
}

/// What an operation is to do next.
pub(super) enum Next {
    Ready(Outcome),
    Run(StepGrant),
}

impl Op {
    /// Gives the call its number. The order in which this happens is the program order.
    pub(super) fn new(shared: &Arc<Shared>, call: Call) -> Op {
        let asked = shared.asked.as_ref().map(|asked| (asked, call.clone()));
        let id = shared.machine().create(call);
        if let Some((asked, call)) = asked {
            asked.lock().unwrap_or_else(PoisonError::into_inner).insert(id, call);
        }
        Op { shared: shared.clone(), id, done: false }
    }

    pub(super) fn poll(&mut self, cx: &mut Cx<'_>) -> Poll<Next> {
        let polled = self.shared.machine().poll(self.id);
        match polled {
            OpPoll::Ready(outcome) => {
                self.done = true;
                self.shared.wakers.remove(self.id);
                Poll::Ready(Next::Ready(outcome))
            }
            OpPoll::Run(grant) => Poll::Ready(Next::Run(grant)),
            OpPoll::Pending => {
                self.shared.wakers.set(self.id, cx.waker());
                Poll::Pending
            }
        }
    }

    /// Waits until there is a result or leave to run.
    pub(super) async fn next(&mut self) -> Next {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Waits for the result of an operation that never runs in place.
    pub(super) async fn result(mut self) -> Outcome {
        loop {
            if let Next::Ready(outcome) = self.next().await {
                return outcome;
            }
        }
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        if !self.done {
            self.shared.wakers.remove(self.id);
            self.shared.machine().drop_op(self.id);
        }
    }
}
