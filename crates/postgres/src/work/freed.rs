//! Who has a dedup key, and how it is freed and taken.
//!
//! A key that was freed is no longer in its task's row, so that others can have it. Whose it was is in a table
//! of its own, for those who had asked for it before.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use super::{Done, Work};
use crate::error::Fault;

/// An owner, and a key of his.
type Key = (String, String);

/// The task that has a key, or had it last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) task: i64,
    /// Since when others may have it, by the database's clock.
    pub(crate) freed: Option<i64>,
}

/// The keys that were freed, as far as they were loaded or are freed by this batch.
#[derive(Debug, Default)]
pub(super) struct Freed {
    /// Whose they were, and since when they are free.
    now: HashMap<Key, (i64, i64)>,
    /// Whose they were before this batch.
    before: HashMap<Key, i64>,
    /// Rows that go, each with the task that it is of.
    gone: BTreeMap<Key, i64>,
    written: BTreeSet<Key>,
}

impl Freed {
    pub(super) fn loaded(&mut self, key: Key, task: i64, at: i64) {
        self.before.insert(key.clone(), task);
        self.now.insert(key, (task, at));
    }

    /// Rows that go.
    pub(super) fn gone(&self) -> impl Iterator<Item = (&Key, i64)> {
        self.gone.iter().map(|(key, task)| (key, *task))
    }

    /// Rows that come, or take the place of others: whose the keys were, and since when they are free.
    pub(super) fn written(&self) -> impl Iterator<Item = (&Key, i64, i64)> {
        self.written.iter().filter_map(|key| self.now.get(key).map(|(task, at)| (key, *task, *at)))
    }

    /// Another task has the key.
    fn take(&mut self, key: Key) {
        self.now.remove(&key);
        self.written.remove(&key);
        if let Some(task) = self.before.get(&key) {
            self.gone.insert(key, *task);
        }
    }

    /// A task is removed, and what there is of it in the table goes with it.
    pub(super) fn forget(&mut self, task: i64) {
        self.now.retain(|_, (of, _)| *of != task);
    }
}

impl<'b> Work<'b> {
    /// Who of an owner's tasks has this dedup key; or had it last, if it was freed.
    pub(crate) fn by_dedup(&mut self, owner: &str, dedup: &str) -> Done<Option<Holder>> {
        let at = (owner.to_owned(), dedup.to_owned());
        if !self.needs.dedups.contains(&at) {
            self.missing.dedups.insert(at);
            return Err(Fault::Miss);
        }
        if let Some(task) = self.dedups.get(&at) {
            return Ok(Some(Holder { task: *task, freed: None }));
        }
        let freed = self.freed.now.get(&at);
        Ok(freed.map(|(task, at)| Holder { task: *task, freed: Some(*at) }))
    }

    /// Others may have a task's dedup key who have asked for it after this.
    pub(crate) fn free_dedup(&mut self, key: i64, since: Instant) {
        // What is decided by memory frees nothing: it knows its tasks by their numbers alone.
        let Some(clock) = self.clock else { return };
        let Some(at) = self.release(key) else { return };
        self.freed.now.insert(at.clone(), (key, clock.at_the_latest(since)));
        self.freed.written.insert(at);
    }

    /// Takes an owner's dedup key from whoever has it, or had it.
    pub(crate) fn take_dedup(&mut self, owner: &str, dedup: &str) {
        let at = (owner.to_owned(), dedup.to_owned());
        if let Some(holder) = self.dedups.get(&at).copied() {
            self.release(holder);
        }
        self.freed.take(at);
    }

    /// A task has its dedup key no longer: which.
    fn release(&mut self, key: i64) -> Option<Key> {
        let task = self.tasks.get_mut(&key)?;
        let at = (task.owner.to_string(), task.dedup.take()?);
        task.dirty = true;
        self.dedups.remove(&at);
        self.changed();
        Some(at)
    }
}
