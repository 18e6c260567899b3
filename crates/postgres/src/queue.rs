//! Commands on their way to the writer.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
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

    /// Whether it is still wanted when it has waited for longer than a lease.
    fn keeps(&self) -> bool {
        true
    }

    /// Whether its caller has nothing better to do than to wait until it is known whether it was committed: he
    /// would do again what it is the record of.
    fn insists(&self) -> bool {
        false
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

/// A call, and what became of it.
///
/// It goes back to its caller as it is, so that all of its memory is freed by the thread that it came from. An
/// allocator that keeps a heap for each thread would have both threads wait for each other otherwise.
pub(crate) struct Call<A: Apply> {
    apply: A,
    outcome: Option<Result<A::Answer>>,
    reply: Option<oneshot::Sender<Box<Call<A>>>>,
}

impl<A: Apply> Call<A> {
    /// What became of it.
    pub(crate) fn outcome(&mut self) -> Result<A::Answer> {
        let none = || Err(Error::Unavailable("the call was not made".into()));
        self.outcome.take().unwrap_or_else(none)
    }
}

impl<A: Apply> Command for Call<A> {
    fn needs(&self, needs: &mut Needs, cards: &Cards) {
        self.apply.needs(needs, cards);
    }

    fn run<'b>(&'b mut self, work: &mut Work<'b>) {
        self.outcome = match self.apply.apply(work) {
            Ok(value) => Some(Ok(value)),
            Err(Fault::Refused(error)) => {
                work.refused = true;
                Some(Err(error))
            }
            Err(Fault::Miss) => None,
        };
    }

    fn answer(mut self: Box<Self>, failed: Option<Error>) {
        // Also of one that was refused: it may have been for what the same batch wrote, and that is undone.
        if let Some(error) = failed {
            self.outcome = Some(Err(error));
        }
        if let Some(reply) = self.reply.take() {
            // If the call was dropped nobody waits for this; it took effect all the same.
            let _ = reply.send(self);
        }
    }
}

/// A command on its way.
pub(crate) struct Waiting {
    pub(crate) command: Box<dyn Command>,
    /// Roughly how many it writes.
    pub(crate) bytes: usize,
    since: Instant,
    keeps: bool,
    pub(crate) insists: bool,
}

impl Waiting {
    /// Whether it was not made in the time in which it was wanted.
    pub(crate) fn is_late(&self, now: Instant, lease: Duration) -> bool {
        !self.keeps && now.saturating_duration_since(self.since) > lease
    }
}

/// While a writer is at work, the other takes no less than this: many small batches cost more than
/// they gain.
const CROWD: usize = 96;

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// Writers at work.
    busy: usize,
    closed: bool,
}

impl State {
    fn is_worth_it(&self) -> bool {
        self.waiting.len() >= if self.busy == 0 { 1 } else { CROWD }
    }

    /// Takes what is worth it, or nothing if nothing will come any more: what is left then is for
    /// whoever is still at work. False if it is neither.
    fn drain(&mut self, into: &mut VecDeque<Waiting>) -> bool {
        let worth_it = self.is_worth_it();
        if worth_it {
            into.extend(self.waiting.drain(..));
            self.busy += 1;
        }
        worth_it || self.closed
    }
}

/// Commands on their way to the writers, in the order they came.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a call in. The answer comes by the channel.
    pub(crate) fn put<A: Apply>(&self, apply: A) -> Result<oneshot::Receiver<Box<Call<A>>>> {
        let (reply, answer) = oneshot::channel();
        let (bytes, since) = (apply.bytes(), Instant::now());
        let (keeps, insists) = (apply.keeps(), apply.insists());
        let command = Box::new(Call { apply, outcome: None, reply: Some(reply) });
        let mut state = self.lock();
        if state.closed {
            return Err(closed());
        }
        let before = state.is_worth_it();
        state.waiting.push(Waiting { command, bytes, since, keeps, insists });
        let now = state.is_worth_it();
        drop(state);
        if now && !before {
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// Waits until there is something worth a batch, and moves it behind `into`, which was done. A
    /// writer that comes for the first time has done nothing. False if nothing will come any more.
    pub(crate) async fn take(&self, into: &mut VecDeque<Waiting>, first: bool) -> bool {
        if !first {
            self.lock().busy -= 1;
        }
        while !self.lock().drain(into) {
            self.wake.notified().await;
        }
        !into.is_empty()
    }

    /// A writer that is at work has to wait, and the other need not wait for a crowd; or goes on.
    pub(crate) fn rest(&self, rests: bool) {
        let mut state = self.lock();
        match rests {
            true => state.busy -= 1,
            false => state.busy += 1,
        }
        let now = rests && state.is_worth_it();
        drop(state);
        if now {
            self.wake.notify_one();
        }
    }

    /// Takes out those who have waited for so long and do not insist.
    pub(crate) fn who_waits(&self, longer_than: Duration) -> Vec<Waiting> {
        let (mut state, now) = (self.lock(), Instant::now());
        let waits = |waiting: &Waiting| {
            !waiting.insists && now.saturating_duration_since(waiting.since) > longer_than
        };
        let (out, rest) = state.waiting.drain(..).partition(waits);
        state.waiting = rest;
        out
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Lets nothing more in. What waits is still done, or dropped as never made if `discard`.
    pub(crate) fn close(&self, discard: bool) {
        let mut state = self.lock();
        state.closed = true;
        let dropped = if discard { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        // Those that wait now, and one that is about to.
        self.wake.notify_waiters();
        self.wake.notify_one();
        for Waiting { command, .. } in dropped {
            command.answer(Some(closed()));
        }
    }
}

pub(crate) fn closed() -> Error {
    Error::Unavailable("this handle is closed".into())
}
