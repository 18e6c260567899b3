//! Commands on their way to the writer.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use steadfast_store::{Error, Result};
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};

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
    /// Where its caller waits for the answer.
    pub(crate) home: Option<Handle>,
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

/// Those whom a writer has just answered, and who will mostly come again at once.
struct Awaited {
    /// So many of them are worth a batch,
    count: usize,
    /// and fewer from then on.
    until: Instant,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// Writers at work.
    busy: usize,
    /// Whoever puts this here sees to it that the time is looked at when it is over.
    awaited: Option<Awaited>,
    closed: bool,
}

impl State {
    /// How many are worth a batch.
    fn enough(&self) -> usize {
        match &self.awaited {
            _ if self.busy > 0 => CROWD,
            Some(Awaited { count, until }) if Instant::now() < *until => *count,
            _ => 1,
        }
    }

    fn is_worth_it(&self) -> bool {
        self.waiting.len() >= self.enough()
    }

    /// Takes what is worth it, or nothing if nothing will come any more: what is left then is for
    /// whoever is still at work. False if it is neither.
    fn drain(&mut self, into: &mut VecDeque<Waiting>) -> bool {
        let worth_it = self.is_worth_it();
        if worth_it {
            into.extend(self.waiting.drain(..));
            self.busy += 1;
            self.awaited = None;
        }
        worth_it || self.closed
    }
}

/// Those whom a writer has answered when it comes again.
pub(crate) struct Answered {
    pub(crate) count: usize,
    /// For so long it waits for most of them to come again.
    pub(crate) gathers: Duration,
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
        let home = Handle::try_current().ok();
        let command = Box::new(Call { apply, outcome: None, reply: Some(reply) });
        let mut state = self.lock();
        if state.closed {
            return Err(closed());
        }
        state.waiting.push(Waiting { command, bytes, since, keeps, insists, home });
        let enough = state.waiting.len() == state.enough();
        drop(state);
        if enough {
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// Waits until there is something worth a batch, and moves it behind `into`, which was done. False if
    /// nothing will come any more.
    pub(crate) async fn take(
        &self,
        into: &mut VecDeque<Waiting>,
        answered: Option<Answered>,
    ) -> bool {
        if let Some(Answered { count, gathers }) = answered {
            let mut state = self.lock();
            state.busy -= 1;
            let count = (count * 3 / 4).min(CROWD);
            let awaited = || Awaited { count, until: Instant::now() + gathers };
            state.awaited = (count > 1 && !gathers.is_zero()).then(awaited);
        }
        loop {
            let until = {
                let mut state = self.lock();
                if state.drain(into) {
                    break;
                }
                state.awaited.as_ref().map(|awaited| awaited.until)
            };
            match until {
                Some(until) => {
                    // Whichever it is, it is looked at again.
                    let _ = tokio::time::timeout_at(until.into(), self.wake.notified()).await;
                    self.lock().awaited.take_if(|awaited| Instant::now() >= awaited.until);
                }
                None => self.wake.notified().await,
            }
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
        state.awaited = None;
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

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;
    use crate::write::Nothing;

    const LONG: Duration = Duration::from_secs(3600);

    /// A queue whose writer is at work, and those who wait for an answer.
    struct Site(Queue, Vec<oneshot::Receiver<Box<Call<Nothing>>>>);

    impl Site {
        fn new() -> Site {
            let queue = Queue::default();
            queue.lock().busy = 1;
            Site(queue, Vec::new())
        }

        fn put(&mut self, count: usize) {
            self.1.extend((0..count).map(|_| self.0.put(Nothing).unwrap()));
        }
    }

    /// What a writer gets that does not wait, or that is woken by what is put in meanwhile.
    fn taken(site: &mut Site, answered: Answered, puts: &[usize]) -> Option<usize> {
        let queue = std::mem::take(&mut site.0);
        let mut into = VecDeque::new();
        let ready = {
            let mut take = pin!(queue.take(&mut into, Some(answered)));
            let mut poll = || take.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let mut ready = poll().is_ready();
            for count in puts {
                assert!(!ready);
                site.1.extend((0..*count).map(|_| queue.put(Nothing).unwrap()));
                ready = poll().is_ready();
            }
            ready
        };
        ready.then_some(into.len())
    }

    #[tokio::test]
    async fn alone_the_first_is_worth_a_batch() {
        let mut site = Site::new();
        site.put(1);
        let answered = Answered { count: 100, gathers: Duration::ZERO };
        assert_eq!(taken(&mut site, answered, &[]), Some(1));
    }

    #[tokio::test]
    async fn most_of_those_who_were_answered_are_waited_for() {
        let mut site = Site::new();
        site.put(1);
        let answered = Answered { count: 8, gathers: LONG };
        assert_eq!(taken(&mut site, answered, &[4, 1]), Some(6));
    }

    #[tokio::test]
    async fn no_more_than_a_crowd_is_waited_for() {
        let answered = Answered { count: 1000, gathers: LONG };
        assert_eq!(taken(&mut Site::new(), answered, &[CROWD - 1, 1]), Some(CROWD));
    }

    #[tokio::test]
    async fn who_comes_alone_is_not_made_to_wait() {
        for count in [0, 1, 2] {
            let answered = Answered { count, gathers: LONG };
            assert_eq!(taken(&mut Site::new(), answered, &[1]), Some(1));
        }
    }

    #[tokio::test]
    async fn nobody_is_waited_for_longer_than_that() {
        let (mut site, mut into) = (Site::new(), VecDeque::new());
        site.put(1);
        let answered = Answered { count: 8, gathers: Duration::from_millis(1) };
        assert!(site.0.take(&mut into, Some(answered)).await);
        assert_eq!(into.len(), 1);
        // And who comes when that is over does not wait at all.
        let queue = std::sync::Arc::new(site.0);
        let late = std::sync::Arc::clone(&queue);
        let writer = tokio::spawn(async move {
            let mut into = VecDeque::new();
            let answered = Answered { count: 8, gathers: Duration::from_millis(1) };
            late.take(&mut into, Some(answered)).await;
            into.len()
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _answer = queue.put(Nothing).unwrap();
        assert_eq!(writer.await.unwrap(), 1);
    }
}
