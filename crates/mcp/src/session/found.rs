//! Requests of a session that have found by their idempotency key a task that another request made.

use std::collections::BTreeMap;

use steadfast_core::TaskId;

use super::{MANY, Session, State};
use crate::wire::Id;

/// How many of them are remembered over a restart, and how long their ids may be: it is the client who names
/// them. Those beyond can be taken back as long as this process lives.
const REMEMBERED: usize = 256;
const LONGEST: usize = 512;

/// A task that a request has found, and not made.
pub(super) struct Attached {
    task: TaskId,
    taken_back: bool,
}

impl State {
    /// The task of each such request, for the store.
    pub(super) fn found(&self) -> BTreeMap<String, String> {
        let names = self.attached.iter().filter_map(|(id, one)| {
            let name = serde_json::to_string(id).ok().filter(|name| name.len() <= LONGEST)?;
            Some((name, one.task.as_str().to_owned()))
        });
        let mut found: BTreeMap<String, String> = names.collect();
        while found.len() > REMEMBERED {
            found.pop_first();
        }
        found
    }

    /// These are in the store.
    pub(super) fn remember_found(&mut self, found: &BTreeMap<String, String>) {
        for (name, task) in found {
            if let (Ok(id), Ok(task)) = (serde_json::from_str(name), TaskId::new(task.as_str())) {
                self.attached.entry(id).or_insert(Attached { task, taken_back: false });
            }
        }
    }
}

impl Session {
    /// A request has found by its idempotency key the task of another.
    pub(crate) fn attach(&self, id: &Id, task: &TaskId) {
        let mut state = self.state();
        if state.attached.len() > MANY {
            state.attached.clear();
        }
        let attached = Attached { task: task.clone(), taken_back: false };
        state.attached.entry(id.clone()).or_insert(attached);
    }

    pub(crate) fn is_attached(&self, id: &Id, task: &TaskId) -> bool {
        self.state().attached.get(id).is_some_and(|attached| attached.task == *task)
    }

    /// The client takes a request back that may have found a task so: that task.
    pub(crate) fn take_back(&self, id: &Id) -> Option<TaskId> {
        let mut state = self.state();
        let attached = state.attached.get_mut(id)?;
        attached.taken_back = true;
        Some(attached.task.clone())
    }

    /// Whether the client has done so.
    pub(crate) fn has_taken_back(&self, id: &Id, task: &TaskId) -> bool {
        let state = self.state();
        state.attached.get(id).is_some_and(|one| one.taken_back && one.task == *task)
    }
}
