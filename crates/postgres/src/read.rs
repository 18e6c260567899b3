//! Reading: on connections of their own, which see the last commit and wait for no writer.

mod desk;
mod history;
mod list;
mod point;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use steadfast_store::{Error, Result};
use tokio::sync::Mutex;
use tokio_postgres::Row;

#[cfg(feature = "testing")]
pub(crate) use self::list::Query;
use crate::{
    conn::{Conn, Param},
    core::Core,
    error::{Remedy, remedy, undone},
};

/// Connections for reads of a few rows. Each does what several callers ask for, one after the other.
const POINTS: usize = 2;
/// The last is for reads that may take longer, one at a time.
const ALL: usize = POINTS + 1;
/// So many times as long as an answer may take can one wait for one's turn there.
const IN_LINE: u32 = 4;

/// Connections that only read, made when they are first used.
pub(crate) struct Readers {
    core: Arc<Core>,
    conns: [Mutex<Option<Arc<Conn>>>; ALL],
    next: AtomicUsize,
    /// Whoever reads what may take longer stands in line here, not at the server: how long an answer may take
    /// counts from when it is asked for, and who is too slow is so for himself alone.
    line: Mutex<()>,
}

impl Readers {
    pub(crate) fn new(core: Arc<Core>) -> Readers {
        Readers {
            core,
            conns: std::array::from_fn(|_| Mutex::default()),
            next: AtomicUsize::new(0),
            line: Mutex::default(),
        }
    }

    /// Reads a few rows.
    pub(crate) async fn point(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % POINTS;
        self.read(at, sql, params).await
    }

    /// The first row of a few.
    pub(crate) async fn first(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>> {
        Ok(self.point(sql, params).await?.into_iter().next())
    }

    /// Reads what may be many rows.
    pub(crate) async fn scan(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let most = self.core.options.patience.saturating_mul(IN_LINE);
        let Ok(_turn) = tokio::time::timeout(most, self.line.lock()).await else {
            return Err(Error::Unavailable(
                "too many read at the same time what takes long".into(),
            ));
        };
        self.read(POINTS, sql, params).await
    }

    async fn read(&self, at: usize, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let mut again = true;
        loop {
            let conn = self.conn(at).await?;
            match conn.query(sql, params).await {
                Ok(rows) => return Ok(rows),
                // It changes nothing, so it can be done again.
                Err(error) if remedy(&error) == Remedy::Reconnect && std::mem::take(&mut again) => {
                    self.lose(at, &conn).await;
                }
                Err(error) => return Err(undone(&error)),
            }
        }
    }

    async fn conn(&self, at: usize) -> Result<Arc<Conn>> {
        let mut slot = self.conns[at].lock().await;
        if let Some(conn) = slot.as_ref().filter(|conn| !conn.is_closed()) {
            return Ok(Arc::clone(conn));
        }
        let core = Arc::clone(&self.core);
        let opening =
            self.core.runtime.spawn(async move { Conn::open(&core.address, &core.options).await });
        match opening.await {
            Ok(Ok(conn)) => Ok(Arc::clone(slot.insert(Arc::new(conn)))),
            Ok(Err(error)) => Err(Error::Unavailable(error.to_string())),
            Err(_) => Err(crate::queue::closed()),
        }
    }

    async fn lose(&self, at: usize, lost: &Arc<Conn>) {
        let mut slot = self.conns[at].lock().await;
        if slot.as_ref().is_some_and(|conn| Arc::ptr_eq(conn, lost)) {
            *slot = None;
        }
    }
}

/// For a look at their plans.
#[cfg(feature = "testing")]
pub(crate) const STATEMENTS: &[(&str, &str)] = &[
    ("desk HELD", desk::HELD),
    ("desk HELD_ACTIVITIES", desk::HELD_ACTIVITIES),
    ("desk DEAD", desk::DEAD),
    ("desk ALIVE", desk::ALIVE),
    ("history OLDEST_FIRST", history::OLDEST_FIRST),
    ("history NEWEST_FIRST", history::NEWEST_FIRST),
    ("list COUNT_ALL", list::COUNT_ALL),
    ("list COUNT_MINE", list::COUNT_MINE),
    ("point BY_ID", point::BY_ID),
    ("point BY_KEY", point::BY_KEY),
    ("point WITH_QUESTIONS", point::WITH_QUESTIONS),
    ("point KEYED", point::KEYED),
    ("point INBOX", point::INBOX),
    ("point QUESTIONS", point::QUESTIONS),
    ("point STATE", point::STATE),
    ("point SESSION", point::SESSION),
    ("point POSTED", point::POSTED),
    ("point ACTIVITY", point::ACTIVITY),
    ("point NEXT_WAKE", point::NEXT_WAKE),
];
