//! What processes have in their hands, given out as if they had died.

use super::{Body, Parent, Place, Record, Task};
use crate::TaskRow;

/// Where its row says that a task lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// Nowhere; it may have a wake.
    Parked,
    /// On the ready pile.
    Ready {
        /// Its place there.
        rank: i64,
    },
    /// On the desk of a process.
    Desk(i64),
    /// Halted, or set aside.
    Halted,
}

/// Puts what lies on desks where an adoption would leave it, so that a file has no desks.
pub struct Hands<'s> {
    is_alive: Box<dyn FnMut(i64) -> bool + Send + 's>,
    last: i64,
}

impl<'s> Hands<'s> {
    /// With who is alive, which counts only for a backup of what somebody is at, and the last of the numbers
    /// that the store has given places by.
    pub fn new(last: i64, is_alive: impl FnMut(i64) -> bool + Send + 's) -> Hands<'s> {
        Hands { is_alive: Box::new(is_alive), last }
    }

    /// How many died with what lies on this desk.
    pub fn deaths(&mut self, desk: i64) -> u32 {
        u32::from(!(self.is_alive)(desk))
    }

    /// A place behind all others.
    pub fn rank(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    /// The record of a task, with what the store has in its row besides.
    pub fn task(&mut self, row: TaskRow, lies: Lies, tells: bool, dedup: Option<String>) -> Record {
        let (mut epoch, mut deaths) = (row.epoch, row.deaths);
        let place = match lies {
            Lies::Parked => Place::Parked { wake: row.wake },
            Lies::Ready { rank } => Place::Ready { rank },
            Lies::Halted => Place::Halted { wake: row.wake },
            Lies::Desk(desk) => {
                epoch += 1;
                deaths = deaths.saturating_add(self.deaths(desk));
                match row.status.is_halted() {
                    true => Place::Halted { wake: None },
                    false => Place::Ready { rank: self.rank() },
                }
            }
        };
        Record::Task(Box::new(Task {
            key: row.key.0,
            id: row.id,
            tool: row.tool,
            version: row.version,
            owner: row.owner,
            status: row.status,
            created: row.created,
            updated: row.updated,
            ended: row.ended,
            expires: row.expires,
            place,
            parent: row.parent.map(|(key, op)| Parent { key: key.0, op, tells }),
            dedup,
            bound: row.bound.is_some(),
            epoch,
            deaths,
            tags: row.tags,
            about: Body(row.about),
            view: Body(row.view),
            end: row.end.map(Body),
        }))
    }
}
