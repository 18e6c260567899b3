//! The content, and the few ways in which all calls change it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use steadfast_core::{Moment, OpId, Principal, TaskId, Timestamp};

use super::{activity::Activities, claim::Pile, notice::Notices, outside::Kept, session::Sessions};
use crate::{
    Caller, Change, Changes, Counts, Desk, Error, InboxRow, QuestionRow, Refusal, Result, StateRow,
    TaskKey, TaskRow, Touched,
};

/// Where a task lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Desk(Desk),
    /// With its number on the pile.
    Ready(u64),
    Parked(Option<Timestamp>),
    /// With the time at which it was to begin, if it had not.
    Halted(Option<Timestamp>),
}

#[derive(Debug)]
pub(super) struct Task {
    /// Its `desk` and `wake` follow `place`.
    pub(super) row: TaskRow,
    pub(super) place: Place,
    /// Its parent wants to know of its end.
    pub(super) tells: bool,
    pub(super) dedup: Option<String>,
    /// Since when others may have its key.
    pub(super) freed: Option<Moment>,
    pub(super) history: Vec<Vec<u8>>,
    pub(super) inbox: BTreeMap<i64, InboxRow>,
    pub(super) last_seq: i64,
    /// The numbers of notices in the inbox, so that one takes the place of the same before it.
    pub(super) notices: BTreeMap<Vec<u8>, i64>,
    /// In the order they were asked.
    pub(super) questions: Vec<QuestionRow>,
    pub(super) activities: BTreeMap<OpId, i64>,
    pub(super) watches: BTreeSet<(String, String)>,
}

