//! What an author's closure works with.

use std::{cell::RefCell, collections::HashMap};

use rusqlite::{
    Batch, Connection, Error, ErrorCode, OptionalExtension, Params, Row, Statement,
    fallible_iterator::FallibleIterator, ffi,
};

use crate::rails::Rails;

/// The open transaction, for tables of yours that lie in the same file.
///
/// It can do what SQL can, but for a few things that would concern the store: its tables, transaction
/// control, other files, temporary tables, most pragmas, and names that are reserved for the store: those of
/// its tables, `moved`, and what begins with `steadfast_`. Each is refused with an error that says so.
pub struct Transaction<'c> {
    conn: &'c Connection,
    rails: &'c Rails,
    /// Not those of the store, which were prepared without anybody asking whether an author may.
    known: RefCell<HashMap<String, Statement<'c>>>,
}

impl<'c> Transaction<'c> {
    pub(crate) fn new(conn: &'c Connection, rails: &'c Rails) -> Transaction<'c> {
        Transaction { conn, rails, known: RefCell::default() }
    }

    /// Runs a statement that gives no rows, and says how many it changed.
    pub fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.with(sql, |statement| statement.execute(params))
    }

    /// Runs several statements without parameters, such as a `CREATE TABLE IF NOT EXISTS`.
    pub fn execute_batch(&self, sql: &str) -> rusqlite::Result<()> {
        self.check()?;
        self.run_each(sql).map_err(|error| self.explain(error))
    }

    fn run_each(&self, sql: &str) -> rusqlite::Result<()> {
        let mut batch = Batch::new(self.conn, sql);
        loop {
            self.rails.next_statement();
            let Some(mut statement) = batch.next()? else { return Ok(()) };
            // A pragma gives rows, which nobody reads here.
            statement.raw_query().next()?;
        }
    }

    /// The only row of a query; an error if there is none.
    pub fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.with(sql, |statement| statement.query_row(params, read))
    }

    /// The first row of a query, if there is one.
    pub fn query_optional<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.with(sql, |statement| statement.query_row(params, read).optional())
    }

    /// All rows of a query.
    pub fn query<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.with(sql, |statement| statement.query_map(params, read)?.collect())
    }

    /// The number of the row that was inserted last.
    #[must_use]
    pub fn last_insert_rowid(&self) -> i64 {
        self.conn.last_insert_rowid()
    }

    fn with<T>(
        &self,
        sql: &str,
        use_it: impl FnOnce(&mut Statement<'c>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.check()?;
        // Taken out, for a closure that reads rows may use the same statement meanwhile.
        let known = self.known.borrow_mut().remove_entry(sql);
        let (text, mut statement) = match known {
            Some(known) => known,
            None => {
                self.rails.next_statement();
                let made = self.conn.prepare(sql).map_err(|error| self.explain(error))?;
                (sql.to_owned(), made)
            }
        };
        let done = use_it(&mut statement).map_err(|error| self.explain(error));
        self.known.borrow_mut().insert(text, statement);
        done
    }

    /// Nothing may be done when time is over; nor when the transaction is gone, for then SQLite would
    /// commit each statement by itself.
    fn check(&self) -> rusqlite::Result<()> {
        if self.rails.is_late() {
            return Err(self.late());
        }
        if self.conn.is_autocommit() {
            let text = "the transaction was rolled back by what went before";
            return Err(failure(ffi::SQLITE_ABORT, text.into()));
        }
        Ok(())
    }

    fn late(&self) -> Error {
        let text = "the time of this transaction is over: the store's only writer waits for it; do \
                    less, or set a longer limit";
        failure(ffi::SQLITE_INTERRUPT, text.into())
    }

    /// The error with what it means here.
    fn explain(&self, error: Error) -> Error {
        if let Some(why) = self.rails.refusal() {
            return failure(ffi::SQLITE_AUTH, why);
        }
        let Error::SqliteFailure(code, text) = &error else { return error };
        match code.code {
            ErrorCode::OperationInterrupted => self.late(),
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::DatabaseBusy
            | ErrorCode::NotADatabase
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen => {
                self.rails.note_trouble(*code, text.clone());
                error
            }
            _ => error,
        }
    }
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

fn failure(code: std::ffi::c_int, text: String) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), Some(text))
}
