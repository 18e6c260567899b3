//! What a command works with: the open transaction of its batch.

use std::{cell::RefCell, collections::BTreeMap};

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row};
use steadfast_store::{TaskKey, Touched};

use crate::{desk::Desks, memory::Memory, rails::Rails};

/// The open transaction of a batch.
pub(crate) struct Tx<'a> {
    pub(crate) statements: Statements<'a>,
    /// This handle's desk.
    pub(crate) desk: i64,
    pub(crate) desks: &'a Desks,
    pub(crate) memory: &'a mut Memory,
    /// What keeps code of others in its place.
    pub(crate) rails: &'a Rails,
    /// The owner whose task was claimed last, so that the next claim begins with the next owner.
    pub(crate) served: &'a mut Option<String>,
}

impl Tx<'_> {
    /// Runs a statement, and says how many rows it changed. One that changes a task's row goes
    /// through [`alter`](Tx::alter).
    pub(crate) fn run(&self, sql: &'static str, params: impl Params) -> rusqlite::Result<usize> {
        self.statements.with(sql, |statement| statement.execute(params))
    }

    /// Runs a statement that changes the row of a task.
    pub(crate) fn alter(
        &mut self,
        task: i64,
        sql: &'static str,
        params: impl Params,
    ) -> rusqlite::Result<()> {
        self.memory.drop_card(task);
        self.run(sql, params).map(drop)
    }

    /// The first row of a query, if there is one.
    pub(crate) fn first<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.statements.with(sql, |statement| statement.query_row(params, read).optional())
    }

    /// All rows of a query.
    pub(crate) fn all<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.statements.with(sql, |statement| statement.query_map(params, read)?.collect())
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

/// The statements that a batch uses, each fetched from the connection's cache once: to look one up
/// there costs as much as to run a small one.
pub(crate) struct Statements<'c> {
    pub(crate) conn: &'c Connection,
    /// Known by where their text stands, which is quickly compared, in the order of first use.
    ready: RefCell<Vec<(&'static str, CachedStatement<'c>)>>,
}

impl<'c> Statements<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Statements<'c> {
        Statements { conn, ready: RefCell::default() }
    }

    fn with<T>(
        &self,
        sql: &'static str,
        use_it: impl FnOnce(&mut CachedStatement<'c>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut ready = self.ready.borrow_mut();
        if let Some((_, known)) = ready.iter_mut().find(|(text, _)| std::ptr::eq(*text, sql)) {
            return use_it(known);
        }
        let mut fetched = self.conn.prepare_cached(sql)?;
        let done = use_it(&mut fetched);
        ready.push((sql, fetched));
        done
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
