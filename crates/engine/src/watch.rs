//! Telling those who wait that a task has changed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use steadfast_store::TaskKey;
use tokio::sync::Notify;

/// Who waits for which task. Holds only tasks that somebody waits for.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<HashMap<TaskKey, (usize, Arc<Notify>)>>);

impl Watchers {
    fn map(&self) -> MutexGuard<'_, HashMap<TaskKey, (usize, Arc<Notify>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Another process changed something, and may have changed anything.
    pub(crate) fn all_changed(&self) {
        for (_, notify) in self.map().values() {
            notify.notify_waiters();
        }
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
