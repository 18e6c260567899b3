//! A turn: checked as a whole, then applied without a way to fail.

use std::collections::BTreeMap;

use steadfast_core::Status;

use super::content::{Content, Place, Reach, Task};
use crate::{After, Desk, Effect, Error, Lease, Refusal, Result, TaskKey, Turn, Turned};

impl Task {
    pub(super) fn clear_inbox(&mut self) {
        self.inbox.clear();
        self.notices.clear();
    }

    fn consume(&mut self, upto: i64) {
        self.inbox = self.inbox.split_off(&upto.saturating_add(1));
        self.notices.retain(|_, seq| *seq > upto);
    }
}

impl Content {
    pub(super) fn turn(&mut self, turn: Turn, desk: Desk) -> Result<Turned> {
        self.check(&turn, desk)?;
        let key = turn.lease.key;
        let mut reach = Reach::of(desk);
        self.changed();
        if turn.restart {
            self.restart(key, &mut reach);
        }
        if let Some(task) = self.tasks.get_mut(&key) {
            if let Some(upto) = turn.consumed {
                task.consume(upto);
            }
            task.history.extend(turn.events);
        }
        self.edit(key, |row| {
            if let Some((status, view)) = turn.view {
                if row.status != Status::Suspended && !row.status.is_terminal() {
                    row.status = status;
                }
                row.view = view;
                row.updated = turn.at;
            }
            if turn.progress {
                row.deaths = 0;
            }
        });
        let mut activities = false;
        for effect in turn.effects {
            activities |= matches!(effect, Effect::ScheduleActivity { .. });
            self.apply(key, turn.at, effect, &mut reach);
        }
        activities &= !matches!(turn.after, After::End { .. });
        let ready = self.after(key, turn.at, turn.after, &mut reach);
        if self.tasks.get(&key).is_none_or(|task| task.place != Place::Desk(desk)) {
            reach.touched.remove(&key);
        }
        Ok(Turned {
            touched: reach.touched(),
            activities,
            cancelled: reach.cancelled.into_iter().collect(),
            ready,
        })
    }

    fn holder(&self, lease: Lease, desk: Desk) -> Result<&Task> {
        let held = |task: &&Task| {
            let held = task.place == Place::Desk(desk) && task.row.epoch == lease.epoch;
            #[cfg(feature = "mutants")]
            let held = held || self.skip_fence;
            held
        };
        Ok(self.tasks.get(&lease.key).filter(held).ok_or(Refusal::Fenced)?)
    }

    /// Everything that can refuse a turn.
    fn check(&self, turn: &Turn, desk: Desk) -> Result<()> {
        let task = self.holder(turn.lease, desk)?;
        let next = if turn.restart { 0 } else { task.history.len() as u64 };
        if !turn.events.is_empty() && turn.first != next {
            let text = format!("event {} was given where {next} comes next", turn.first);
            return Err(Error::Corrupt(text));
        }
        let status = task.row.status;
        if status.is_terminal() && matches!(turn.after, After::End { .. }) {
            return Err(Refusal::Terminal(status).into());
        }
        // Each effect sees those before it, so what they change is followed here.
        let open = task.questions.iter().filter(|_| !turn.restart);
        let mut open: BTreeMap<&str, bool> = open.map(|open| (open.key.as_str(), true)).collect();
        let mut written: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for effect in &turn.effects {
            match effect {
                Effect::OpenQuestion { key, .. } => {
                    open.insert(key, true);
                }
                Effect::CloseQuestion { key } => {
                    open.insert(key, false);
                }
                Effect::ExpireQuestion { op, key } => match open.insert(key, false) {
                    Some(true) => {}
                    _ => return Err(Refusal::Guard(*op).into()),
                },
                Effect::WriteState { scope, key, .. } => {
                    *written.entry((scope, key)).or_default() += 1;
                }
                Effect::SwapState { op, scope, key, expect, .. } => {
                    let more = written.entry((scope, key)).or_default();
                    let stored = self.states.get(&(scope.clone(), key.clone()));
                    if stored.map_or(0, |row| row.version) + *more != *expect {
                        return Err(Refusal::Guard(*op).into());
                    }
                    *more += 1;
                }
                Effect::StartTask { task, .. } if task.parent.is_none() => {
                    return Err(Error::Corrupt(format!("child {} has no parent", task.id)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the history and what its operations left.
    fn restart(&mut self, key: TaskKey, by: &mut Reach) {
        self.strip(key, by);
        if let Some(task) = self.tasks.get_mut(&key) {
            task.history.clear();
            // Notices are for watches, and those are gone too.
            for (_, notice) in std::mem::take(&mut task.notices) {
                task.inbox.remove(&notice);
            }
            task.inbox.retain(|_, row| row.op.is_none());
        }
        for child in self.children.get(&key).into_iter().flatten() {
            if let Some(child) = self.tasks.get_mut(child) {
                child.tells = false;
            }
        }
    }

    /// Deals with the lease. Whether the task was to be parked and is ready instead.
    fn after(
        &mut self,
        key: TaskKey,
        at: steadfast_core::Timestamp,
        after: After,
        by: &mut Reach,
    ) -> bool {
        let Some(task) = self.tasks.get_mut(&key) else { return false };
        match after {
            After::Keep => {}
            After::Yield => self.give_back(key),
            After::Park { .. } if task.row.status.is_halted() => self.put(key, Place::Halted(None)),
            After::Park { .. } if !task.inbox.is_empty() => {
                self.put_ready(key);
                return true;
            }
            After::Park { wake } => self.put(key, Place::Parked(wake)),
            After::End { status, expires, end, tell, keep } => {
                task.clear_inbox();
                self.strip(key, by);
                self.edit(key, |row| {
                    row.status = status;
                    row.updated = at;
                    row.ended = Some(at);
                    row.expires = expires;
                    row.end = Some(end);
                });
                if keep {
                    by.touched.remove(&key);
                } else {
                    self.put(key, Place::Parked(None));
                }
                self.tell_parent(key, tell, by);
            }
        }
        false
    }
}
