//! The commands: one file per family. Each does all its checks before its first write.

mod activity;
mod adopt;
mod cancel;
mod check;
mod claim;
mod effect;
mod halt;
mod history;
mod mail;
mod session;
mod start;
mod sweep;
mod turn;

use steadfast_core::{Status, TaskId};
use steadfast_store::{Caller, Refusal};

use crate::{error::Fault, row, tx::Tx};

/// How a command ends.
pub(crate) type Done<T> = std::result::Result<T, Fault>;

/// Where tasks lie, as `task.desk` says it; NULL is parked, and anything above zero is a desk.
pub(crate) const HALTED: i64 = -1;
pub(crate) const READY: i64 = 0;

/// A claim looks at this many due tasks or activities at most, so that a million timers that ran out
/// while nobody was there don't make one endless transaction.
pub(crate) const DUE: i64 = 4096;

/// The status that a task is listed under; see [`schema`](crate::schema).
pub(crate) fn shelf(status: Status, held: bool) -> u8 {
    match status {
        Status::Running if held => Status::Completed as u8,
        other => other as u8,
    }
}

/// What most commands need to know of a task.
pub(crate) struct Found {
    pub(crate) key: i64,
    pub(crate) status: Status,
    pub(crate) desk: Option<i64>,
    pub(crate) wake: Option<i64>,
}

impl Tx<'_> {
    /// The task with this id, if it exists for this caller and has not expired.
    pub(crate) fn find(&self, caller: &Caller, id: &TaskId) -> Done<Found> {
        let sql = "SELECT key, status, desk, wake, owner, expires FROM task WHERE id = ?";
        let found = self.first(sql, [id.as_str()], |r| {
            let owner = r.get_ref(4)?.as_str()?;
            let seen = caller.principal.is_none() || row::owner(&caller.principal) == owner;
            let expired = r.get::<_, Option<i64>>(5)?.is_some_and(|at| at <= caller.now.0);
            let (desk, wake) = (r.get(2)?, r.get(3)?);
            let found = Found { key: r.get(0)?, status: row::status(r, 1)?, desk, wake };
            Ok(seen.then_some((found, expired)))
        })?;
        match found.flatten() {
            None => Err(Refusal::Unknown.into()),
            Some((_, true)) => Err(Refusal::Expired.into()),
            Some((found, false)) => Ok(found),
        }
    }

    /// The same, if it has not ended.
    pub(crate) fn find_open(&self, caller: &Caller, id: &TaskId) -> Done<Found> {
        let found = self.find(caller, id)?;
        if found.status.is_terminal() {
            return Err(Refusal::Terminal(found.status).into());
        }
        Ok(found)
    }

    /// Where a task stands, if it is there.
    pub(crate) fn status(&self, key: i64) -> rusqlite::Result<Option<Status>> {
        self.first("SELECT status FROM task WHERE key = ?", [key], |r| row::status(r, 0))
    }

    /// Whether a task is there and has not ended.
    pub(crate) fn is_open(&self, key: i64) -> rusqlite::Result<bool> {
        Ok(self.status(key)?.is_some_and(|status| !status.is_terminal()))
    }

    /// Puts a task on the ready pile, behind the others.
    pub(crate) fn put_ready(&mut self, key: i64) -> rusqlite::Result<()> {
        let rank = self.memory.number();
        let sql = "UPDATE task SET desk = 0, wake = NULL, rank = ?, shelf = status WHERE key = ?";
        self.alter(key, sql, [rank, key])?;
        Ok(())
    }

    /// Takes a task off its desk: to the ready pile, unless it is halted.
    pub(crate) fn give_back(&mut self, key: i64, status: Status) -> rusqlite::Result<()> {
        if status.is_halted() {
            let sql = "UPDATE task SET desk = -1, wake = NULL, shelf = status WHERE key = ?";
            self.alter(key, sql, [key])
        } else {
            self.put_ready(key)
        }
    }
}
