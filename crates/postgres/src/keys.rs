//! Numbers for new tasks, fetched ahead.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long a number may be kept. Tasks are listed by their numbers, newest first: one with a number from
/// long ago would be far down in the list.
const FRESH: Duration = Duration::from_millis(100);

/// A batch that begins fewer tasks than this fetches no numbers for others. Who begins one task after the
/// other, by this process and by others, finds them in that order.
const CROWD: usize = 8;

/// Numbers that were fetched with one batch for the next.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<Stock>);

#[derive(Debug, Default)]
struct Stock {
    keys: VecDeque<i64>,
    /// Of the last that were put in; those before them are not older by more than the same again.
    since: Option<Instant>,
    /// How many there should be: it goes up at once, and down slowly.
    target: usize,
}

impl Keys {
    fn lock(&self) -> MutexGuard<'_, Stock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes as many; or none, if there are fewer. They are thrown away then: whoever fetches new ones gets
    /// higher ones, and those that come after him shall have no lower ones.
    pub(crate) fn take(&self, count: usize) -> Option<VecDeque<i64>> {
        let mut stock = self.lock();
        let fresh = stock.since.is_some_and(|since| since.elapsed() <= FRESH);
        if count > 0 && (!fresh || count > stock.keys.len()) {
            stock.keys.clear();
            return None;
        }
        Some(stock.keys.drain(..count).collect())
    }

    /// Somebody fetches his own.
    pub(crate) fn clear(&self) {
        self.lock().keys.clear();
    }

    /// How many to fetch along with a batch that begins this many tasks: so that there are enough for a few
    /// like it.
    pub(crate) fn wanted(&self, begun: usize) -> i64 {
        let mut stock = self.lock();
        let crowd = if begun < CROWD { 0 } else { 3 * begun };
        stock.target = crowd.max(stock.target - stock.target.div_ceil(16));
        if begun == 0 {
            return 0;
        }
        stock.target.saturating_sub(stock.keys.len()) as i64
    }

    pub(crate) fn put(&self, keys: Vec<i64>) {
        if keys.is_empty() {
            return;
        }
        let mut stock = self.lock();
        if stock.since.is_none_or(|since| since.elapsed() > FRESH) {
            stock.keys.clear();
        }
        stock.keys.extend(keys);
        stock.since = Some(Instant::now());
    }
}
