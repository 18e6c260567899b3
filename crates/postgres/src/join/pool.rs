//! Connections for authors' transactions.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steadfast_store::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{How, Isolation, Open, lanes};
use crate::{
    conn::{Conn, take_time},
    core::Core,
    error::{cause, undone},
    queue::closed,
};

/// Which transaction it is, so that one who commits in its place is noticed; nothing if it can only read.
const WHICH: &str = "
    SELECT CASE WHEN NOT current_setting('transaction_read_only')::bool
        THEN pg_current_xact_id()::text END";

/// Takes away what the author's code has left on the connection: what DISCARD ALL does, but for prepared
/// statements, which are the store's.
const CLEAN: &str =
    "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL; UNLISTEN *;
                     SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES;
                     SET idle_session_timeout = 0";

/// It is not said more often that one waits.
const SHORTEST: Duration = Duration::from_millis(100);

/// Connections that are told nothing of the store's settings, made when they are needed.
pub(crate) struct Pool {
    pub(super) core: Arc<Core>,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Arc<Conn>>>,
    /// As many as permits.
    lanes: Mutex<Vec<i16>>,
}

/// A place among the transactions that are open.
pub(super) struct Seat {
    pub(super) pool: Arc<Pool>,
    pub(super) lane: i16,
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
        self.may_write()?;
        let seat = self.seat().await?;
        // That may have been long.
        self.may_write()?;
        loop {
            let idle = lock(&self.idle).pop();
            let used = idle.is_some();
            let conn = match idle {
                Some(conn) => conn,
                None => self.connect().await?,
            };
            match begin(&conn, how).await {
                Ok(Some(which)) => return Ok(Open::new(conn, seat, which, how)),
                // It may have been closed long ago, may be one to a server that only reads by now, or whoever
                // had it before did something to it that was not noticed.
                Ok(None) | Err(_) if used => {}
                Ok(None) => {
                    let text = "the server only reads now (default_transaction_read_only, or it is a \
                                standby): it must take writes again, or another be reached";
                    return Err(Error::Unavailable(text.into()));
                }
                Err(error) => return Err(undone(&error)),
            }
        }
    }

    fn may_write(&self) -> Result<()> {
        self.core.check_open()?;
        self.core.health.up_to_date()
    }

    /// Waits for a place, for as long as it takes; who waits long says so.
    async fn seat(self: &Arc<Pool>) -> Result<Seat> {
        let most = self.core.options.transactions;
        let patience = self.core.options.patience.max(SHORTEST);
        let mut place = std::pin::pin!(Arc::clone(&self.permits).acquire_owned());
        let permit = loop {
            match tokio::time::timeout(patience, &mut place).await {
                Ok(permit) => break permit.map_err(|_| closed())?,
                Err(_) => tracing::warn!(
                    most,
                    "a transaction has waited for {patience:?} and waits on, because as many as may be \
                     are open: let more be (--store-transactions), or let each take less time"
                ),
            }
        };
        let lane = lock(&self.lanes).pop().ok_or_else(closed)?;
        Ok(Seat { pool: Arc::clone(self), lane, _permit: permit })
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

impl Seat {
    /// Takes back a connection when it was cleaned, with this done before.
    pub(super) fn take_back(self, conn: Arc<Conn>, before: &'static str) {
        let runtime = self.pool.core.runtime.clone();
        runtime.spawn(async move {
            // Not for others before it is done: until then it may have locks.
            match conn.run(&format!("{before}{CLEAN}")).await {
                Ok(()) => lock(&self.pool.idle).push(conn),
                Err(error) => {
                    tracing::debug!(why = cause(&error), "a connection is not used again");
                    conn.give_up();
                }
            }
            drop(self);
        });
    }
}

async fn begin(
    conn: &Conn,
    how: How,
) -> std::result::Result<Option<String>, tokio_postgres::Error> {
    let level = match how.isolation {
        Isolation::ReadCommitted => "READ COMMITTED",
        Isolation::RepeatableRead => "REPEATABLE READ",
        Isolation::Serializable => "SERIALIZABLE",
    };
    let limit = how.limit.as_millis();
    // All of it is limited here; this is for when nobody is here any more.
    let idle = limit.saturating_add(1_000);
    let take_time = take_time(true);
    // Not READ WRITE: if somebody has set that the server only reads, that holds for this too.
    let sql = format!(
        "BEGIN ISOLATION LEVEL {level}; SET LOCAL statement_timeout = '{limit}ms';
         SET LOCAL idle_in_transaction_session_timeout = '{idle}ms'; {take_time}"
    );
    conn.run(&sql).await?;
    let row = conn.first(WHICH, &[]).await?;
    row.map_or(Ok(None), |row| row.try_get(0))
}
