//! Removing what is over.

use std::ops::ControlFlow;

use steadfast_core::{TaskId, Timestamp};

use super::content::{Content, Place};
use crate::{Caller, Refusal, Result, Swept};

impl Content {
    pub(super) fn purge(&mut self, caller: &Caller, id: &TaskId) -> Result<()> {
        let key = self.find(caller, id)?;
        match self.task(key)?.row.status {
            status if !status.is_terminal() => Err(Refusal::NotTerminal(status).into()),
            _ => {
                self.remove(key);
                Ok(())
            }
        }
    }

    pub(super) fn sweep(&mut self, now: Timestamp, limit: usize) -> Swept {
        self.sweep_sessions(now);
        if self.kept.sweep(now) | self.notices.sweep(now) {
            self.changed();
        }
        let mut swept = Swept::default();
        let mut gone = Vec::new();
        let due = self.expiries.iter().take_while(|(expires, _)| *expires <= now);
        let _ = due.filter_map(|(_, key)| self.tasks.get(key)).try_for_each(|task| {
            let over = matches!(task.place, Place::Parked(None) | Place::Halted(_));
            if task.row.status.is_terminal() && !over {
                return ControlFlow::Continue(());
            }
            if gone.len() + swept.overdue.len() >= limit {
                swept.more = true;
                return ControlFlow::Break(());
            }
            match task.row.status.is_terminal() {
                true => gone.push(task.row.key),
                false => swept.overdue.push(task.row.id.clone()),
            }
            ControlFlow::Continue(())
        });
        for key in gone {
            self.remove(key);
            swept.removed += 1;
        }
        swept
    }
}
