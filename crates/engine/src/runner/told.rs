//! What a running task does when it is told that something happened to it.

use std::time::Duration;

use super::{Frozen, Nudge, Runner, Then, park};
use crate::blob;

impl Runner {
    /// What it was told before it begins. One that is to be held back does not even begin.
    pub(super) async fn told_before(&mut self) -> Option<Then> {
        let why = self.nudge.take();
        if let Some(then) = self.nudged(why).await {
            return Some(then);
        }
        self.frozen?;
        park::hand_back(&self.core, self.lease).await;
        Some(Then::Nothing)
    }

    pub(super) async fn nudged(&mut self, mut why: u8) -> Option<Then> {
        if why & Nudge::LOOK != 0 {
            why |= self.look().await;
        }
        if why & Nudge::LOST != 0 {
            // Cancelled, or taken over: whatever is in flight must stop now.
            self.shared.cancel.cancel();
            if self.commit.is_some() {
                // It may have come first, and then others must hear what it did.
                self.nudge.set_doubt();
            }
            return Some(Then::Nothing);
        }
        if why & Nudge::DRAIN != 0 && self.frozen.is_none() {
            self.freeze(Frozen::GoingDown);
        }
        if why & Nudge::HALT != 0 && self.frozen.is_none() {
            self.freeze(Frozen::Suspended);
        }
        if why & Nudge::MAIL != 0 && !self.returned {
            match self.core.store.inbox(self.lease.key, self.applied).await {
                Ok(rows) => {
                    for row in &rows {
                        if self.shared.machine().is_live() {
                            self.apply(row);
                        } else {
                            self.mail.push(row.clone());
                        }
                    }
                    if !self.hold {
                        self.start_steps();
                    }
                }
                Err(error) => {
                    tracing::warn!(task = %self.shared.id, %error, "can't read the inbox; again soon");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    self.nudge.set(Nudge::MAIL);
                }
            }
        }
        None
    }

    /// What happened to the task.
    async fn look(&mut self) -> u8 {
        match self.core.store.row(self.lease.key).await {
            Ok(Some(row)) if row.epoch == self.lease.epoch => {
                let halted = row.status.is_halted();
                self.row.bound = row.bound;
                self.reason = blob::read_view(&row.view).reason.filter(|_| halted);
                Nudge::MAIL | if halted { Nudge::HALT } else { 0 }
            }
            Ok(row) => {
                if row.is_some_and(|row| row.desk == Some(self.core.store.desk())) {
                    // Cancelled elsewhere: it lies here until we have let go of it.
                    self.nudge.set_doubt();
                }
                Nudge::LOST
            }
            Err(error) => {
                tracing::warn!(task = %self.shared.id, %error, "can't read a task; again soon");
                tokio::time::sleep(Duration::from_millis(50)).await;
                self.nudge.set(Nudge::LOOK);
                0
            }
        }
    }

    pub(super) fn freeze(&mut self, why: Frozen) {
        self.frozen = Some(why);
        self.shared.machine().freeze();
    }
}
