//! What an author's closure works with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_postgres::{
    Error, Row,
    error::{Severity, SqlState},
    types::ToSql,
};

use super::words::{control, deallocates_all};
use crate::{conn::Conn, error::cause};

/// How a statement of a [`Transaction`] can fail.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// PostgreSQL said no, or is not there. After this it takes no further statement, but a `ROLLBACK TO`
    /// a savepoint.
    #[error("{}", cause(.0))]
    Database(#[source] Error),
    /// The transaction is committed and rolled back by the store.
    #[error("{0} would end the transaction, which is the store's: return an error to roll back")]
    Control(String),
    /// The store has prepared statements on the same connection.
    #[error("DEALLOCATE ALL would take the store's prepared statements with it: name yours")]
    Deallocate,
    /// The closure has returned.
    #[error(
        "the transaction is over: all of its statements must be done before the closure returns"
    )]
    Over,
}

impl SqlError {
    /// What PostgreSQL calls it, such as a unique violation.
    #[must_use]
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            SqlError::Database(error) => error.code(),
            SqlError::Control(_) | SqlError::Deallocate | SqlError::Over => None,
        }
    }
}

/// The open transaction, for tables of yours in the same database.
///
/// Statements are done one after the other, each in a trip of its own. The handle can be cloned; it is of
/// no use any more when the closure has returned.
#[derive(Clone)]
pub struct Transaction(Arc<Mutex<State>>);

struct State {
    conn: Option<Arc<Conn>>,
    said: Said,
}

/// What was heard of the database while the code ran.
#[derive(Default)]
pub(super) struct Said {
    /// Others were in the way.
    pub(super) overtaken: Option<String>,
    /// The connection was lost.
    pub(super) lost: Option<String>,
    /// A statement took too long.
    pub(super) late: bool,
}

impl Transaction {
    pub(super) fn new(conn: Arc<Conn>) -> Transaction {
        Transaction(Arc::new(Mutex::new(State { conn: Some(conn), said: Said::default() })))
    }

    /// Lets it do nothing more.
    pub(super) fn end(&self) -> Said {
        let mut state = self.lock();
        state.conn = None;
        std::mem::take(&mut state.said)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a statement, and says how many rows it changed.
    pub async fn execute(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, SqlError> {
        let conn = self.conn(sql)?;
        self.heard(conn.client.execute(sql, params).await)
    }

    /// The rows of a query.
    pub async fn query(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SqlError> {
        let conn = self.conn(sql)?;
        self.heard(conn.client.query(sql, params).await)
    }

    /// The only row of a query; an error if there is none, or more than one.
    pub async fn query_one(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, SqlError> {
        let conn = self.conn(sql)?;
        self.heard(conn.client.query_one(sql, params).await)
    }

    /// The row of a query, if there is one; an error if there is more than one.
    pub async fn query_opt(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, SqlError> {
        let conn = self.conn(sql)?;
        self.heard(conn.client.query_opt(sql, params).await)
    }

    fn conn(&self, sql: &str) -> Result<Arc<Conn>, SqlError> {
        if let Some(word) = control(sql) {
            return Err(SqlError::Control(word));
        }
        if deallocates_all(sql) {
            return Err(SqlError::Deallocate);
        }
        self.lock().conn.clone().ok_or(SqlError::Over)
    }

    fn heard<T>(&self, answer: Result<T, Error>) -> Result<T, SqlError> {
        answer.map_err(|error| {
            let said = &mut self.lock().said;
            if is_overtaken(&error) {
                said.overtaken.get_or_insert_with(|| cause(&error));
            } else if error.code() == Some(&SqlState::QUERY_CANCELED) {
                said.late = true;
            } else if is_lost(&error) {
                said.lost.get_or_insert_with(|| cause(&error));
            }
            SqlError::Database(error)
        })
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

/// Whether somebody else was in the way, so that the same may succeed the next time.
pub(super) fn is_overtaken(error: &Error) -> bool {
    let ways = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| ways.contains(code))
}

/// Whether the connection is lost. The words for that may also be those of a statement: one that asks
/// another server, or one that can't even be sent.
pub(super) fn is_lost(error: &Error) -> bool {
    match error.as_db_error() {
        Some(said) => matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic)),
        None => error.is_closed(),
    }
}
