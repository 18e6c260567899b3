//! Telling those who wait that a task has changed, and those who follow it what it says.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use steadfast_core::{Event, Note, Progress, Turn};
use steadfast_store::TaskKey;
use tokio::sync::{Notify, watch};

/// Who waits for which task, or for news of any. Holds only tasks that somebody waits for.
#[derive(Default)]
pub(crate) struct Watchers {
    by_task: Mutex<HashMap<TaskKey, (usize, Arc<Feed>)>>,
    /// How many tasks somebody waits for: most have nobody, and are done with after a look at this.
    watched: AtomicUsize,
    /// How often a task may have begun to ask something, or a notice may have been put up.
    news: watch::Sender<u64>,
}

impl Watchers {
    fn map(&self) -> MutexGuard<'_, HashMap<TaskKey, (usize, Arc<Feed>)>> {
        self.by_task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch. Changes from here on are seen by [`Watch::feed`].
    pub(crate) fn watch(self: &Arc<Self>, key: TaskKey) -> Watch {
        let mut map = self.map();
        let (count, feed) = map.entry(key).or_default();
        *count += 1;
        let watch = Watch { watchers: self.clone(), key, feed: feed.clone() };
        self.watched.store(map.len(), Ordering::Release);
        watch
    }

    /// What those hear who watch a task; nothing if nobody does.
    pub(crate) fn feed(&self, key: TaskKey) -> Option<Arc<Feed>> {
        if self.watched.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.map().get(&key).map(|(_, feed)| feed.clone())
    }

    pub(crate) fn changed(&self, key: TaskKey) {
        if let Some(feed) = self.feed(key) {
            feed.changed();
        }
    }

    /// A task asks something, or a notice was put up.
    pub(crate) fn news(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    /// Changes whenever that may be so.
    pub(crate) fn hear_news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Another process changed something, and may have changed anything.
    pub(crate) fn all_changed(&self) {
        for (_, feed) in self.map().values() {
            feed.changed();
        }
    }
}

/// What a task that runs here has said of late: who follows it need not read that from the store.
#[derive(Default)]
pub(crate) struct Feed {
    pub(crate) notify: Notify,
    tail: Mutex<Tail>,
}

/// How much of what was said is kept for those who are slow to hear it. They read the rest from the store,
/// but for progress that is not recorded, of which they miss some.
const KEPT: usize = 64;

#[derive(Default)]
struct Tail {
    /// How often there was a reason to see in the store where the task stands.
    looks: u64,
    /// How often the history began anew.
    run: u64,
    /// The events of it that the notes are from: all of them, and all durable.
    from: u64,
    to: u64,
    /// With their numbers, which rise by one, and the run that they are of.
    said: VecDeque<(u64, u64, Said)>,
    last: u64,
}

impl Tail {
    fn say(&mut self, said: Said) {
        self.last += 1;
        self.said.push_back((self.last, self.run, said));
        if self.said.len() > KEPT
            && let Some((_, run, Said::Note { seq, .. })) = self.said.pop_front()
            && run == self.run
        {
            self.from = seq + 1;
        }
    }
}

/// Something that a task has said.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It is in the history.
    Note {
        /// Its number there.
        seq: u64,
        /// What it is.
        note: Note,
    },
    /// How far it is, which is recorded nowhere.
    Progress(Progress),
}

/// How far somebody has heard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    looks: u64,
    run: u64,
    /// Events of the history that are behind it.
    pub(crate) seen: u64,
    /// The number of the last that was heard.
    heard: u64,
    /// What is between it and what will be said was said to others, and has to be read from the store.
    behind: bool,
}

/// What is new.
pub(crate) enum News {
    /// Nothing.
    None,
    /// This was said.
    Said(Vec<Said>),
    /// Where the task stands has to be seen in the store.
    Look,
}

impl Cursor {
    /// Of somebody who watches from the first turn on: the event before it says nothing but that the task
    /// was started.
    pub(crate) fn of_new_task() -> Cursor {
        Cursor { seen: 1, ..Cursor::default() }
    }

