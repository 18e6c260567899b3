//! Telling those who wait that a task has changed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use steadfast_store::TaskKey;
use tokio::sync::{Notify, watch};

/// Who waits for which task, or for news of any. Holds only tasks that somebody waits for.
#[derive(Default)]
pub(crate) struct Watchers {
    by_task: Mutex<HashMap<TaskKey, (usize, Arc<Notify>)>>,
    /// How often a task may have begun to ask something, or a notice may have been put up.
    news: watch::Sender<u64>,
}

impl Watchers {
    fn map(&self) -> MutexGuard<'_, HashMap<TaskKey, (usize, Arc<Notify>)>> {
        self.by_task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch. Changes from here on are seen by [`Watch::notify`].
    pub(crate) fn watch(self: &Arc<Self>, key: TaskKey) -> Watch {
        let mut map = self.map();
        let (count, notify) = map.entry(key).or_default();
        *count += 1;
        Watch { watchers: self.clone(), key, notify: notify.clone() }
    }

    pub(crate) fn changed(&self, key: TaskKey) {
        if let Some((_, notify)) = self.map().get(&key) {
            notify.notify_waiters();
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
        for (_, notify) in self.map().values() {
            notify.notify_waiters();
        }
        self.news();
    }
}

pub(crate) struct Watch {
    watchers: Arc<Watchers>,
    key: TaskKey,
    pub(crate) notify: Arc<Notify>,
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
    }
}
