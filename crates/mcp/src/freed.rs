//! Requests whose ids are free again, as far as this process knows first: what it has answered, and what was
//! taken back in it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use steadfast_core::TaskId;
use steadfast_engine::{Bond, CallError, Engine};
use tokio::sync::Notify;

/// When a store that could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// For how long it is known here what is in the store. That tells which of two came first by a clock that is
/// not ours, and if in doubt says that the id was not free.
const KNOWN: Duration = Duration::from_secs(2);

/// Calls whose requests' ids are free for others. That an answer was sent is written down a moment later,
/// together for as many as there are.
#[derive(Default)]
pub(crate) struct Freed {
    calls: Mutex<Calls>,
    some: Notify,
    /// Held while it is written.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Calls {
    /// Since when each is.
    since: HashMap<TaskId, Instant>,
    /// Those of which it is not written down yet.
    unwritten: Vec<TaskId>,
    /// Those of which it is, and since when.
    written: VecDeque<(Instant, TaskId)>,
}

impl Calls {
    fn are_written(&mut self, calls: impl IntoIterator<Item = TaskId>, now: Instant) {
        self.written.extend(calls.into_iter().map(|call| (now, call)));
        while let Some((at, _)) = self.written.front()
            && now.saturating_duration_since(*at) > KNOWN
            && let Some((_, call)) = self.written.pop_front()
        {
            self.since.remove(&call);
        }
    }
}

impl Freed {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer of a call was sent.
    pub(crate) fn sent(&self, call: TaskId) {
        let mut calls = self.calls();
        calls.since.entry(call.clone()).or_insert_with(Instant::now);
        calls.unwritten.push(call);
        drop(calls);
        self.some.notify_one();
    }

    /// It was freed by a commit that is back.
    pub(crate) fn is_written(&self, call: TaskId) {
        let (mut calls, now) = (self.calls(), Instant::now());
        calls.since.entry(call.clone()).or_insert(now);
        calls.are_written([call], now);
    }

    /// Whether the id of a call was free when a request came; `None` if that is not known here.
    pub(crate) fn before(&self, call: &TaskId, asked: Instant) -> Option<bool> {
        self.calls().since.get(call).map(|since| *since <= asked)
    }

    /// Writes down what there is, for ever.
    pub(crate) async fn keep(&self, engine: &Engine) {
        loop {
            self.some.notified().await;
            while let Err(error) = self.flush(engine).await {
                tracing::warn!(%error, "can't write down that answers were sent; trying again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Writes down what there is now. What could not be written is still there: forgotten, it would make
    /// an id look taken until its task is removed.
    pub(crate) async fn flush(&self, engine: &Engine) -> Result<(), CallError> {
        let _alone = self.writing.lock().await;
        let (calls, last) = {
            let all = self.calls();
            let last = all.unwritten.iter().filter_map(|call| all.since.get(call)).max().copied();
            (all.unwritten.clone(), last)
        };
        let Some(last) = last else { return Ok(()) };
        let freed = calls.iter().map(|call| (call.clone(), Bond::Key)).collect();
        engine.operator().free_since(freed, last).await?;
        let mut all = self.calls();
        // Others have come behind them.
        all.unwritten.drain(..calls.len());
        all.are_written(calls, Instant::now());
        Ok(())
    }
}
