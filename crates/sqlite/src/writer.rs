//! The one thread that writes: group commit.
//!
//! It takes all commands that wait, applies them in one transaction, commits, and only then answers.
//! One flush serves them all; while it lasts the next batch gathers.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use rusqlite::Connection;
use steadfast_store::Error;
use tokio::sync::Notify;

use crate::{
    desk::Desks,
    error::{uncommitted, undone},
    queue::{Next, Queue, Waiting},
    tx::{Counters, Tx},
};

/// A batch ends at this many commands,
const MOST: usize = 2048;
/// or at this many bytes, so that one flush and the pages it holds in memory stay bounded.
const MOST_BYTES: usize = 4 << 20;
/// How often an idle writer looks whether another process has changed the file.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Writer {
    pub(crate) conn: Connection,
    pub(crate) queue: Arc<Queue>,
    pub(crate) changed: Arc<Notify>,
    pub(crate) desk: i64,
    pub(crate) desks: Desks,
    pub(crate) flush_delay: Duration,
    pub(crate) counters: Counters,
    /// How many rows this connection has ever changed.
    pub(crate) changes: u64,
    /// Which commit of others was seen last.
    pub(crate) seen: i64,
    /// The owner whose task was claimed last; see [`Tx::served`].
    pub(crate) served: Option<String>,
}

/// Lets nobody wait for a writer that is gone.
struct Gone(Arc<Queue>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.close(true);
    }
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(crate) fn work(mut self) {
        let _gone = Gone(Arc::clone(&self.queue));
        let mut arrived = Vec::new();
        let mut waiting = VecDeque::new();
        loop {
            let patience = if waiting.is_empty() { LOOK } else { Duration::ZERO };
            match self.queue.take(&mut arrived, patience) {
                Next::Closed if waiting.is_empty() => return,
                Next::Idle if waiting.is_empty() => {
                    // If the file can't be read now, the next call will say so.
                    let _ = self.look();
                    continue;
                }
                Next::Some | Next::Idle | Next::Closed => {}
            }
            waiting.extend(arrived.drain(..));
            let batch = cut(&mut waiting);
            self.commit(batch);
        }
    }

    /// Notices commits of other processes.
    fn look(&mut self) -> rusqlite::Result<()> {
        let mut statement = self.conn.prepare_cached("PRAGMA data_version")?;
        let version = statement.query_row([], |row| row.get(0))?;
        if version != self.seen {
            self.seen = version;
            self.counters.forget();
            self.changed.notify_one();
        }
        Ok(())
    }

    fn commit(&mut self, mut batch: Vec<Waiting>) {
        if let Err(error) = self.begin() {
            self.undo();
            return fail(batch, || undone(&error));
        }
        let ran = batch.iter_mut().try_for_each(|waiting| self.run(waiting));
        match ran.and_then(|()| self.save()) {
            Ok(()) => match self.end() {
                Ok(()) => batch.into_iter().for_each(|waiting| waiting.command.answer(None)),
                Err(error) => {
                    self.undo();
                    fail(batch, || uncommitted(&error));
                }
            },
            Err(error) if batch.len() == 1 => {
                self.undo();
                fail(batch, || undone(&error));
            }
            Err(_) => {
                // One of them is bad. By itself it fails alone.
                self.undo();
                batch.into_iter().for_each(|waiting| self.commit(vec![waiting]));
            }
        }
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.look()?;
        self.counters.load(&self.conn)
    }

    fn run(&mut self, waiting: &mut Waiting) -> rusqlite::Result<()> {
        waiting.command.run(&mut Tx {
            conn: &self.conn,
            desk: self.desk,
            desks: &self.desks,
            counters: &mut self.counters,
            served: &mut self.served,
        })
    }

    fn save(&mut self) -> rusqlite::Result<()> {
        self.counters.save(&self.conn)
    }

    fn end(&mut self) -> rusqlite::Result<()> {
        // A batch of refusals flushes nothing.
        let changes = self.conn.total_changes();
        if std::mem::replace(&mut self.changes, changes) != changes && !self.flush_delay.is_zero() {
            std::thread::sleep(self.flush_delay);
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn undo(&mut self) {
        self.counters.forget();
        // SQLite has done it already after some errors. If it can't now, the next BEGIN fails and
        // comes here again.
        if !self.conn.is_autocommit() {
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }
}

fn cut(waiting: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let mut bytes = 0;
    let mut count = 0;
    for next in waiting.iter().take(MOST) {
        bytes += next.bytes;
        if count > 0 && bytes > MOST_BYTES {
            break;
        }
        count += 1;
    }
    waiting.drain(..count).collect()
}

fn fail(batch: Vec<Waiting>, why: impl Fn() -> Error) {
    batch.into_iter().for_each(|waiting| waiting.command.answer(Some(why())));
}
