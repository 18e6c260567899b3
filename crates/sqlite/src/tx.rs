//! What a command works with: the open transaction of its batch.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, Params, Row};
use steadfast_store::{TaskKey, Touched};

use crate::desk::Desks;

/// The open transaction of a batch.
pub(crate) struct Tx<'a> {
    pub(crate) conn: &'a Connection,
    /// This handle's desk.
    pub(crate) desk: i64,
    pub(crate) desks: &'a Desks,
    pub(crate) counters: &'a mut Counters,
    /// The owner whose task was claimed last, so that the next claim begins with the next owner.
    pub(crate) served: &'a mut Option<String>,
}

impl Tx<'_> {
    /// Runs a statement, and says how many rows it changed.
    pub(crate) fn run(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.conn.prepare_cached(sql)?.execute(params)
    }

    /// The first row of a query, if there is one.
    pub(crate) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.conn.prepare_cached(sql)?.query_row(params, read).optional()
    }

    /// All rows of a query.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        all(self.conn, sql, params, read)
    }
}

/// All rows of a query.
pub(crate) fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    conn.prepare_cached(sql)?.query_map(params, read)?.collect()
}

/// Numbers that never go back. They are read once, and written once per batch that used them:
/// cheaper than what AUTOINCREMENT does for every row.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    loaded: bool,
    dirty: bool,
    task: i64,
    number: i64,
    event: i64,
    /// Where the histories of tasks end that were written to lately: a running task writes again
    /// soon, and looking it up is a quarter of the work of a small turn.
    tails: HashMap<i64, Tail>,
}

/// So many ends of histories are remembered at most.
const TAILS: usize = 16_384;

/// Where a history ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    /// The number of the next event.
    pub(crate) next: i64,
    /// The segment of the last.
    pub(crate) segment: Option<i64>,
}

impl Counters {
    /// They may have changed: another process wrote, or a batch was undone.
    pub(crate) fn forget(&mut self) {
        self.loaded = false;
        self.tails.clear();
    }

    /// Where a task's history ends, if that is remembered.
    pub(crate) fn tail(&self, task: i64) -> Option<Tail> {
        self.tails.get(&task).copied()
    }

    /// Remembers where a task's history ends now.
    pub(crate) fn set_tail(&mut self, task: i64, tail: Tail) {
        if self.tails.len() >= TAILS {
            self.tails.clear();
        }
        self.tails.insert(task, tail);
    }

    /// A task has no history any more.
    pub(crate) fn drop_tail(&mut self, task: i64) {
        self.tails.remove(&task);
    }

    pub(crate) fn load(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if self.loaded {
            return Ok(());
        }
        let mut counter = conn.prepare_cached("SELECT task, number FROM counter")?;
        (self.task, self.number) = counter.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Not stored: as long as a task has events, theirs keep this one from going back.
        let mut last = conn.prepare_cached("SELECT max(n) FROM event")?;
        self.event = last.query_row([], |row| row.get::<_, Option<i64>>(0))?.unwrap_or(0);
        (self.loaded, self.dirty) = (true, false);
        Ok(())
    }

    pub(crate) fn save(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if std::mem::take(&mut self.dirty) {
            let mut statement = conn.prepare_cached("UPDATE counter SET task = ?, number = ?")?;
            statement.execute([self.task, self.number])?;
        }
        Ok(())
    }

    /// The key of a new task.
    pub(crate) fn task(&mut self) -> i64 {
        self.dirty = true;
        self.task += 1;
        self.task
    }

    /// A number above all others: of a message, an activity, a place in a pile.
    pub(crate) fn number(&mut self) -> i64 {
        self.dirty = true;
        self.number += 1;
        self.number
    }

    /// The place of a new event in the log.
    pub(crate) fn event(&mut self) -> i64 {
        self.event += 1;
        self.event
    }
}

/// What a command led to, for the desk that made it.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    pub(crate) touched: BTreeMap<i64, bool>,
    pub(crate) cancelled: Vec<i64>,
}

impl Reach {
    pub(crate) fn touch(&mut self, key: i64, here: bool) {
        *self.touched.entry(key).or_default() |= here;
    }

    pub(crate) fn touched(self) -> Vec<Touched> {
        let touched = self.touched.into_iter();
        touched.map(|(key, here)| Touched { key: TaskKey(key), here }).collect()
    }
}
