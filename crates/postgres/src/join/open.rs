//! A transaction of an author's while it is open.

use std::sync::Arc;

use steadfast_store::Overruled;
use tokio_postgres::error::SqlState;

use super::{
    How, Isolation, Transaction,
    handle::{Said, is_lost, is_overtaken},
    pool::Seat,
};
use crate::{
    conn::{Conn, settings},
    error::cause,
    schema::quoted,
};

/// Which transaction it is by now, and whether it can only read.
const WHICH_NOW: &str = "
    SELECT pg_current_xact_id_if_assigned()::text,
        current_setting('transaction_read_only')::bool";

pub(super) const DEALLOCATED: &str = "it has deallocated the store's prepared statements: it may only do so with its own, by their names";

const READS: &str = "it made the transaction one that only reads (SET TRANSACTION READ ONLY), so that it can't \
                     be recorded: it must not";

/// An open transaction of an author's. Dropped, it is rolled back.
pub(crate) struct Open {
    pub(super) conn: Arc<Conn>,
    tx: Transaction,
    seat: Option<Seat>,
    which: String,
    how: How,
    /// Nothing is known against its connection, so that the next can have it when this is rolled back.
    sound: bool,
}

/// Why a transaction can't be committed.
pub(super) enum Finish {
    Overtaken(String),
    Lost(String),
    Overruled(Overruled),
}

fn broken(text: &str) -> Finish {
    Finish::Overruled(Overruled::Broken(text.into()))
}

impl Open {
    pub(super) fn new(conn: Arc<Conn>, seat: Seat, which: String, how: How) -> Open {
        let tx = Transaction::new(Arc::clone(&conn));
        Open { conn, tx, seat: Some(seat), which, how, sound: false }
    }

    pub(super) fn handle(&self) -> Transaction {
        self.tx.clone()
    }

    pub(super) fn lane(&self) -> i16 {
        self.seat.as_ref().map_or(0, |seat| seat.lane)
    }

    pub(super) fn isolation(&self) -> Isolation {
        self.how.isolation
    }

    /// The author's code has returned, or was stopped: it can do nothing more, and this was heard of the
    /// database meanwhile.
    pub(super) fn end(&mut self) -> Said {
        let said = self.tx.end();
        self.sound = self.is_alone() && said.lost.is_none();
        said
    }

    /// Whether nobody else is at a statement on this connection.
    pub(super) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.conn) == 1
    }

    /// Whatever happens from now on, its connection is nobody else's unless it is committed.
    pub(super) fn suspect(&mut self) {
        self.sound = false;
    }

    /// The author's code is done: checks what is else checked by the commit, and gets the connection
    /// ready for statements of ours, until the end of the transaction.
    ///
    /// What the code has set, or has become, holds for its own statements only. A temporary table of its
    /// must not be taken for one of the store's: those would be looked at first unless they are named.
    pub(super) async fn finish(&mut self) -> std::result::Result<(), Finish> {
        let Some(seat) = &self.seat else { return Err(Finish::Lost("it is over".into())) };
        let options = &seat.pool.core.options;
        let sql = format!(
            "SET CONSTRAINTS ALL IMMEDIATE; CLOSE ALL;
             SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL;
             {} SET LOCAL search_path = {}, pg_temp",
            settings(options, "LOCAL"),
            quoted(&options.schema)
        );
        let ready = async {
            self.conn.run(&sql).await?;
            let row = self.conn.query(WHICH_NOW, &[]).await?;
            let row = row.first();
            let which = row.map_or(Ok(None), |row| row.try_get::<_, Option<String>>(0))?;
            Ok((which, row.map_or(Ok(false), |row| row.try_get(1))?))
        };
        let finished = match ready.await {
            Ok((which, _)) if which.as_ref() != Some(&self.which) => Err(broken(
                "it ended the transaction by itself, so that what it did may be there and is not \
                 recorded: it must not",
            )),
            Ok((_, true)) => Err(broken(READS)),
            Ok(_) => return Ok(()),
            Err(error) => Err(refused(&error)),
        };
        self.suspect();
        finished
    }

    /// It was committed: the connection is cleaned for the next.
    pub(super) fn committed(mut self) {
        self.give_back("");
    }

    fn give_back(&mut self, before: &'static str) {
        match self.seat.take() {
            Some(seat) if !self.conn.is_closed() => {
                seat.take_back(Arc::clone(&self.conn), before);
            }
            _ => {}
        }
    }
}

/// What an error means that came when the author's code was done.
fn refused(error: &tokio_postgres::Error) -> Finish {
    if is_overtaken(error) {
        return Finish::Overtaken(cause(error));
    }
    if is_lost(error) {
        return Finish::Lost(cause(error));
    }
    match error.code() {
        Some(&SqlState::IN_FAILED_SQL_TRANSACTION) => {
            let text = "a statement of it failed, and it went on as if not: PostgreSQL takes \
                        nothing more after that; return the error, or use a savepoint";
            Finish::Overruled(Overruled::Failed(text.into()))
        }
        Some(&SqlState::INVALID_SQL_STATEMENT_NAME) => broken(DEALLOCATED),
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => broken(READS),
        Some(&SqlState::QUERY_CANCELED) => Finish::Overruled(Overruled::TimedOut(cause(error))),
        _ => Finish::Overruled(Overruled::Failed(cause(error))),
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Whoever still has the handle has it for nothing.
        self.tx.end();
        match self.sound && self.is_alone() {
            true => self.give_back("ROLLBACK; "),
            // Also a statement that is under way ends with it; after a commit it is not ours any more.
            false if self.seat.is_some() => self.conn.give_up(),
            false => {}
        }
    }
}
