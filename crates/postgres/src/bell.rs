//! How processes tell each other that something changed.
//!
//! After a commit that others may want to know of, this process says so by NOTIFY. That is not part
//! of the commit: with it, PostgreSQL makes all commits of a cluster that notify wait for each other,
//! flush included. So a NOTIFY may be lost, by a crash between the two for one; but a lost one costs
//! time only, as everybody notices that he has missed something (see [`ear`](crate::ear)).
//!
//! What calls for action elsewhere is said at once: a task that became ready, an activity in the
//! queue, a message to a task on another desk, a cancel. What somebody may be looking at is said at
//! most forty times a second: an end, a status, an event of a history. It is said who has to act, and
//! which tasks look different; so those who have nothing to do with it do nothing, and ask the database
//! nothing, however many there are. One that is alone says nothing.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::news::{News, Point, Said, Word};

/// Time between two rings if something calls for action,
const SOON: Duration = Duration::from_millis(2);
/// or if somebody may be looking.
const LATER: Duration = Duration::from_millis(25);

/// Which batch of which lane of which desk was committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) desk: i64,
    pub(crate) lane: i16,
    pub(crate) number: i64,
}

#[derive(Default)]
struct ToSay {
    news: News,
    /// How many words told of changes.
    words: i64,
    /// The last batch of each lane.
    lanes: HashMap<(i64, i16), i64>,
}

impl ToSay {
    fn point(&self, desk: i64) -> Point {
        let own = self.lanes.iter().filter(|((of, _), _)| *of == desk);
        Point { number: self.words, batches: own.map(|(_, number)| number).sum() }
    }
}

#[derive(Default)]
pub(crate) struct Bell {
    to_say: Mutex<ToSay>,
    wake: Notify,
    /// There are others.
    company: AtomicBool,
    hello: AtomicBool,
}

impl Bell {
    fn to_say(&self) -> MutexGuard<'_, ToSay> {
        self.to_say.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch was committed.
    pub(crate) fn ring(&self, batch: Option<Batch>, news: impl FnOnce() -> News) {
        // Put together before anybody has to wait for it.
        let news = if self.in_company() { news() } else { News::default() };
        let mut to_say = self.to_say();
        if let Some(Batch { desk, lane, number }) = batch {
            to_say.lanes.insert((desk, lane), number);
        }
        if news.written {
            let (written, urgent) = (to_say.news.written, to_say.news.is_urgent());
            to_say.news.add(news);
            let more = !written || !urgent && to_say.news.is_urgent();
            drop(to_say);
            if more {
                self.wake.notify_one();
            }
        }
    }

    /// Says hello.
    pub(crate) fn greet(&self) {
        self.hello.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn in_company(&self) -> bool {
        self.company.load(Ordering::Acquire)
    }

    pub(crate) fn set_company(&self, company: bool) {
        if !self.company.swap(company, Ordering::AcqRel) && company {
            // What was committed since they came, and before we knew, nobody was told of.
            self.ring(None, News::anything);
        }
    }

    /// Waits until something is to be said; `last` is when something was said last.
    pub(crate) async fn wanted(&self, last: Instant, desk: impl Fn() -> i64) -> Said {
        loop {
            if self.hello.swap(false, Ordering::AcqRel) {
                let by = desk();
                let mut to_say = self.to_say();
                to_say.lanes.retain(|(of, _), _| *of == by);
                return Said { by, word: Word::Hello(to_say.point(by)) };
            }
            let at = {
                let to_say = self.to_say();
                match (to_say.news.written, to_say.news.is_urgent()) {
                    (false, _) => None,
                    (true, false) => Some(last + LATER),
                    (true, true) => Some(last + SOON),
                }
            };
            let Some(at) = at else {
                self.wake.notified().await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(at) => {
                    let by = desk();
                    let mut to_say = self.to_say();
                    to_say.words += 1;
                    let news = std::mem::take(&mut to_say.news);
                    return Said { by, word: Word::Changed(to_say.point(by), news) };
                }
                // Something more urgent, perhaps.
                () = self.wake.notified() => {}
            }
        }
    }
}
