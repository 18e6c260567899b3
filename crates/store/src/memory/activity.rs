//! Activities: their queue and their life.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::{OpId, Timestamp};

use super::content::{Content, Reach, unlist};
use crate::{
    ActivityEnd, ActivityLease, ActivityRow, ClaimActivities, Desk, Refusal, Result, Retried,
    TaskKey, TaskRow, Touched,
};

/// Where an activity is.
#[derive(Clone, Copy, Debug)]
enum At {
    /// With its number in the queue.
    Queue(u64),
    /// It waits for its next attempt.
    Due(Timestamp),
    /// On a desk, or with somebody outside; alive until then.
    Busy(Option<Desk>, Option<Timestamp>),
}

#[derive(Debug)]
struct Activity {
    /// Its `desk` follows `at`.
    row: ActivityRow,
    at: At,
}

#[derive(Debug, Default)]
pub(super) struct Activities {
    all: BTreeMap<i64, Activity>,
    tokens: BTreeMap<String, i64>,
    queues: BTreeMap<String, BTreeSet<(u64, i64)>>,
    /// Next attempts and heartbeats: when somebody must look at it again.
    dues: BTreeSet<(Timestamp, i64)>,
    desks: BTreeMap<Desk, BTreeSet<i64>>,
    last: i64,
    last_queued: u64,
}

impl Activities {
    pub(super) fn desks(&self) -> impl Iterator<Item = Desk> {
        self.desks.keys().copied()
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.dues.first().map(|(due, _)| *due)
    }

    pub(super) fn schedule(
        &mut self,
        task: &TaskRow,
        op: OpId,
        name: String,
        token: String,
        body: Vec<u8>,
    ) -> i64 {
        self.last += 1;
        let key = self.last;
        let (task, task_id) = (task.key, task.id.clone());
        let row = ActivityRow {
            key,
            epoch: 1,
            task,
            task_id,
            op,
            name,
            attempt: 1,
            token,
            body,
            desk: None,
        };
        self.tokens.insert(row.token.clone(), key);
        self.all.insert(key, Activity { row, at: At::Busy(None, None) });
        self.requeue(key);
        key
    }

    /// Removes one, and says on whose desk it was.
    pub(super) fn remove(&mut self, key: i64) -> Option<Desk> {
        let desk = self.all.get(&key)?.row.desk;
        self.put(key, At::Busy(None, None));
        let gone = self.all.remove(&key)?;
        self.tokens.remove(&gone.row.token);
        desk
    }

    /// Puts what lies on a desk back into the queue. How many those are.
    pub(super) fn give_back(&mut self, desk: Desk, died: bool) -> u64 {
        let keys: Vec<i64> = self.desks.get(&desk).into_iter().flatten().copied().collect();
        for key in &keys {
            self.change_hands(*key, died);
            self.requeue(*key);
        }
        keys.len() as u64
    }

    fn change_hands(&mut self, key: i64, attempt: bool) {
        if let Some(activity) = self.all.get_mut(&key) {
            activity.row.epoch += 1;
            activity.row.attempt = activity.row.attempt.saturating_add(u32::from(attempt));
        }
    }

    fn requeue(&mut self, key: i64) {
        self.last_queued += 1;
        self.put(key, At::Queue(self.last_queued));
    }

    /// Moves an activity, and every index of where activities are with it.
    fn put(&mut self, key: i64, at: At) {
        let Some(activity) = self.all.get_mut(&key) else { return };
        let row = &mut activity.row;
        match activity.at {
            At::Queue(number) => unlist(&mut self.queues, &row.name, &(number, key)),
            At::Due(due) => drop(self.dues.remove(&(due, key))),
            At::Busy(desk, until) => {
                if let Some(desk) = desk {
                    unlist(&mut self.desks, &desk, &key);
                }
                if let Some(until) = until {
                    self.dues.remove(&(until, key));
                }
            }
        }
        row.desk = None;
        match at {
            At::Queue(number) => {
                self.queues.entry(row.name.clone()).or_default().insert((number, key));
            }
            At::Due(due) => drop(self.dues.insert((due, key))),
            At::Busy(desk, until) => {
                if let Some(desk) = desk {
                    self.desks.entry(desk).or_default().insert(key);
                }
                self.dues.extend(until.map(|until| (until, key)));
                row.desk = desk;
            }
        }
        activity.at = at;
    }

