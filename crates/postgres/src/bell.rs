//! How processes tell each other that something changed.
//!
//! After a commit that others may want to know of, this process says so by NOTIFY. That is not part
//! of the commit: with it, PostgreSQL makes all commits of a cluster that notify wait for each other,
//! flush included. So a NOTIFY may be lost, by a crash between the two for one; but a lost one costs
//! time only, as everybody looks once a second whether the count of another's batches has changed.
//!
//! What calls for action elsewhere is said at once: a task that became ready, an activity in the
//! queue, a message to a task on another desk, a cancel. What somebody may be looking at is said at
//! most forty times a second: an end, a status, an event of a history. One that is alone says
//! nothing.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::work::News;

/// Time between two rings if something calls for action,
const SOON: Duration = Duration::from_millis(2);
/// or if somebody may be looking.
const LATER: Duration = Duration::from_millis(25);

#[derive(Default)]
pub(crate) struct Bell {
    wanted: Mutex<News>,
    wake: Notify,
    /// There are others.
    company: AtomicBool,
    hello: AtomicBool,
}

/// What to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// From one that is new here.
    Hello,
    /// From one that has committed.
    Changed,
}

impl Word {
    pub(crate) fn by(self, desk: i64) -> String {
        match self {
            Word::Hello => format!("hello {desk}"),
            Word::Changed => format!("changed {desk}"),
        }
    }

    /// What was said, and by whom.
    pub(crate) fn heard(text: &str) -> Option<(Word, i64)> {
        let (word, desk) = text.split_once(' ')?;
        let word = match word {
            "hello" => Word::Hello,
            "changed" => Word::Changed,
            _ => return None,
        };
        Some((word, desk.parse().ok()?))
    }
}

impl Bell {
    pub(crate) fn ring(&self, news: News) {
        if news == News::None || !self.company.load(Ordering::Acquire) {
            return;
        }
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if news > *wanted {
            *wanted = news;
            drop(wanted);
            self.wake.notify_one();
        }
    }

    /// Says hello.
    pub(crate) fn greet(&self) {
        self.hello.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn set_company(&self, company: bool) {
        self.company.store(company, Ordering::Release);
    }

    /// Waits until something is to be said; `last` is when something was said last.
    pub(crate) async fn wanted(&self, last: Instant) -> Word {
        loop {
            if self.hello.swap(false, Ordering::AcqRel) {
                return Word::Hello;
            }
            let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            let at = match wanted {
                News::None => {
                    self.wake.notified().await;
                    continue;
                }
                News::Lazy => last + LATER,
                News::Urgent => last + SOON,
            };
            tokio::select! {
                () = tokio::time::sleep_until(at) => {
                    *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = News::None;
                    return Word::Changed;
                }
                // Something more urgent, perhaps.
                () = self.wake.notified() => {}
            }
        }
    }
}
