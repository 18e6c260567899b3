//! Whether the database takes what is written, for who asks whether this process is ready.

use std::{
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use steadfast_store::{Error, Result};
use tokio::time::Instant;

/// However often somebody asks, the database is asked no more often than this.
const ASKED: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct Health {
    /// A write has failed, for a reason that is not its own, and none has succeeded since. Looked at after
    /// every commit.
    in_trouble: AtomicBool,
    /// When the database was asked last, and what it said.
    asked: Mutex<Option<(Instant, std::result::Result<(), String>)>>,
    /// Held by who asks.
    pub(crate) asking: tokio::sync::Mutex<()>,
    outdated: OnceLock<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Health {
    /// A write failed.
    pub(crate) fn failed(&self, error: &Error) {
        if let Error::Unavailable(why) | Error::Unknown(why) = error {
            // That is news, whatever was said before.
            *lock(&self.asked) = Some((Instant::now(), Err(why.clone())));
            self.in_trouble.store(true, Ordering::Release);
        }
    }

    /// A write succeeded.
    pub(crate) fn worked(&self) {
        if self.in_trouble.load(Ordering::Acquire) {
            *lock(&self.asked) = None;
            self.in_trouble.store(false, Ordering::Release);
        }
    }

    pub(crate) fn is_in_trouble(&self) -> bool {
        self.in_trouble.load(Ordering::Acquire)
    }

    /// The tables are of a version that this code can't work on.
    pub(crate) fn set_outdated(&self, why: String) {
        if self.outdated.set(why.clone()).is_ok() {
            tracing::error!(why, "this process can't write any more");
        }
    }

    /// Whether this code may still write.
    pub(crate) fn up_to_date(&self) -> Result<()> {
        self.outdated.get().map_or(Ok(()), |why| Err(Error::Unavailable(why.clone())))
    }

    /// What the database said a moment ago, if it did. If not it is time to ask.
    pub(crate) fn said(&self) -> Option<Result<()>> {
        let asked = lock(&self.asked);
        let (_, said) = asked.as_ref().filter(|(at, _)| at.elapsed() < ASKED)?;
        Some(said.clone().map_err(Error::Unavailable))
    }

    /// It was asked.
    pub(crate) fn heard(&self, said: &Result<()>) {
        let said = said.as_ref().copied().map_err(ToString::to_string);
        *lock(&self.asked) = Some((Instant::now(), said));
    }
}
