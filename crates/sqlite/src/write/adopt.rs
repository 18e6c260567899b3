//! Giving back what lies on a desk: on closing, and after a death.

use rusqlite::params;
use steadfast_core::Status;
use steadfast_store::{Adopted, Desk, Poison};

use super::Done;
use crate::{row, tx::Tx};

impl Tx<'_> {
    pub(crate) fn close(&mut self) -> Done<()> {
        self.file()?;
        for (key, status, _) in self.on_desk(self.desk)? {
            self.alter(key, "UPDATE task SET epoch = epoch + 1 WHERE key = ?", [key])?;
            self.give_back(key, status)?;
        }
        self.requeue_desk(self.desk, false)?;
        Ok(())
    }

    pub(crate) fn adopt(&mut self, dead: Desk, poison: &Poison) -> Done<Adopted> {
        let mut adopted = Adopted::default();
        if self.desks.is_alive(dead.0) {
            return Ok(adopted);
        }
        self.file()?;
        for (key, status, deaths) in self.on_desk(dead.0)? {
            let deaths = deaths.saturating_add(1);
            let sql = "UPDATE task SET epoch = epoch + 1, deaths = ? WHERE key = ?";
            self.alter(key, sql, params![deaths, key])?;
            if status.is_halted() {
                self.give_back(key, status)?;
            } else if deaths < poison.deaths {
                adopted.ready += 1;
                self.put_ready(key)?;
            } else {
                adopted.poisoned += 1;
                self.set_aside(key, status, poison)?;
            }
        }
        adopted.activities = self.requeue_desk(dead.0, true)?;
        Ok(adopted)
    }

    fn set_aside(&mut self, key: i64, status: Status, poison: &Poison) -> rusqlite::Result<()> {
        let sql = "UPDATE task SET desk = -1, wake = NULL, shelf = status WHERE key = ?";
        self.alter(key, sql, [key])?;
        if !status.is_terminal() {
            let sql = "UPDATE task SET status = ?1, shelf = ?1, view = ?2, updated = ?3
                       WHERE key = ?4";
            self.alter(key, sql, params![Status::Stuck as u8, poison.view, poison.at.0, key])?;
        }
        Ok(())
    }

    fn on_desk(&self, desk: i64) -> rusqlite::Result<Vec<(i64, Status, u32)>> {
        let sql = "SELECT key, status, deaths FROM task WHERE desk = ? AND desk > 0 ORDER BY key";
        self.all(sql, [desk], |r| Ok((r.get(0)?, row::status(r, 1)?, r.get(2)?)))
    }

    fn requeue_desk(&mut self, desk: i64, died: bool) -> rusqlite::Result<u64> {
        let sql = "SELECT key FROM activity WHERE desk = ? AND desk > 0 ORDER BY key";
        let keys: Vec<i64> = self.all(sql, [desk], |r| r.get(0))?;
        for key in &keys {
            self.requeue(*key, true, died)?;
        }
        Ok(keys.len() as u64)
    }
}