impl Task {
    /// Others may have its key who have asked for it after this.
    pub(super) fn free(&mut self, since: Moment) {
        if self.dedup.is_some() {
            self.freed.get_or_insert(since);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Content {
    #[cfg(feature = "mutants")]
    pub(super) skip_fence: bool,
    pub(super) tasks: BTreeMap<TaskKey, Task>,
    pub(super) ids: BTreeMap<TaskId, TaskKey>,
    pub(super) dedup: BTreeMap<(Option<Principal>, String), TaskKey>,
    pub(super) owners: BTreeMap<Option<Principal>, BTreeSet<TaskKey>>,
    pub(super) children: BTreeMap<TaskKey, BTreeSet<TaskKey>>,
    pub(super) counts: BTreeMap<Option<Principal>, Counts>,
    pub(super) expiries: BTreeSet<(Timestamp, TaskKey)>,
    pub(super) wakes: BTreeSet<(Timestamp, TaskKey)>,
    pub(super) desks: BTreeMap<Desk, BTreeSet<TaskKey>>,
    pub(super) pile: Pile,
    pub(super) states: BTreeMap<(String, String), StateRow>,
    pub(super) watchers: BTreeMap<(String, String), BTreeSet<TaskKey>>,
    pub(super) kept: Kept,
    pub(super) sessions: Sessions,
    pub(super) notices: Notices,
    pub(super) activities: Activities,
    pub(super) last_task: i64,
    /// Those whose process is alive.
    handles: BTreeMap<Desk, Arc<Changes>>,
    last_desk: i64,
    changed: bool,
}

/// What a call led to, for the desk that made it.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) desk: Desk,
    pub(super) touched: BTreeMap<TaskKey, bool>,
    pub(super) cancelled: BTreeSet<i64>,
}

impl Reach {
    pub(super) fn of(desk: Desk) -> Reach {
        Reach { desk, touched: BTreeMap::new(), cancelled: BTreeSet::new() }
    }

    pub(super) fn touch(&mut self, touched: Touched) {
        *self.touched.entry(touched.key).or_default() |= touched.here;
    }

    pub(super) fn touched(&self) -> Vec<Touched> {
        self.touched.iter().map(|(&key, &here)| Touched { key, here }).collect()
    }
}

impl Content {
    // ---- handles ----

    pub(super) fn seat(&mut self, changed: Arc<Changes>) -> Desk {
        self.last_desk += 1;
        let desk = Desk(self.last_desk);
        self.handles.insert(desk, changed);
        desk
    }

    /// What lies on a desk and is bound to it is bound to another one of the same process.
    pub(super) fn rebind(&mut self, before: Desk, now: Desk) {
        for key in self.desks.get(&before).into_iter().flatten() {
            let task = self.tasks.get_mut(key).filter(|task| task.row.bound == Some(before));
            if let Some(task) = task {
                task.row.bound = Some(now);
            }
        }
    }

    pub(super) fn leave(&mut self, desk: Desk) {
        self.handles.remove(&desk);
    }

    pub(super) fn is_dead(&self, desk: Desk) -> bool {
        !self.handles.contains_key(&desk)
    }

    /// How many handles there have been, if there is no other than this now.
    pub(super) fn solitude(&self, desk: Desk) -> Option<u64> {
        let alone = self.handles.keys().all(|other| *other == desk);
        alone.then(|| u64::try_from(self.last_desk).unwrap_or(0))
    }

    pub(super) fn changed(&mut self) {
        self.changed = true;
    }

    /// Tells every handle but the one that made the change.
    pub(super) fn announce(&mut self, by: Desk) {
        if std::mem::take(&mut self.changed) {
            for (_, handle) in self.handles.iter().filter(|(desk, _)| **desk != by) {
                handle.tell(Change::anything());
            }
        }
    }

    // ---- checks ----

    /// The task with this id, if it exists for this caller.
    pub(super) fn find(&self, caller: &Caller, id: &TaskId) -> Result<TaskKey> {
        let task = self
            .ids
            .get(id)
            .and_then(|key| self.tasks.get(key))
            .filter(|task| caller.principal.is_none() || caller.principal == task.row.owner);
        let row = &task.ok_or(Refusal::Unknown)?.row;
        match expired(row, caller.now) {
            true => Err(Refusal::Expired.into()),
            false => Ok(row.key),
        }
    }

    /// The same, if it has not ended.
    pub(super) fn find_open(&self, caller: &Caller, id: &TaskId) -> Result<TaskKey> {
        let key = self.find(caller, id)?;
        match self.task(key)?.row.status {
            status if status.is_terminal() => Err(Refusal::Terminal(status).into()),
            _ => Ok(key),
        }
    }

    /// A task that an index names.
    pub(super) fn task(&self, key: TaskKey) -> Result<&Task> {
        self.tasks.get(&key).ok_or_else(|| Error::Corrupt(format!("task {} is missing", key.0)))
    }

    // ---- changes ----

    /// Moves a task, and every index of where tasks lie with it.
    pub(super) fn put(&mut self, key: TaskKey, place: Place) {
        let Some(task) = self.tasks.get_mut(&key) else { return };
        self.changed = true;
        match task.place {
            Place::Desk(desk) => unlist(&mut self.desks, &desk, &key),
            Place::Ready(number) => self.pile.take_out(&task.row, number),
            Place::Parked(Some(wake)) => {
                self.wakes.remove(&(wake, key));
            }
            Place::Parked(None) | Place::Halted(_) => {}
        }
        (task.row.desk, task.row.wake) = (None, None);
        match place {
            Place::Desk(desk) => {
                self.desks.entry(desk).or_default().insert(key);
                task.row.desk = Some(desk);
            }
            Place::Ready(number) => self.pile.put_in(&task.row, number),
            Place::Parked(wake) => {
                self.wakes.extend(wake.map(|wake| (wake, key)));
                task.row.wake = wake;
            }
            Place::Halted(start) => task.row.wake = start,
        }
        task.place = place;
    }

    /// Puts a task on the ready pile, behind the others.
    pub(super) fn put_ready(&mut self, key: TaskKey) {
        let number = self.pile.next();
        self.put(key, Place::Ready(number));
    }

    /// Takes a task off its desk for good: to the ready pile, unless it is halted.
    pub(super) fn give_back(&mut self, key: TaskKey) {
        match self.tasks.get(&key) {
            Some(task) if task.row.status.is_halted() => self.put(key, Place::Halted(None)),
            _ => self.put_ready(key),
        }
    }

    /// Changes a row, and every index of what is in rows with it.
    pub(super) fn edit(&mut self, key: TaskKey, change: impl FnOnce(&mut TaskRow)) {
        let Some(task) = self.tasks.get_mut(&key) else { return };
        self.changed = true;
        let (status, expires) = (task.row.status, task.row.expires);
        change(&mut task.row);
        if let Some(expires) = expires {
            self.expiries.remove(&(expires, key));
        }
        self.expiries.extend(task.row.expires.map(|expires| (expires, key)));
        let counts = self.counts.entry(task.row.owner.clone()).or_default();
        uncount(counts, status);
        *counts.entry(task.row.status).or_default() += 1;
    }

    /// Puts a message into a task's inbox, which makes it ready if it was only waiting.
    pub(super) fn deliver(
        &mut self,
        key: TaskKey,
        op: Option<OpId>,
        body: Vec<u8>,
        by: &mut Reach,
    ) {
        let Some(task) = self.tasks.get_mut(&key) else { return };
        self.changed = true;
        task.last_seq += 1;
        let seq = task.last_seq;
        task.inbox.insert(seq, InboxRow { seq, op, body });
        let unbegun = task.row.status == steadfast_core::Status::Queued;
        by.touch(Touched { key, here: task.place == Place::Desk(by.desk) });
        match task.place {
            Place::Parked(Some(_)) if unbegun => {}
            Place::Parked(_) => self.put_ready(key),
            Place::Desk(_) | Place::Ready(_) | Place::Halted(_) => {}
        }
    }

    /// Tells a task's parent of its end, if it wants to know.
    pub(super) fn tell_parent(&mut self, key: TaskKey, body: Vec<u8>, by: &mut Reach) {
        let told = self.tasks.get(&key).filter(|task| task.tells).and_then(|task| task.row.parent);
        if let Some((parent, op)) = told.filter(|(parent, _)| self.is_open(*parent)) {
            self.deliver(parent, Some(op), body, by);
        }
    }

    /// Whether a task is there and has not ended.
    pub(super) fn is_open(&self, key: TaskKey) -> bool {
        self.tasks.get(&key).is_some_and(|task| !task.row.status.is_terminal())
    }

    /// Removes what a task's operations left in the store, but for messages.
    pub(super) fn strip(&mut self, key: TaskKey, by: &mut Reach) {
        let Some(task) = self.tasks.get_mut(&key) else { return };
        task.questions.clear();
        for watch in std::mem::take(&mut task.watches) {
            unlist(&mut self.watchers, &watch, &key);
        }
        for (_, activity) in std::mem::take(&mut task.activities) {
            if self.activities.remove(activity) == Some(by.desk) {
                by.cancelled.insert(activity);
            }
        }
    }

    /// Removes the state of a scope.
    pub(super) fn remove_states(&mut self, scope: &str) {
        let own = self.states.range((scope.to_owned(), String::new())..);
        let own = own.map(|(at, _)| at).take_while(|at| at.0 == scope);
        for at in own.cloned().collect::<Vec<_>>() {
            self.states.remove(&at);
        }
    }

    /// Removes a task with all that belongs to it.
    pub(super) fn remove(&mut self, key: TaskKey) {
        self.put(key, Place::Parked(None));
        // Whoever runs an activity of it finds out by asking what it still holds.
        self.strip(key, &mut Reach::of(Desk(0)));
        let Some(task) = self.tasks.remove(&key) else { return };
        let row = task.row;
        self.remove_states(&crate::task_scope(&row.id));
        self.ids.remove(&row.id);
        unlist(&mut self.owners, &row.owner, &key);
        if let Some((parent, _)) = row.parent {
            unlist(&mut self.children, &parent, &key);
        }
        if let Some(expires) = row.expires {
            self.expiries.remove(&(expires, key));
        }
        if let Some(counts) = self.counts.get_mut(&row.owner) {
            uncount(counts, row.status);
            if counts.is_empty() {
                self.counts.remove(&row.owner);
            }
        }
        if let Some(dedup) = task.dedup {
            self.dedup.remove(&(row.owner, dedup));
        }
    }
}

/// Whether a task's time is over.
pub(super) fn expired(row: &TaskRow, now: Timestamp) -> bool {
    row.expires.is_some_and(|expires| expires <= now)
}

/// Takes a value out of an index, and the entry with its last value.
pub(super) fn unlist<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}

fn uncount(counts: &mut Counts, status: steadfast_core::Status) {
    if let Some(count) = counts.get_mut(&status) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&status);
        }
    }
}
