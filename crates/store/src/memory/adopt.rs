//! Desks: those that died, and giving back what lies on one.

use std::collections::BTreeSet;

use steadfast_core::Status;

use super::content::{Content, Place};
use crate::{Adopted, Desk, Held, Lease, Poison, TaskKey};

impl Content {
    pub(super) fn dead(&self) -> Vec<Desk> {
        let busy: BTreeSet<Desk> =
            self.desks.keys().copied().chain(self.activities.desks()).collect();
        busy.into_iter().filter(|desk| self.is_dead(*desk)).collect()
    }

    pub(super) fn held(&self, desk: Desk) -> Vec<Held> {
        let tasks = self.on_desk(desk).into_iter().filter_map(|key| self.tasks.get(&key));
        tasks
            .map(|task| Held {
                lease: Lease { key: task.row.key, epoch: task.row.epoch },
                status: task.row.status,
                mail: task.inbox.last_key_value().map(|(seq, _)| *seq),
            })
            .collect()
    }

    pub(super) fn close(&mut self, desk: Desk) {
        for key in self.on_desk(desk) {
            self.edit(key, |row| row.epoch += 1);
            self.give_back(key);
        }
        if self.activities.give_back(desk, false) > 0 {
            self.changed();
        }
    }

    pub(super) fn adopt(&mut self, dead: Desk, poison: &Poison) -> Adopted {
        let mut adopted = Adopted::default();
        if !self.is_dead(dead) {
            return adopted;
        }
        for key in self.on_desk(dead) {
            self.edit(key, |row| {
                row.epoch += 1;
                row.deaths = row.deaths.saturating_add(1);
            });
            let Some(task) = self.tasks.get(&key) else { continue };
            let status = task.row.status;
            if status.is_halted() {
                self.put(key, Place::Halted(None));
            } else if task.row.deaths < poison.deaths {
                adopted.ready += 1;
                self.put_ready(key);
            } else {
                adopted.poisoned += 1;
                self.put(key, Place::Halted(None));
                if !status.is_terminal() {
                    self.edit(key, |row| {
                        row.status = Status::Stuck;
                        row.view.clone_from(&poison.view);
                        row.updated = poison.at;
                    });
                }
            }
        }
        adopted.activities = self.activities.give_back(dead, true);
        if adopted.activities > 0 {
            self.changed();
        }
        adopted
    }

    fn on_desk(&self, desk: Desk) -> Vec<TaskKey> {
        self.desks.get(&desk).into_iter().flatten().copied().collect()
    }
}
