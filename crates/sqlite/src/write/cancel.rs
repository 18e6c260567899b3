//! Cancelling a task.

use rusqlite::params;
use steadfast_core::{Status, TaskId};
use steadfast_store::{Caller, Cancel, Touched};

use super::Done;
use crate::tx::{Reach, Tx};

impl Tx<'_> {
    pub(crate) fn cancel(
        &mut self,
        caller: &Caller,
        id: &TaskId,
        cancel: &Cancel,
    ) -> Done<Vec<Touched>> {
        let found = self.find_open(caller, id)?;
        let mut reach = Reach::default();
        self.cancel_task(found.key, cancel, &mut reach)?;
        Ok(reach.touched())
    }

    /// Cancels a task that is there and has not ended.
    pub(crate) fn cancel_task(
        &mut self,
        key: i64,
        cancel: &Cancel,
        by: &mut Reach,
    ) -> rusqlite::Result<()> {
        self.clear(key, by)?;
        let tail = self.tail(key)?;
        let tail = self.append(key, tail, [cancel.event.as_slice()])?;
        self.memory.not_loose(key);
        let desk =
            self.first("SELECT desk FROM task WHERE key = ?", [key], |r| r.get(0))?.flatten();
        by.touch(key, desk == Some(self.desk));
        // Who holds it is to stop first; otherwise it is ready.
        let place = desk.filter(|desk| *desk > 0 && *desk != self.desk).unwrap_or(0);
        let rank = self.memory.number();
        let sql =
            "UPDATE task SET status = ?1, shelf = ?1, epoch = epoch + 1, deaths = 0, updated = ?2,
                   ended = ?2, expires = ?3, view = ?4, end = ?5, desk = ?6, wake = NULL, rank = ?7,
                   tail = ?8 WHERE key = ?9";
        self.alter(
            key,
            sql,
            params![
                Status::Cancelled as u8,
                cancel.at.0,
                cancel.expires.map(|at| at.0),
                cancel.view,
                cancel.end,
                place,
                rank,
                tail.last,
                key
            ],
        )?;
        if let Some(since) = cancel.frees {
            self.free_key(key, since.moment)?;
        }
        self.tell_parent(key, &cancel.tell, by)
    }
}
