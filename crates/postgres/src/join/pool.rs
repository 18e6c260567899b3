//! Connections for authors' transactions, and such a transaction while it is open.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadfast_store::{Error, Overruled, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::error::SqlState;

use super::{How, Isolation, Transaction, handle::is_overtaken, lanes};
use crate::{
    conn::{Conn, settings, take_time},
    core::Core,
    error::{Remedy, cause, remedy, undone},
    queue::closed,
};

/// Which transaction it is, so that one who commits in its place is noticed.
const WHICH: &str = "SELECT pg_current_xact_id()::text";
const WHICH_IF_ANY: &str = "SELECT pg_current_xact_id_if_assigned()::text";

/// Takes away what the author's code has left on the connection: what DISCARD ALL does, but for prepared
/// statements, which are the store's.
const CLEAN: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *;
                     SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES;
                     SET idle_session_timeout = 0";

/// Connections without the store's settings, made when they are needed.
pub(crate) struct Pool {
    core: Arc<Core>,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Arc<Conn>>>,
    /// As many as permits.
    lanes: Mutex<Vec<i16>>,
}

/// A place among the transactions that are open.
struct Seat {
    pool: Arc<Pool>,
    lane: i16,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.pool.lanes).push(self.lane);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(crate) fn new(core: &Arc<Core>) -> Arc<Pool> {
        let lanes: Vec<i16> = lanes(&core.options).collect();
        Arc::new(Pool {
            core: Arc::clone(core),
            permits: Arc::new(Semaphore::new(lanes.len())),
            idle: Mutex::default(),
            lanes: Mutex::new(lanes),
        })
    }

    pub(super) async fn open(self: &Arc<Pool>, how: How) -> Result<Open> {
        self.core.check_open()?;
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        let lane = lock(&self.lanes).pop().ok_or_else(closed)?;
        let seat = Seat { pool: Arc::clone(self), lane, _permit: permit };
        loop {
            let idle = lock(&self.idle).pop();
            let used = idle.is_some();
            let conn = match idle {
                Some(conn) => conn,
                None => self.connect().await?,
            };
            match begin(&conn, how).await {
                Ok(which) => return Ok(Open { conn, seat: Some(seat), which, how }),
                // It may have been closed long ago.
                Err(error) if used && remedy(&error) == Remedy::Reconnect => {}
                Err(error) => return Err(undone(&error)),
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Conn>> {
        let core = Arc::clone(&self.core);
        let opening = self
            .core
            .runtime
            .spawn(async move { Conn::open_bare(&core.address, &core.options).await });
        match opening.await {
            Ok(Ok(conn)) => Ok(Arc::new(conn)),
            Ok(Err(error)) => Err(Error::Unavailable(error.to_string())),
            Err(_) => Err(closed()),
        }
    }
}

async fn begin(conn: &Conn, how: How) -> std::result::Result<String, tokio_postgres::Error> {
    let level = match how.isolation {
        Isolation::ReadCommitted => "READ COMMITTED",
        Isolation::RepeatableRead => "REPEATABLE READ",
        Isolation::Serializable => "SERIALIZABLE",
    };
    let limit = how.limit.as_millis();
    // All of it is limited here; this is for when nobody is here any more.
    let idle = limit.saturating_add(1_000);
    let take_time = take_time(true);
    let sql = format!(
        "BEGIN ISOLATION LEVEL {level} READ WRITE; SET LOCAL statement_timeout = '{limit}ms';
         SET LOCAL idle_in_transaction_session_timeout = '{idle}ms'; {take_time}"
    );
    conn.run(&sql).await?;
    let row = conn.first(WHICH, &[]).await?;
    row.map_or(Ok(String::new()), |row| row.try_get(0))
}

/// An open transaction of an author's. Dropped, it is rolled back.
pub(crate) struct Open {
    pub(super) conn: Arc<Conn>,
    seat: Option<Seat>,
    which: String,
    how: How,
}

/// Why a transaction can't be committed.
pub(super) enum Finish {
    Overtaken(String),
    Lost(String),
    Overruled(Overruled),
}

impl Open {
    pub(super) fn handle(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.conn))
    }

    pub(super) fn lane(&self) -> i16 {
        self.seat.as_ref().map_or(0, |seat| seat.lane)
    }

    pub(super) fn isolation(&self) -> Isolation {
        self.how.isolation
    }

    /// Ends the connection with it.
    pub(super) fn give_up(&self) {
        self.conn.give_up();
    }

    /// The author's code is done: checks what is else checked by the commit, and gets the connection
    /// ready for statements of ours, until the end of the transaction.
    pub(super) async fn finish(&self) -> std::result::Result<(), Finish> {
        let Some(seat) = &self.seat else { return Err(Finish::Lost("it is over".into())) };
        let sql = format!(
            "SET CONSTRAINTS ALL IMMEDIATE; {} SET LOCAL statement_timeout = 0",
            settings(&seat.pool.core.options, "LOCAL")
        );
        let ready = async {
            self.conn.run(&sql).await?;
            let row = self.conn.first(WHICH_IF_ANY, &[]).await?;
            row.map_or(Ok(None), |row| row.try_get::<_, Option<String>>(0))
        };
        match ready.await {
            Ok(which) if which.as_ref() == Some(&self.which) => Ok(()),
            Ok(_) => {
                self.give_up();
                let text = "it ended the transaction by itself, so that what it did may be there and \
                            is not recorded: it must not";
                Err(Finish::Overruled(Overruled::Broken(text.into())))
            }
            Err(error) if is_overtaken(&error) => Err(Finish::Overtaken(cause(&error))),
            Err(error) if error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) => {
                let text = "a statement of it failed, and it went on as if not: PostgreSQL takes \
                            nothing more after that; return the error, or use a savepoint";
                Err(Finish::Overruled(Overruled::Failed(text.into())))
            }
            Err(error) if remedy(&error) == Remedy::Reconnect => Err(Finish::Lost(cause(&error))),
            Err(error) => Err(Finish::Overruled(Overruled::Failed(cause(&error)))),
        }
    }

    /// It was committed: the connection is cleaned for the next.
    pub(super) fn committed(mut self) {
        self.clean("");
    }

    fn clean(&mut self, before: &'static str) {
        let Some(seat) = self.seat.take() else { return };
        let conn = Arc::clone(&self.conn);
        if conn.is_closed() {
            return;
        }
        let pool = Arc::clone(&seat.pool);
        pool.core.runtime.clone().spawn(async move {
            // Not for others before it is done: until then it may have locks.
            let seat = seat;
            if conn.run(&format!("{before}{CLEAN}")).await.is_ok() {
                lock(&pool.idle).push(conn);
            }
            drop(seat);
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.clean("ROLLBACK; ");
    }
}
