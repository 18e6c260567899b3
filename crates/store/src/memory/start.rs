//! Starting a task.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::{Moment, Status, TaskId};

use super::content::{Content, Place, Reach, Task, expired};
use crate::{Bond, Desk, Lease, NewTask, Refusal, Result, Started, TaskKey, TaskRow};

impl Content {
    /// Starts a task, held by `desk` if it asks for that and there is one.
    pub(super) fn start(&mut self, new: NewTask, desk: Option<Desk>) -> Result<Started> {
        if let Some(task) = self.asked_before(&new) {
            let (key, id) = (task.row.key, task.row.id.clone());
            return Ok(Started::Existing { key, id, freed: task.freed.is_some() });
        }
        if self.ids.contains_key(&new.id) {
            return Err(Refusal::Exists.into());
        }
        let hold = desk.filter(|_| new.hold);
        let wake = new.wake.filter(|wake| *wake > new.created);
        self.last_task += 1;
        let key = TaskKey(self.last_task);
        if let Some(dedup) = &new.dedup
            && let Some(old) = self.dedup.insert((new.owner.clone(), dedup.key.clone()), key)
            && let Some(old) = self.tasks.get_mut(&old)
        {
            // Its removal must not take the key from the new task.
            old.dedup = None;
        }
        let bound = desk.filter(|_| new.bound);
        let mut task = build(key, new);
        task.row.bound = bound;
        self.insert(task);
        let mut mail = false;
        for body in self.kept_for(key) {
            mail = true;
            self.deliver(key, None, body, &mut Reach::of(Desk(0)));
        }
        let lease = match (wake, hold) {
            _ if self.task(key)?.row.status.is_terminal() => {
                self.put(key, Place::Parked(None));
                None
            }
            (Some(wake), _) => {
                self.put(key, Place::Parked(Some(wake)));
                None
            }
            (None, Some(desk)) => {
                self.put(key, Place::Desk(desk));
                Some(Lease { key, epoch: 1 })
            }
            (None, None) => {
                self.give_back(key);
                None
            }
        };
        Ok(Started::New { key, lease, mail })
    }

    /// The task that has one of the keys of a new one.
    fn asked_before(&self, new: &NewTask) -> Option<&Task> {
        let dedup = new.dedup.as_ref()?;
        let holder = |key: &String| {
            let task = self.tasks.get(self.dedup.get(&(new.owner.clone(), key.clone()))?)?;
            let gives_way = expired(&task.row, new.created)
                || task.freed.is_some_and(|freed| freed < dedup.asked.moment)
                || dedup.instead_of.as_ref() == Some(&task.row.id);
            Some(task).filter(|_| !gives_way)
        };
        let taken_back = dedup.unless.as_ref().and_then(holder);
        taken_back
            .filter(|task| task.row.status == Status::Cancelled)
            .or_else(|| holder(&dedup.key))
    }

    pub(super) fn unbind(&mut self, tasks: &[(TaskId, Bond)], since: Moment) {
        for (id, bond) in tasks {
            let Some(task) = self.ids.get(id).and_then(|key| self.tasks.get_mut(key)) else {
                continue;
            };
            match bond {
                Bond::Desk => task.row.bound = None,
                Bond::Key => task.free(since),
            }
        }
    }

    fn insert(&mut self, task: Task) {
        let row = &task.row;
        let key = row.key;
        self.ids.insert(row.id.clone(), key);
        self.owners.entry(row.owner.clone()).or_default().insert(key);
        if let Some((parent, _)) = row.parent {
            self.children.entry(parent).or_default().insert(key);
        }
        self.expiries.extend(row.expires.map(|expires| (expires, key)));
        let counts = self.counts.entry(row.owner.clone()).or_default();
        *counts.entry(row.status).or_default() += 1;
        self.tasks.insert(key, task);
    }
}

fn build(key: TaskKey, new: NewTask) -> Task {
    let row = TaskRow {
        key,
        id: new.id,
        tool: new.tool,
        version: new.version,
        owner: new.owner,
        status: new.status,
        created: new.created,
        updated: new.created,
        ended: new.status.is_terminal().then_some(new.created),
        expires: new.expires,
        wake: None,
        parent: new.parent.map(|parent| (parent.key, parent.op)),
        desk: None,
        bound: None,
        epoch: 1,
        deaths: 0,
        tags: new.tags,
        about: new.about,
        view: new.view,
        end: None,
    };
    Task {
        row,
        // Nowhere yet: mail that was kept for it must not make it ready before it has its place.
        place: Place::Halted(None),
        tells: new.parent.is_some_and(|parent| parent.notify),
        dedup: new.dedup.map(|dedup| dedup.key),
        freed: None,
        history: new.events,
        inbox: BTreeMap::new(),
        last_seq: 0,
        notices: BTreeMap::new(),
        questions: Vec::new(),
        activities: BTreeMap::new(),
        watches: BTreeSet::new(),
    }
}
