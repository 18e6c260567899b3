//! Activities of the tasks of a batch.

use std::collections::BTreeSet;

use steadfast_core::OpId;
use steadfast_store::{ActivityLease, Refusal};

use super::{ACTIVITIES, Done, Reach, Work};
use crate::error::Fault;

/// Where an activity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// With its number in the queue.
    Queue(i64),
    /// It waits for its next attempt.
    Due(i64),
    /// On a desk, or with somebody outside; alive until then.
    Busy(Option<i64>, Option<i64>),
}

impl At {
    /// As it is written: desk, rank and due.
    pub(super) fn columns(self) -> (Option<i64>, Option<i64>, Option<i64>) {
        match self {
            At::Queue(rank) => (Some(0), Some(rank), None),
            At::Due(due) => (Some(0), None, Some(due)),
            At::Busy(desk, until) => (desk, None, until),
        }
    }

    pub(super) fn read(desk: Option<i64>, rank: Option<i64>, due: Option<i64>) -> At {
        match (desk, rank, due) {
            (_, Some(rank), _) => At::Queue(rank),
            (Some(0), None, Some(due)) => At::Due(due),
            (desk, None, until) => At::Busy(desk, until),
        }
    }
}

/// What is written of a new one.
#[derive(Clone, Copy, Debug)]
pub(super) struct New<'b> {
    pub(super) name: &'b str,
    pub(super) token: &'b str,
    pub(super) body: &'b [u8],
}

#[derive(Debug)]
pub(crate) struct Activity<'b> {
    pub(crate) key: i64,
    pub(crate) task: i64,
    pub(crate) op: OpId,
    pub(crate) at: At,
    pub(crate) epoch: i64,
    pub(crate) attempt: i64,
    pub(super) dirty: bool,
    pub(super) gone: bool,
    pub(super) fresh: Option<New<'b>>,
}

impl<'b> Work<'b> {
    /// An activity that is held in this epoch.
    pub(crate) fn leased(&mut self, lease: ActivityLease) -> Done<&mut Activity<'b>> {
        if !self.needs.activities.contains(&lease.key) {
            self.missing.activities.insert(lease.key);
            return Err(Fault::Miss);
        }
        let found = self.activities.get_mut(&lease.key);
        let found = found.filter(|activity| !activity.gone && activity.epoch == lease.epoch);
        Ok(found.ok_or(Refusal::Fenced)?)
    }

    /// The numbers of a task's activities.
    pub(super) fn activities_of(&mut self, key: i64) -> Done<BTreeSet<i64>> {
        let known = self.needs.activities_of.contains(&key)
            || self.tasks.get(&key).is_none_or(|task| task.fresh.is_some());
        match (known, self.activities_of.get(&key)) {
            (true, found) => Ok(found.cloned().unwrap_or_default()),
            (false, _) => {
                self.missing.activities_of.insert(key);
                Err(Fault::Miss)
            }
        }
    }

    pub(crate) fn schedule(
        &mut self,
        task: i64,
        op: OpId,
        name: &'b str,
        token: &'b str,
        body: &'b [u8],
    ) -> Done<()> {
        let Some(key) = self.new_activity_keys.pop_front() else {
            self.missing.new_activities += 1;
            return Err(Fault::Miss);
        };
        let at = At::Queue(self.rank());
        let fresh = Some(New { name, token, body });
        let (epoch, attempt, dirty, gone) = (1, 1, false, false);
        let activity = Activity { key, task, op, at, epoch, attempt, dirty, gone, fresh };
        self.activities.insert(key, activity);
        self.activities_of.entry(task).or_default().insert(key);
        self.leaves(task, ACTIVITIES);
        self.calls();
        Ok(())
    }

    /// Moves one.
    pub(crate) fn put_activity(&mut self, key: i64, at: At) {
        if let Some(activity) = self.activities.get_mut(&key) {
            (activity.at, activity.dirty) = (at, true);
            match at {
                At::Queue(_) => self.calls(),
                At::Due(due) | At::Busy(_, Some(due)) => self.calls_at(due),
                At::Busy(_, None) => self.changed(),
            }
        }
    }

    /// Removes one, wherever it is.
    pub(crate) fn remove_activity(&mut self, key: i64, by: &mut Reach) {
        let Some(activity) = self.activities.get_mut(&key) else { return };
        activity.gone = true;
        let (task, at) = (activity.task, activity.at);
        if let Some(all) = self.activities_of.get_mut(&task) {
            all.remove(&key);
        }
        match at {
            At::Busy(Some(desk), _) if desk == self.desk => drop(by.cancelled.insert(key)),
            // Who runs it finds out by looking at what it holds.
            At::Busy(Some(desk), _) => self.calls_on(desk),
            At::Busy(None, _) | At::Queue(_) | At::Due(_) => {}
        }
        self.changed();
    }

    /// Removes the activity that an operation waits for.
    pub(crate) fn cancel_activity(&mut self, task: i64, op: OpId, by: &mut Reach) -> Done<()> {
        if self.tasks.get(&task).is_none_or(|task| task.traces & ACTIVITIES == 0) {
            return Ok(());
        }
        let all = self.activities_of(task)?;
        let of_op = |key: &i64| self.activities.get(key).is_some_and(|a| a.op == op);
        if let Some(key) = all.into_iter().find(of_op) {
            self.remove_activity(key, by);
        }
        Ok(())
    }
}
