//! Reading: on connections of their own, which see the last commit and never wait for the writer.

mod desk;
mod history;
mod list;
mod point;

pub(crate) use self::desk::busy;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use rusqlite::Connection;
use steadfast_store::{Error, Result};
use tokio::sync::Semaphore;

use crate::{Options, error::undone};

/// Connections kept open for the next read. Each has a page cache of up to 8 MiB.
const IDLE: usize = 4;
/// Reads of many rows at the same time.
const SCANS: usize = 4;

/// A pool of connections that only read.
pub(crate) struct Readers {
    options: Options,
    idle: Mutex<Vec<Connection>>,
    scans: Semaphore,
    closed: AtomicBool,
}

impl Readers {
    pub(crate) fn new(options: Options) -> Arc<Readers> {
        let (idle, scans) = (Mutex::new(Vec::new()), Semaphore::new(SCANS));
        Arc::new(Readers { options, idle, scans, closed: AtomicBool::new(false) })
    }

    /// Lets nobody read any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a few rows, on this thread: that takes less time than a trip to another.
    pub(crate) fn point<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("this handle was killed".into()));
        }
        let idle = self.lock().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.options.reader().map_err(|e| undone(&e))?,
        };
        let read = read(&conn).map_err(|e| undone(&e));
        let mut idle = self.lock();
        if idle.len() < IDLE && !self.closed.load(Ordering::SeqCst) {
            idle.push(conn);
        }
        read
    }

    /// Reads many rows, on a thread that may block, in one view of the file.
    pub(crate) async fn scan<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        // The semaphore is never closed, and a thread that panicked answers nobody.
        let _permit = self.scans.acquire().await.map_err(|e| Error::Unavailable(e.to_string()))?;
        let readers = Arc::clone(self);
        let scan = move || {
            readers.point(|conn| {
                let view = conn.unchecked_transaction()?;
                read(&view)
            })
        };
        match tokio::task::spawn_blocking(scan).await {
            Ok(scanned) => scanned,
            // The runtime goes down, and whoever asks goes with it: in the time that is left it must not
            // tell a client that its call failed, which goes on in the next process.
            Err(e) if e.is_cancelled() => std::future::pending().await,
            Err(e) => Err(Error::Unavailable(e.to_string())),
        }
    }
}
