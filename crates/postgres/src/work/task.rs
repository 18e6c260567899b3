//! A task as its batch sees it, and how it is found.

use std::sync::Arc;

use steadfast_core::{OpId, Status, TaskId, Timestamp};
use steadfast_store::{Caller, NewTask, Refusal};

use super::{Done, Remembered, Work};
use crate::{error::Fault, row, version::Version};

/// There may be open questions of it,
pub(crate) const QUESTIONS: i16 = 1;
/// activities,
pub(crate) const ACTIVITIES: i16 = 2;
/// or watches.
pub(crate) const WATCHES: i16 = 4;

/// Where a task lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Desk(i64),
    Ready,
    Parked,
    Halted,
}

impl Place {
    /// As it is written.
    pub(crate) fn column(self) -> Option<i64> {
        match self {
            Place::Desk(desk) => Some(desk),
            Place::Ready => Some(0),
            Place::Halted => Some(-1),
            Place::Parked => None,
        }
    }

    pub(crate) fn read(column: Option<i64>) -> Place {
        match column {
            None => Place::Parked,
            Some(0) => Place::Ready,
            Some(desk) if desk > 0 => Place::Desk(desk),
            Some(_) => Place::Halted,
        }
    }
}

/// A task as its batch sees it. What no command decides by is not loaded; it is here only if it
/// changes.
#[derive(Debug)]
pub(crate) struct Task<'b> {
    pub(crate) key: i64,
    pub(crate) id: Arc<str>,
    /// Empty for nobody.
    pub(crate) owner: Arc<str>,
    pub(crate) status: Status,
    pub(crate) place: Place,
    pub(crate) wake: Option<i64>,
    pub(crate) rank: i64,
    pub(crate) epoch: i64,
    pub(crate) deaths: i64,
    pub(crate) expires: Option<i64>,
    pub(crate) parent: Option<(i64, OpId)>,
    pub(crate) tells: bool,
    pub(crate) dedup: Option<String>,
    pub(crate) bound: Option<i64>,
    /// The number of its last message.
    pub(crate) letters: i64,
    pub(crate) traces: i16,
    /// The number of its next event, if that was loaded.
    pub(crate) next: Option<i64>,
    /// Of its row as it was loaded, or is remembered.
    pub(crate) version: Option<Version>,
    /// What is remembered of it, if it is decided by that.
    pub(crate) remembered: Option<Arc<Remembered>>,

    /// Its row must be written.
    pub(crate) dirty: bool,
    /// What it had when it was loaded of what seldom changes.
    pub(crate) before: Option<Seldom>,
    pub(crate) deaths_before: i64,
    pub(crate) updated: Option<i64>,
    pub(crate) ended: Option<i64>,
    pub(crate) view: Option<&'b [u8]>,
    pub(crate) outcome: Option<&'b [u8]>,
    /// It begins with this batch.
    pub(crate) fresh: Option<&'b NewTask>,
    /// Its history so far is removed.
    pub(crate) restarted: bool,
    /// Its last events, up to `next`.
    pub(crate) events: Vec<&'b [u8]>,
    /// It is removed with this batch.
    pub(crate) gone: bool,
}

/// What most turns leave as it is, and is then not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seldom {
    bound: Option<i64>,
    rank: i64,
    epoch: i64,
    letters: i64,
    traces: i16,
    tells: bool,
    dedup: bool,
}

impl<'b> Task<'b> {
    /// One of which nothing is known but its number, its id and its owner.
    pub(crate) fn new(key: i64, id: Arc<str>, owner: Arc<str>) -> Task<'b> {
        Task {
            key,
            id,
            owner,
            status: Status::Queued,
            place: Place::Parked,
            wake: None,
            rank: 0,
            epoch: 1,
            deaths: 0,
            expires: None,
            parent: None,
            tells: false,
            dedup: None,
            bound: None,
            letters: 0,
            traces: 0,
            next: None,
            version: None,
            remembered: None,
            dirty: false,
            before: None,
            deaths_before: 0,
            updated: None,
            ended: None,
            view: None,
            outcome: None,
            fresh: None,
            restarted: false,
            events: Vec::new(),
            gone: false,
        }
    }

    /// The same, as it was before the batch.
    pub(super) fn unchanged(self) -> Task<'b> {
        Task { before: Some(self.seldom()), deaths_before: self.deaths, ..self }
    }

    pub(crate) fn seldom(&self) -> Seldom {
        Seldom {
            bound: self.bound,
            rank: self.rank,
            epoch: self.epoch,
            letters: self.letters,
            traces: self.traces,
            tells: self.tells,
            // It is taken, and never given.
            dedup: self.dedup.is_some(),
        }
    }

    /// Whether it begins as most tasks do: on a desk, and with nothing that only some have.
    pub(super) fn begins_plainly(&self) -> bool {
        let nothing = Seldom {
            bound: None,
            rank: 0,
            epoch: 1,
            letters: 0,
            traces: 0,
            tells: false,
            dedup: false,
        };
        self.seldom() == nothing
            && matches!(self.place, Place::Desk(_))
            && self.parent.is_none()
            && self.ended.is_none()
            && self.updated.is_none()
            && self.fresh.is_some_and(|new| new.tags.is_empty())
    }

    /// Whether it ends as most tasks do: off every desk, and with nothing that changes by that but its end.
    pub(super) fn ends_plainly(&self) -> bool {
        self.place == Place::Parked
            && self.wake.is_none()
            && self.ended.is_some()
            && self.ended == self.updated
            && self.outcome.is_some()
            && self.deaths == self.deaths_before
    }

    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now.0)
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.status.is_terminal()
    }

    /// Appends to its history, whose end is known.
    pub(crate) fn append(&mut self, event: &'b [u8]) {
        self.events.push(event);
        self.next = self.next.map(|next| next + 1);
    }
}

