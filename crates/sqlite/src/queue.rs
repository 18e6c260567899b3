//! Commands on their way to the writer.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steadfast_store::{Error, Result};
use tokio::sync::oneshot;

use crate::{error::Fault, tx::Tx};

/// One call that writes. It may be run more than once: when another one fails, its whole batch is
/// undone and each is run again by itself.
pub(crate) trait Command: Send {
    /// Does it. An error of SQLite comes back; a refusal is kept for the answer.
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()>;

    /// Answers the caller: with what the last run led to, or with why that does not count.
    fn answer(self: Box<Self>, failed: Option<Error>);
}

struct Call<F, T> {
    apply: F,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Command for Call<F, T>
where
    F: FnMut(&mut Tx<'_>) -> std::result::Result<T, Fault> + Send,
    T: Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()> {
        self.outcome = None;
        self.outcome = Some(match (self.apply)(tx) {
            Ok(value) => Ok(value),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Sql(error)) => return Err(error),
        });
        Ok(())
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

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// The writer sleeps, so whoever comes must wake it.
    asleep: bool,
    closed: bool,
}

/// Commands on their way to the writer, in the order they came.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

/// What the writer finds.
pub(crate) enum Next {
    /// At least one command was put behind the others.
    Some,
    /// Nothing came in time.
    Idle,
    /// Nothing will come any more.
    Closed,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a call in, and with `last` no more after it. The answer comes by the channel; if it does not, the
    /// writer has panicked.
    pub(crate) fn put<T: Send + 'static>(
        &self,
        bytes: usize,
        last: bool,
        apply: impl FnMut(&mut Tx<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T>>> {
        let (reply, answer) = oneshot::channel();
        let command = Box::new(Call { apply, outcome: None, reply });
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Unavailable("this handle is closed".into()));
        }
        state.waiting.push(Waiting { command, bytes });
        state.closed = last;
        Ok(answer)
    }

    /// Wakes the writer's thread, if there is something for it and it sleeps.
    pub(crate) fn wake(&self) {
        let mut state = self.lock();
        if !state.waiting.is_empty() && std::mem::take(&mut state.asleep) {
            self.wake.notify_one();
        }
    }

    /// Moves all that waits behind `into`; sleeps for at most `patience` if there is nothing.
    pub(crate) fn take(&self, into: &mut Vec<Waiting>, patience: Duration) -> Next {
        let mut state = self.lock();
        if state.waiting.is_empty() && !state.closed && !patience.is_zero() {
            // Said anew each time it goes back to sleep: a call may have woken it and then been
            // taken by another caller.
            let idle = |state: &mut State| {
                state.asleep = state.waiting.is_empty() && !state.closed;
                state.asleep
            };
            state = self
                .wake
                .wait_timeout_while(state, patience, idle)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            state.asleep = false;
        }
        if state.waiting.is_empty() {
            return if state.closed { Next::Closed } else { Next::Idle };
        }
        into.append(&mut state.waiting);
        Next::Some
    }

    /// Lets nothing more in. What waits is still done, or dropped as never made if `discard`.
    pub(crate) fn close(&self, discard: bool) {
        let mut state = self.lock();
        state.closed = true;
        let dropped = if discard { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        self.wake.notify_one();
        for Waiting { command, .. } in dropped {
            command.answer(Some(Error::Unavailable("this handle was killed".into())));
        }
    }
}
