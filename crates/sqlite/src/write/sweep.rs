//! Removing what is over.

use std::collections::BTreeMap;

use rusqlite::params;
use steadfast_core::{TaskId, Timestamp};
use steadfast_store::{Caller, Refusal, Swept, task_scope};

use super::Done;
use crate::{
    row,
    tx::{Reach, Tx},
};

impl Tx<'_> {
    pub(crate) fn purge(&mut self, caller: &Caller, id: &TaskId) -> Done<()> {
        let found = self.find(caller, id)?;
        if !found.status.is_terminal() {
            return Err(Refusal::NotTerminal(found.status).into());
        }
        self.remove(found.key)?;
        Ok(())
    }

    pub(crate) fn sweep(&mut self, now: Timestamp, limit: usize) -> Done<Swept> {
        self.run("DELETE FROM kept WHERE until <= ?", [now.0])?;
        self.run("DELETE FROM session WHERE expires <= ?", [now.0])?;
        self.run("DELETE FROM notice WHERE until <= ?", [now.0])?;
        // Those that have ended and have something left to do are passed over.
        let sql = "SELECT key, id, status FROM task INDEXED BY task_expires
                   WHERE expires <= ? AND expires IS NOT NULL
                   AND (status < 7 OR desk = -1 OR (desk IS NULL AND wake IS NULL))
                   ORDER BY expires, key LIMIT ?";
        let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut due = self.all(sql, params![now.0, most], |r| {
            Ok((r.get::<_, i64>(0)?, row::id(r, 1)?, row::status(r, 2)?))
        })?;
        let more = due.len() > limit;
        due.truncate(limit);
        let mut swept = Swept { more, ..Swept::default() };
        for (key, id, status) in due {
            if status.is_terminal() {
                self.remove(key)?;
                swept.removed += 1;
            } else {
                swept.overdue.push(id);
            }
        }
        Ok(swept)
    }

    /// Removes a task with all that belongs to it.
    fn remove(&mut self, key: i64) -> rusqlite::Result<()> {
        // Whoever runs an activity of it finds out by asking what it still holds.
        self.clear(key, &mut Reach::default())?;
        self.forget(key)?;
        self.memory.removed(key);
        let sql = "DELETE FROM task WHERE key = ? RETURNING tags, id";
        let gone = self.first(sql, [key], |r| Ok((r.get(0)?, row::id(r, 1)?)))?;
        let Some((tags, id)): Option<(Option<String>, TaskId)> = gone else { return Ok(()) };
        self.run("DELETE FROM state WHERE scope = ?", [task_scope(&id)])?;
        let tags: BTreeMap<String, String> =
            tags.and_then(|tags| serde_json::from_str(&tags).ok()).unwrap_or_default();
        for (name, value) in tags {
            let sql = "DELETE FROM tag WHERE name = ? AND value = ? AND task = ?";
            self.run(sql, params![name, value, key])?;
        }
        Ok(())
    }
}
