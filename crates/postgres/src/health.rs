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

/// A write that failed says this long that the database is in trouble, unless one succeeds before.
/// Tasks that run try theirs again more often than that.
const TELLING: Duration = Duration::from_secs(3);
/// However often somebody asks, the database is asked no more often than this.
const ASKED: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct Health {
    /// Looked at after every commit.
    in_trouble: AtomicBool,
    trouble: Mutex<Option<(Instant, String)>>,
    asked: Mutex<Option<Instant>>,
    outdated: OnceLock<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Health {
    /// A write failed for a reason that is not its own.
    pub(crate) fn failed(&self, error: &Error) {
        if let Error::Unavailable(why) | Error::Unknown(why) = error {
            *lock(&self.trouble) = Some((Instant::now(), why.clone()));
            self.in_trouble.store(true, Ordering::Release);
        }
    }

    /// A write succeeded.
    pub(crate) fn worked(&self) {
        if self.in_trouble.load(Ordering::Acquire) {
            *lock(&self.trouble) = None;
            self.in_trouble.store(false, Ordering::Release);
        }
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

    /// What the last writes say.
    pub(crate) fn verdict(&self) -> Result<()> {
        self.up_to_date()?;
        match &*lock(&self.trouble) {
            Some((at, why)) if at.elapsed() < TELLING => Err(Error::Unavailable(why.clone())),
            _ => Ok(()),
        }
    }

    /// Whether it is time to ask the database itself; it answered a moment ago otherwise.
    pub(crate) fn is_due(&self) -> bool {
        lock(&self.asked).is_none_or(|at| at.elapsed() >= ASKED)
    }

    /// It has answered.
    pub(crate) fn answered(&self) {
        *lock(&self.asked) = Some(Instant::now());
    }
}
