//! What a handle learns of what others have done.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};

use steadfast_core::Timestamp;
use tokio::sync::Notify;

use crate::TaskKey;

/// What other handles may have changed. It may say too much, and never too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Something that lies on this handle's desk: there is a message for it, or it was cancelled or halted.
    pub held: bool,
    /// There is something to take up: a task that is ready, or an activity.
    pub work: bool,
    /// Something will have to be taken up at this time, or before.
    pub due: Option<Timestamp>,
    /// A task asks something, a notice was put up, or a session is another.
    pub news: bool,
    /// How these look to whoever watches them.
    pub tasks: Which,
}

/// Some tasks, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those alone.
    These(BTreeSet<TaskKey>),
    /// Any.
    All,
}

impl Default for Which {
    fn default() -> Which {
        Which::These(BTreeSet::new())
    }
}

impl Which {
    /// Both.
    pub fn add(&mut self, more: Which) {
        match (&mut *self, more) {
            (Which::These(tasks), Which::These(more)) if tasks.len() + more.len() <= MOST => {
                tasks.extend(more);
            }
            (_, more) if more == Which::default() => {}
            _ => *self = Which::All,
        }
    }
}

/// So many tasks are remembered one by one for who does not ask.
const MOST: usize = 65_536;

impl Change {
    /// Nothing.
    #[must_use]
    pub fn nothing() -> Change {
        Change { held: false, work: false, due: None, news: false, tasks: Which::default() }
    }

    /// Anything: what a store says that knows no more.
    #[must_use]
    pub fn anything() -> Change {
        Change { held: true, work: true, due: None, news: true, tasks: Which::All }
    }

    /// Both.
    pub fn add(&mut self, more: Change) {
        self.held |= more.held;
        self.work |= more.work;
        self.due = [self.due, more.due].into_iter().flatten().min();
        self.news |= more.news;
        self.tasks.add(more.tasks);
    }
}

/// What others have changed since it was asked for last.
#[derive(Debug)]
pub struct Changes {
    since: Mutex<Change>,
    wake: Notify,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes { since: Mutex::new(Change::nothing()), wake: Notify::new() }
    }
}

impl Changes {
    fn since(&self) -> MutexGuard<'_, Change> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Others have changed this.
    pub fn tell(&self, change: Change) {
        self.since().add(change);
        self.wake.notify_one();
    }

    /// What it is, if there is something.
    #[must_use]
    pub fn take(&self) -> Option<Change> {
        let change = std::mem::replace(&mut *self.since(), Change::nothing());
        Some(change).filter(|change| *change != Change::nothing())
    }

    /// Waits until there is something. It is kept for who waits next, so that a call can be given up.
    pub async fn next(&self) -> Change {
        loop {
            let mut told = pin!(self.wake.notified());
            let early = told.as_mut().enable();
            if let Some(change) = self.take() {
                return change;
            }
            if !early {
                told.await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keys: impl IntoIterator<Item = i64>) -> Change {
        let tasks = Which::These(keys.into_iter().map(TaskKey).collect());
        Change { tasks, ..Change::nothing() }
    }

    #[tokio::test]
    async fn what_is_told_between_two_looks_comes_together_and_once() {
        let changes = Changes::default();
        changes.tell(of([1, 2]));
        changes.tell(Change { work: true, ..of([2, 3]) });
        assert_eq!(changes.next().await, Change { work: true, ..of([1, 2, 3]) });
        assert_eq!(changes.take(), None);
        // A wake-up without anything behind it is none.
        assert!(soon(changes.next()).await.is_none());
        changes.tell(of([4]));
        assert_eq!(soon(changes.next()).await, Some(of([4])));
    }

    #[test]
    fn too_many_tasks_to_name_are_all() {
        let changes = Changes::default();
        changes.tell(of(0..40_000));
        changes.tell(of(40_000..80_000));
        changes.tell(of([1]));
        assert_eq!(changes.take().map(|change| change.tasks), Some(Which::All));
    }

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(std::time::Duration::from_millis(20), future).await.ok()
    }
}
