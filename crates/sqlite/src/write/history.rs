//! Events, and what else a task's operations leave in the store.

use rusqlite::params;

use crate::{
    history::{self, Walk},
    memory::Tail,
    tx::{Reach, Tx},
};

/// So many events may lie at the end of the log that no tail leads to yet. Filing them costs a
/// little for each task that is then on a desk; looking for one that is not filed, a little for each
/// of them.
const LOOSE: i64 = 4096;

impl Tx<'_> {
    /// Appends events behind `tail`, and says where the history ends then. The task's row is not
    /// touched: whoever takes it off its desk writes its tail.
    pub(crate) fn append<'e>(
        &mut self,
        key: i64,
        tail: Tail,
        events: impl IntoIterator<Item = &'e [u8]>,
    ) -> rusqlite::Result<Tail> {
        let mut tail = tail;
        for body in events {
            let n = self.memory.event(key);
            let sql = "INSERT INTO event (n, task, seq, before, body) VALUES (?, ?, ?, ?, ?)";
            self.run(sql, params![n, key, tail.next, tail.last, body])?;
            tail = Tail { next: tail.next + 1, last: Some(n) };
        }
        Ok(tail)
    }

    /// Where a task's history ends.
    pub(crate) fn tail(&self, key: i64) -> rusqlite::Result<Tail> {
        match self.memory.card(key) {
            Some(card) => Ok(card.tail),
            None => history::tail(self.statements.conn, key),
        }
    }

    /// Brings all tails up to date, if it is time.
    pub(crate) fn file_if_due(&mut self) -> rusqlite::Result<()> {
        match self.memory.last_event() - self.memory.filed() >= LOOSE {
            true => self.file(),
            false => Ok(()),
        }
    }

    /// Brings all tails up to date, also those of tasks on other desks.
    pub(crate) fn file(&mut self) -> rusqlite::Result<()> {
        let mut ends = match self.memory.all_loose() {
            Some(loose) => loose,
            None => self.loose()?,
        };
        // In the order of their rows.
        ends.sort_unstable();
        for (task, last) in ends {
            // What is known of the task does not change by it.
            let sql = "UPDATE task SET tail = ?2 WHERE key = ?1 AND ifnull(tail, 0) < ?2";
            self.run(sql, [task, last])?;
        }
        #[cfg(debug_assertions)]
        for (task, last) in self.loose()? {
            let sql = "SELECT tail >= ? FROM task WHERE key = ?";
            let filed = self.first(sql, [last, task], |r| r.get::<_, bool>(0))?;
            assert_eq!(filed, Some(true), "task {task} was not filed");
        }
        self.memory.set_filed();
        Ok(())
    }

    /// The last event of each task at the end of the log.
    fn loose(&self) -> rusqlite::Result<Vec<(i64, i64)>> {
        let sql = "SELECT task, max(n) FROM event WHERE n > ? GROUP BY task";
        self.all(sql, [self.memory.filed()], |r| Ok((r.get(0)?, r.get(1)?)))
    }

    /// Removes a task's history.
    pub(crate) fn forget(&mut self, key: i64) -> rusqlite::Result<()> {
        for event in Walk::new(self.statements.conn, key)?.collect::<rusqlite::Result<Vec<_>>>()? {
            self.run("DELETE FROM event WHERE n = ?", [event.n])?;
        }
        self.memory.not_loose(key);
        self.alter(key, "UPDATE task SET tail = NULL WHERE key = ?", [key])
    }

    /// Whether a task has neither messages nor anything that its operations left.
    pub(crate) fn is_bare(&self, key: i64) -> rusqlite::Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM inbox WHERE task = ?1)
                   OR EXISTS (SELECT 1 FROM task WHERE key = ?1 AND asks IS NOT NULL)
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
        self.run("UPDATE task SET asks = NULL WHERE key = ? AND asks IS NOT NULL", [key])?;
        self.run("DELETE FROM watch WHERE task = ?", [key])?;
        let sql = "DELETE FROM activity WHERE task = ? RETURNING key, desk";
        let gone =
            self.all(sql, [key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)))?;
        let here = gone.into_iter().filter(|(_, desk)| *desk == Some(self.desk));
        by.cancelled.extend(here.map(|(activity, _)| activity));
        Ok(())
    }
}
