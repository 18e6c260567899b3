//! Commands on their way to the writer.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use steadfast_store::{Error, Result};
use tokio::sync::{Notify, oneshot};

use crate::{
    error::Fault,
    lane::Cards,
    work::{Done, Needs, Work},
};

/// What a call that writes does. It may be done more than once, each time on rows as they were
/// before: what counts is the last time.
pub(crate) trait Apply: Send + Sync + 'static {
    /// What the caller gets.
    type Answer: Send + 'static;

    /// Says what it will look at, as far as that is known.
    fn needs(&self, needs: &mut Needs, cards: &Cards);

    /// Does it. Nothing may have been changed when it is refused.
    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Self::Answer>;

    /// Roughly how many bytes it writes.
    fn bytes(&self) -> usize {
        0
    }
}

/// A call on its way.
pub(crate) trait Command: Send {
    fn needs(&self, needs: &mut Needs, cards: &Cards);

    /// Does it; a refusal is kept for the answer.
    fn run<'b>(&'b mut self, work: &mut Work<'b>);

    /// Answers the caller: with what the last run led to, or with why that does not count.
    fn answer(self: Box<Self>, failed: Option<Error>);
}

struct Call<A: Apply> {
    apply: A,
    outcome: Option<Result<A::Answer>>,
    reply: oneshot::Sender<Result<A::Answer>>,
}

impl<A: Apply> Command for Call<A> {
    fn needs(&self, needs: &mut Needs, cards: &Cards) {
        self.apply.needs(needs, cards);
    }

    fn run<'b>(&'b mut self, work: &mut Work<'b>) {
        self.outcome = match self.apply.apply(work) {
            Ok(value) => Some(Ok(value)),
            Err(Fault::Refused(error)) => Some(Err(error)),
            Err(Fault::Miss) => None,
        };
    }

    fn answer(self: Box<Self>, failed: Option<Error>) {
        let outcome = match (self.outcome, failed) {
            // Also of one that was refused: it may have been for what the same batch wrote, and that
            // is undone.
            (_, Some(error)) => Err(error),
            (Some(outcome), None) => outcome,
            (None, None) => Err(Error::Unavailable("the call was not made".into())),
        };
        // If the call was dropped nobody waits for this; it took effect all the same.
        let _ = self.reply.send(outcome);
    }
}

/// A command, and roughly how many bytes it writes.
pub(crate) struct Waiting {
    pub(crate) command: Box<dyn Command>,
    pub(crate) bytes: usize,
}

/// So many are worth a second writer's while.
pub(crate) const CROWD: usize = 48;

/// Commands on their way to the writer, in the order they came.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Vec<Waiting>>,
    closed: AtomicBool,
    /// Wakes whoever waits for one command,
    wake: Notify,
    /// and whoever waits for many.
    crowd: Notify,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        // Nothing that can panic runs under this lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a call in. The answer comes by the channel.
    pub(crate) fn put<A: Apply>(&self, apply: A) -> Result<oneshot::Receiver<Result<A::Answer>>> {
        let (reply, answer) = oneshot::channel();
        let bytes = apply.bytes();
        let command = Box::new(Call { apply, outcome: None, reply });
        let mut waiting = self.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(closed());
        }
        waiting.push(Waiting { command, bytes });
        let count = waiting.len();
        drop(waiting);
        if count == 1 {
            self.wake.notify_one();
        } else if count == CROWD {
            self.crowd.notify_one();
        }
        Ok(answer)
    }

    /// Waits until there are as many as `least`, which is one or [`CROWD`], and moves them behind
    /// `into`. False if nothing will come any more.
    pub(crate) async fn take(&self, into: &mut VecDeque<Waiting>, least: usize) -> bool {
        loop {
            let mut waiting = self.lock();
            if !waiting.is_empty() && waiting.len() >= least {
                into.extend(waiting.drain(..));
                return true;
            }
            drop(waiting);
            if self.closed.load(Ordering::Relaxed) {
                return false;
            }
            match least {
                1 => self.wake.notified().await,
                _ => self.crowd.notified().await,
            }
        }
    }

    /// Lets nothing more in. What waits is still done, or dropped as never made if `discard`.
    pub(crate) fn close(&self, discard: bool) {
        let mut waiting = self.lock();
        self.closed.store(true, Ordering::Relaxed);
        let dropped = if discard { std::mem::take(&mut *waiting) } else { Vec::new() };
        drop(waiting);
        self.wake.notify_one();
        self.crowd.notify_one();
        for Waiting { command, .. } in dropped {
            command.answer(Some(closed()));
        }
    }
}

pub(crate) fn closed() -> Error {
    Error::Unavailable("this handle is closed".into())
}