    /// All events up to here were read from the store.
    pub(crate) fn has_read(&mut self, seen: u64) {
        (self.seen, self.behind) = (seen, false);
    }

    /// A look at the store came to nothing.
    pub(crate) fn looks_again(&mut self) {
        self.looks = self.looks.wrapping_sub(1);
    }
}

impl Feed {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened to the task.
    pub(crate) fn changed(&self) {
        self.tail().looks += 1;
        self.notify.notify_waiters();
    }

    /// A turn is durable, and with it progress that is not recorded can be told, each with the number of
    /// the event that came after it. After a `quiet` one the task goes on and asks nothing, so that what it
    /// said is all there is to know. Nobody is told yet.
    pub(crate) fn landed(&self, turn: &Turn, progress: Vec<(u64, Progress)>, quiet: bool) {
        let mut tail = self.tail();
        if turn.restart {
            (tail.run, tail.from) = (tail.run + 1, 0);
        } else if turn.first != tail.to {
            // Those who have not heard what was before find it in the store.
            tail.said.retain(|(_, _, said)| matches!(said, Said::Progress(_)));
            tail.from = turn.first;
        }
        let mut progress = progress.into_iter().peekable();
        for (seq, record) in (turn.first..).zip(turn.records()) {
            while let Some((_, said)) = progress.next_if(|(before, _)| *before <= seq) {
                tail.say(Said::Progress(said));
            }
            if let Event::Noted { note, .. } = &record.event {
                tail.say(Said::Note { seq, note: note.clone() });
            }
        }
        progress.for_each(|(_, said)| tail.say(Said::Progress(said)));
        tail.to = turn.first + turn.records().count() as u64;
        tail.looks += u64::from(!quiet);
    }

    /// The task says how far it is: that is not recorded, and depends on nothing that is not durable.
    pub(crate) fn pass(&self, progress: Vec<(u64, Progress)>) {
        let mut tail = self.tail();
        progress.into_iter().for_each(|(_, said)| tail.say(Said::Progress(said)));
        drop(tail);
        self.notify.notify_waiters();
    }

    /// What somebody has not heard yet.
    pub(crate) fn hear(&self, cursor: &mut Cursor) -> News {
        let tail = self.tail();
        let (run, seen) = (cursor.run, cursor.seen);
        let gap = cursor.behind || tail.from > if run == tail.run { seen } else { 0 };
        let new = |of: u64, said: &Said| match said {
            Said::Note { .. } if of == tail.run && gap => false,
            Said::Note { seq, .. } => of > run || of == run && *seq >= seen,
            Said::Progress(_) => true,
        };
        let behind =
            tail.said.iter().filter(|(number, of, said)| *number > cursor.heard && new(*of, said));
        let said: Vec<Said> = behind.map(|(_, _, said)| said.clone()).collect();
        cursor.heard = tail.last;
        if run != tail.run {
            (cursor.run, cursor.seen) = (tail.run, 0);
        }
        if !gap {
            cursor.seen = cursor.seen.max(tail.to);
        }
        if !said.is_empty() {
            // If there is reason to look it is still there the next time.
            return News::Said(said);
        }
        match gap || tail.looks != cursor.looks {
            true => {
                cursor.looks = tail.looks;
                News::Look
            }
            false => News::None,
        }
    }

    /// For somebody who goes on from here, and looks at the store first.
    pub(crate) fn from(&self, seen: u64) -> Cursor {
        let tail = self.tail();
        let looks = tail.looks.wrapping_sub(1);
        Cursor { looks, run: tail.run, seen, heard: tail.last, behind: true }
    }
}

pub(crate) struct Watch {
    watchers: Arc<Watchers>,
    key: TaskKey,
    pub(crate) feed: Arc<Feed>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut map = self.watchers.map();
        if let Some((count, _)) = map.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                map.remove(&self.key);
            }
        }
        self.watchers.watched.store(map.len(), Ordering::Release);
    }
}
