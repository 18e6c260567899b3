//! Events, and what else a task's operations leave in the store.

use rusqlite::params;

use crate::{
    memory::Tail,
    schema::SEGMENT_BITS,
    tx::{Reach, Tx},
};

impl Tx<'_> {
    /// Where a task's history ends.
    pub(crate) fn tail(&self, key: i64) -> rusqlite::Result<Tail> {
        let sql = "SELECT segment, (SELECT max(e.seq) FROM event e
                                    WHERE e.segment = s.segment AND e.task = s.task)
                   FROM span s WHERE s.task = ? ORDER BY s.first DESC LIMIT 1";
        let tail = self.first(sql, [key], |row| {
            let last: Option<i64> = row.get(1)?;
            Ok(Tail { segment: row.get(0)?, next: last.map_or(0, |last| last + 1) })
        })?;
        Ok(tail.unwrap_or_default())
    }

    /// Appends events behind `tail`, and says where the history ends then.
    pub(crate) fn append<'e>(
        &mut self,
        key: i64,
        tail: Tail,
        events: impl IntoIterator<Item = &'e [u8]>,
    ) -> rusqlite::Result<Tail> {
        let Tail { mut next, segment: mut last } = tail;
        for body in events {
            let n = self.memory.event();
            let segment = n >> SEGMENT_BITS;
            if last != Some(segment) {
                let sql = "INSERT INTO span (task, first, segment) VALUES (?, ?, ?)";
                self.run(sql, [key, next, segment])?;
                last = Some(segment);
            }
            let sql = "INSERT INTO event (n, segment, task, seq, body) VALUES (?, ?, ?, ?, ?)";
            self.run(sql, params![n, segment, key, next, body])?;
            next += 1;
        }
        Ok(Tail { next, segment: last })
    }

    /// Removes a task's history.
    pub(crate) fn forget(&mut self, key: i64) -> rusqlite::Result<()> {
        let sql = "SELECT segment FROM span WHERE task = ?";
        for segment in self.all(sql, [key], |row| row.get::<_, i64>(0))? {
            self.run("DELETE FROM event WHERE segment = ? AND task = ?", [segment, key])?;
        }
        self.run("DELETE FROM span WHERE task = ?", [key])?;
        Ok(())
    }

    /// Whether a task has neither messages nor anything that its operations left.
    pub(crate) fn is_bare(&self, key: i64) -> rusqlite::Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM inbox WHERE task = ?1)
                   OR EXISTS (SELECT 1 FROM question WHERE task = ?1)
                   OR EXISTS (SELECT 1 FROM watch WHERE task = ?1)
                   OR EXISTS (SELECT 1 FROM activity WHERE task = ?1)";
        Ok(!self.first(sql, [key], |row| row.get(0))?.unwrap_or(false))
    }

    /// Removes a task's messages and what its operations left. Most tasks have nothing of it, and
    /// looking is much cheaper than four statements that could delete.
    pub(crate) fn clear(&self, key: i64, by: &mut Reach) -> rusqlite::Result<()> {
        if !self.is_bare(key)? {
            self.run("DELETE FROM inbox WHERE task = ?", [key])?;
            self.strip(key, by)?;
        }
        Ok(())
    }

    /// Removes what a task's operations left in the store, but for messages.
    pub(crate) fn strip(&self, key: i64, by: &mut Reach) -> rusqlite::Result<()> {
        self.run("DELETE FROM question WHERE task = ?", [key])?;
        self.run("DELETE FROM watch WHERE task = ?", [key])?;
        let sql = "DELETE FROM activity WHERE task = ? RETURNING key, desk";
        let gone =
            self.all(sql, [key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)))?;
        let here = gone.into_iter().filter(|(_, desk)| *desk == Some(self.desk));
        by.cancelled.extend(here.map(|(activity, _)| activity));
        Ok(())
    }
}