impl<'b> Work<'b> {
    /// A task by its number; `None` if it is gone.
    pub(crate) fn task(&mut self, key: i64) -> Done<Option<&mut Task<'b>>> {
        if !self.tasks.contains_key(&key) && !self.needs.keys.contains(&key) {
            self.missing.keys.insert(key);
            return Err(Fault::Miss);
        }
        Ok(self.tasks.get_mut(&key).filter(|task| !task.gone))
    }

    /// The number of the task with this id.
    pub(crate) fn by_id(&mut self, id: &TaskId) -> Done<Option<i64>> {
        let found = self.ids.get(id.as_str()).copied();
        if found.is_none() && !self.needs.ids.contains(id.as_str()) {
            self.missing.ids.insert(id.to_string());
            return Err(Fault::Miss);
        }
        Ok(found)
    }

    /// Whether a new task can have this id.
    pub(crate) fn is_free(&mut self, id: &TaskId) -> Done<bool> {
        if self.needs.ids.contains(id.as_str()) || self.ids.contains_key(id.as_str()) {
            return Ok(!self.ids.contains_key(id.as_str()));
        }
        if !self.needs.new_ids.contains(id.as_str()) {
            self.missing.new_ids.insert(id.as_str().into());
            return Err(Fault::Miss);
        }
        Ok(!self.taken.contains(id.as_str()))
    }

    /// The id of a new task, as it was asked for.
    pub(crate) fn new_id(&self, id: &TaskId) -> Arc<str> {
        self.needs.new_ids.get(id.as_str()).cloned().unwrap_or_else(|| id.as_str().into())
    }

    /// The task with this id, if it exists for this caller.
    pub(crate) fn find(&mut self, caller: &Caller, id: &TaskId) -> Done<&mut Task<'b>> {
        let key = self.by_id(id)?.ok_or(Refusal::Unknown)?;
        let task = self.task(key)?.ok_or(Refusal::Unknown)?;
        if caller.principal.is_some() && row::owner(&caller.principal) != &*task.owner {
            return Err(Refusal::Unknown.into());
        }
        match task.has_expired(caller.now) {
            true => Err(Refusal::Expired.into()),
            false => Ok(task),
        }
    }

    /// The same, if it has not ended.
    pub(crate) fn find_open(&mut self, caller: &Caller, id: &TaskId) -> Done<&mut Task<'b>> {
        let task = self.find(caller, id)?;
        match task.status {
            status if status.is_terminal() => Err(Refusal::Terminal(status).into()),
            _ => Ok(task),
        }
    }

    /// The number of the next event of a task that is there.
    pub(crate) fn next_event(&mut self, key: i64) -> Done<i64> {
        match self.tasks.get(&key).and_then(|task| task.next) {
            Some(next) => Ok(next),
            None => {
                self.missing.next.insert(key);
                Err(Fault::Miss)
            }
        }
    }

    /// Has the number of the next event of a task looked up, if it is only remembered.
    pub(crate) fn look_for_next(&mut self, key: i64) -> Done<()> {
        let is_fresh = self.tasks.get(&key).is_some_and(|task| task.fresh.is_some());
        if is_fresh || self.needs.next.contains(&key) {
            return Ok(());
        }
        self.missing.next.insert(key);
        Err(Fault::Miss)
    }

    /// Changes a row, for all to see.
    pub(crate) fn edit(&mut self, key: i64, change: impl FnOnce(&mut Task<'b>)) {
        let desk = self.desk;
        let Some(task) = self.tasks.get_mut(&key) else { return };
        change(task);
        task.dirty = true;
        match task.place {
            Place::Desk(holder) if holder != desk => self.calls_on(holder),
            _ => self.changed(),
        }
    }

    /// Puts a task into the batch that begins with it.
    pub(crate) fn insert(&mut self, task: Task<'b>) {
        self.ids.insert(task.id.clone(), task.key);
        if let Some(dedup) = &task.dedup {
            self.dedups.insert((task.owner.to_string(), dedup.clone()), task.key);
        }
        self.tasks.insert(task.key, task);
        self.changed();
    }

    /// Removes a task with all that belongs to it.
    pub(crate) fn remove(&mut self, key: i64) {
        let Some(task) = self.tasks.get_mut(&key) else { return };
        task.gone = true;
        let (id, owner, dedup) = (task.id.clone(), task.owner.clone(), task.dedup.take());
        self.ids.remove(&id);
        if let Some(dedup) = dedup {
            self.dedups.remove(&(owner.to_string(), dedup));
        }
        self.freed.forget(key);
        self.removed.push(key);
        self.clear_inbox(key);
        self.clear_questions(key);
        self.clear_watches(key);
        // Whoever runs an activity of it finds out by asking what it still holds.
        for activity in self.activities_of.remove(&key).unwrap_or_default() {
            self.activities.remove(&activity);
        }
        self.activities.retain(|_, activity| activity.task != key);
        self.remove_scope(&format!("task/{id}"));
        self.changed();
        self.news.every_desk = true;
    }
}