    fn leased(&self, lease: ActivityLease) -> Result<&Activity> {
        let activity = self.all.get(&lease.key).filter(|a| a.row.epoch == lease.epoch);
        Ok(activity.ok_or(Refusal::Fenced)?)
    }
}

impl Content {
    pub(super) fn claim_activities(
        &mut self,
        claim: &ClaimActivities,
        desk: Desk,
    ) -> Vec<ActivityRow> {
        let pool = &mut self.activities;
        let mut changed = false;
        while let Some((_, key)) = pool.dues.first().copied().filter(|(due, _)| *due <= claim.now) {
            changed = true;
            if matches!(pool.all.get(&key), Some(Activity { at: At::Busy(..), .. })) {
                pool.change_hands(key, true);
            }
            pool.requeue(key);
        }
        let names: BTreeSet<&String> = claim.names.iter().collect();
        let mut claimed = Vec::new();
        while claimed.len() < claim.limit {
            let heads = names.iter().filter_map(|name| pool.queues.get(*name)?.first());
            let Some((_, key)) = heads.min().copied() else { break };
            pool.change_hands(key, false);
            pool.put(key, At::Busy(Some(desk), None));
            claimed.extend(pool.all.get(&key).map(|activity| activity.row.clone()));
        }
        if changed || !claimed.is_empty() {
            self.changed();
        }
        claimed
    }

    pub(super) fn end_activity(&mut self, end: ActivityEnd, desk: Desk) -> Result<Touched> {
        let row = &self.activities.leased(end.lease)?.row;
        let (task, op) = (row.task, row.op);
        self.activities.remove(end.lease.key);
        if let Some(task) = self.tasks.get_mut(&task) {
            task.activities.remove(&op);
        }
        Ok(self.report(task, op, end.body, desk))
    }

    pub(super) fn retry_activity(&mut self, retried: Retried, desk: Desk) -> Result<Touched> {
        let row = &self.activities.leased(retried.lease)?.row;
        let (task, op) = (row.task, row.op);
        self.activities.change_hands(retried.lease.key, true);
        self.activities.put(retried.lease.key, At::Due(retried.due));
        Ok(self.report(task, op, retried.body, desk))
    }

    pub(super) fn beat_activity(
        &mut self,
        lease: ActivityLease,
        until: Option<Timestamp>,
        release: bool,
    ) -> Result<()> {
        let activity = self.activities.leased(lease)?;
        let at = match activity.at {
            At::Busy(desk, _) => At::Busy(desk.filter(|_| !release), until),
            // Nobody runs it, so there is nothing to keep alive. Somebody outside may take it over.
            _ if release => At::Busy(None, until),
            at => at,
        };
        self.activities.put(lease.key, at);
        self.changed();
        Ok(())
    }

    pub(super) fn activity(&self, token: &str) -> Option<ActivityRow> {
        let key = self.activities.tokens.get(token)?;
        self.activities.all.get(key).map(|activity| activity.row.clone())
    }

    pub(super) fn held_activities(&self, desk: Desk) -> Vec<ActivityLease> {
        let keys = self.activities.desks.get(&desk).into_iter().flatten();
        let rows = keys.filter_map(|key| self.activities.all.get(key).map(|held| &held.row));
        rows.map(|row| ActivityLease { key: row.key, epoch: row.epoch }).collect()
    }

    fn report(&mut self, task: TaskKey, op: OpId, body: Vec<u8>, desk: Desk) -> Touched {
        let mut reach = Reach::of(desk);
        self.deliver(task, Some(op), body, &mut reach);
        Touched { key: task, here: reach.touched.get(&task).is_some_and(|here| *here) }
    }
}
