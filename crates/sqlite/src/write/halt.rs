//! Halting a task, and letting it go on.

use rusqlite::params;
use steadfast_core::{Status, TaskId};
use steadfast_store::{Caller, Refusal, Resume, Suspend, Touched};

use super::{Done, HALTED, shelf};
use crate::tx::Tx;

impl Tx<'_> {
    pub(crate) fn suspend(
        &mut self,
        caller: &Caller,
        id: &TaskId,
        suspend: &Suspend,
    ) -> Done<Touched> {
        let found = self.find_open(caller, id)?;
        if found.status == Status::Suspended {
            return Err(Refusal::WrongStatus(found.status).into());
        }
        let held = found.desk.is_some_and(|desk| desk > 0);
        let unbegun = found.desk.is_none() && found.status == Status::Queued;
        let wake = found.wake.filter(|_| unbegun);
        let desk = if held { found.desk } else { Some(HALTED) };
        let sql = "UPDATE task SET status = ?1, shelf = ?1, view = ?2, updated = ?3, desk = ?4,
                   wake = ?5 WHERE key = ?6";
        let status = Status::Suspended as u8;
        let key = found.key;
        self.alter(key, sql, params![status, suspend.view, suspend.at.0, desk, wake, key])?;
        Ok(self.touched(found.key, found.desk))
    }

    pub(crate) fn resume(
        &mut self,
        caller: &Caller,
        id: &TaskId,
        resume: &Resume,
    ) -> Done<Touched> {
        let found = self.find_open(caller, id)?;
        if !found.status.is_halted() {
            return Err(Refusal::WrongStatus(found.status).into());
        }
        let held = found.desk.is_some_and(|desk| desk > 0);
        let start = found.wake.filter(|start| *start > resume.at.0 && !held);
        let status = if start.is_some() { Status::Queued } else { Status::Running };
        let sql = "UPDATE task SET status = ?, shelf = ?, view = ?, updated = ?, deaths = 0
                   WHERE key = ?";
        let (key, shelf) = (found.key, shelf(status, held));
        self.alter(key, sql, params![status as u8, shelf, resume.view, resume.at.0, key])?;
        match (held, start) {
            (true, _) => {}
            // It has not begun, and keeps its wake.
            (false, Some(_)) => {
                self.alter(key, "UPDATE task SET desk = NULL WHERE key = ?", [key])?;
            }
            (false, None) => self.put_ready(key)?,
        }
        Ok(self.touched(found.key, found.desk))
    }
}
