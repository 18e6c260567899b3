//! The one writer: group commit.
//!
//! It takes all commands that wait, applies them in one transaction, commits, and only then answers.
//! One flush serves them all; while it lasts the next batch gathers.
//!
//! The writer has a thread. But a caller that is alone, on a disk that is fast, finds the writer
//! free and does its commit itself: two changes of threads cost as much as such a flush.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};
use steadfast_store::{Change, Changes, Error, Result};

use crate::{
    bell::Bell,
    desk::Desks,
    error::{Fault, uncommitted, undone},
    memory::Memory,
    queue::{Next, Queue, Waiting},
    rails::{self, Rails},
    tx::{Statements, Tx},
};

/// A batch ends at this many commands,
const MOST: usize = 2048;
/// or at this many bytes, so that one flush and the pages it holds in memory stay bounded.
const MOST_BYTES: usize = 4 << 20;
/// How often an idle writer looks whether another process has changed the file. Others ring when
/// they have, so that this is only for what was not heard.
const LOOK: Duration = Duration::from_millis(250);
/// The same where nobody can ring: half of it is how late a call from another process is noticed,
/// and an idle engine must wake at most 20 times a second in all.
const LOOK_OFTEN: Duration = Duration::from_millis(70);
/// Rings within this time count as one.
const DIN: Duration = Duration::from_millis(2);
/// A flush that takes longer than this must not hold up a thread of the caller's.
const QUICK: Duration = Duration::from_millis(1);

/// The writer, and those who wait for it.
pub(crate) struct Office {
    queue: Queue,
    writer: Mutex<Writer>,
    /// The last batch was one command, and quick.
    calm: AtomicBool,
    bell: Option<Bell>,
    changed: Arc<Changes>,
    strangers: Arc<AtomicU64>,
}

pub(crate) struct Writer {
    pub(crate) conn: Connection,
    pub(crate) changed: Arc<Changes>,
    /// How often a look has found commits of others.
    pub(crate) strangers: Arc<AtomicU64>,
    pub(crate) desk: i64,
    pub(crate) desks: Desks,
    pub(crate) flush_delay: Duration,
    pub(crate) memory: Memory,
    pub(crate) rails: Arc<Rails>,
    /// How many rows this connection has ever changed.
    pub(crate) changes: u64,
    /// Which commit of others was seen last.
    pub(crate) seen: i64,
    /// The owner whose task was claimed last; see [`Tx::served`].
    pub(crate) served: Option<String>,
}

/// Lets nobody wait for a writer that is gone.
struct Gone(Arc<Office>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.queue.close(true);
    }
}

impl Office {
    pub(crate) fn new(writer: Writer, bell: Option<Bell>) -> Office {
        let changed = Arc::clone(&writer.changed);
        let strangers = Arc::clone(&writer.strangers);
        let (queue, writer) = (Queue::default(), Mutex::new(writer));
        Office { queue, writer, calm: AtomicBool::new(true), bell, changed, strangers }
    }

    /// See [`Store::solitude`](steadfast_store::Store::solitude). The bell knows who is there; one that
    /// has none itself is noticed when it has committed.
    pub(crate) fn solitude(&self) -> Option<u64> {
        Some(self.bell.as_ref()?.solitude()? + self.strangers.load(Ordering::Acquire))
    }

    /// Passes on what others ring, until the office is closed.
    pub(crate) fn hear(self: Arc<Office>) {
        while self.bell.as_ref().is_some_and(Bell::listen) {
            self.changed.tell(Change::anything());
            std::thread::sleep(DIN);
        }
    }

    /// Makes a call, and waits for its answer.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        bytes: usize,
        apply: impl FnMut(&mut Tx<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        self.put(bytes, false, apply).await
    }

    /// The same for the last one: those that come after it are refused.
    pub(crate) async fn call_last<T: Send + 'static>(
        &self,
        bytes: usize,
        apply: impl FnMut(&mut Tx<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        self.put(bytes, true, apply).await
    }

    async fn put<T: Send + 'static>(
        &self,
        bytes: usize,
        last: bool,
        apply: impl FnMut(&mut Tx<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        rails::not_inside()?;
        let answer = self.queue.put(bytes, last, apply)?;
        if self.calm.load(Ordering::Relaxed)
            && let Ok(mut writer) = self.writer.try_lock()
        {
            let mut waiting = Vec::new();
            self.queue.take(&mut waiting, Duration::ZERO);
            self.commit(&mut writer, &mut waiting.into());
        }
        // For those who came while the writer was busy; they look for it no more.
        self.queue.wake();
        // Only a panic of the writer loses an answer, and then nobody knows how far it came.
        answer.await.unwrap_or_else(|_| Err(Error::Unknown("the writer has died".into())))
    }

    /// The same for a call that may take its time: it is left to the writer's thread, and not done on
    /// that of a caller.
    pub(crate) async fn call_slowly<T: Send + 'static>(
        &self,
        bytes: usize,
        apply: impl FnMut(&mut Tx<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        self.calm.store(false, Ordering::Relaxed);
        let answer = self.queue.put(bytes, false, apply)?;
        self.queue.wake();
        answer.await.unwrap_or_else(|_| Err(Error::Unknown("the writer has died".into())))
    }

    /// Commits all that waits, batch by batch.
    fn commit(&self, writer: &mut Writer, waiting: &mut VecDeque<Waiting>) {
        while !waiting.is_empty() {
            let batch = cut(waiting);
            let (alone, begun) = (batch.len() == 1, Instant::now());
            let changed = writer.commit(batch);
            if let Some(bell) = self.bell.as_ref().filter(|_| changed) {
                bell.ring();
            }
            self.calm.store(alone && begun.elapsed() < QUICK, Ordering::Relaxed);
        }
    }

    /// What the writer's thread does, until the queue is closed and empty.
    pub(crate) fn work(self: Arc<Office>) {
        let _gone = Gone(Arc::clone(&self));
        let mut arrived = Vec::new();
        loop {
            let patience = if self.bell.is_some() { LOOK } else { LOOK_OFTEN };
            let next = self.queue.take(&mut arrived, patience);
            if matches!(next, Next::Closed) {
                return;
            }
            let mut writer = match (next, self.writer.try_lock()) {
                (_, Ok(writer)) => writer,
                // A caller is at it, and sees for itself what others do.
                (Next::Idle, Err(TryLockError::WouldBlock)) => continue,
                (_, Err(TryLockError::WouldBlock)) => match self.writer.lock() {
                    Ok(writer) => writer,
                    Err(_) => return,
                },
                // It panicked in a caller's hands: how far it came nobody knows.
                (_, Err(TryLockError::Poisoned(_))) => return,
            };
            if arrived.is_empty() {
                // If the file can't be read now, the next call will say so.
                let _ = writer.look();
            }
            self.commit(&mut writer, &mut std::mem::take(&mut arrived).into());
        }
    }

    /// Lets nothing more in; see [`Queue::close`].
    pub(crate) fn close(&self, discard: bool) {
        self.queue.close(discard);
        if let Some(bell) = &self.bell {
            bell.close();
        }
    }

    /// Waits until nobody writes any more. To be called when the office is closed.
    pub(crate) fn quiet(&self) {
        drop(self.writer.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Writer {
    /// Notices commits of other processes.
    fn look(&mut self) -> rusqlite::Result<()> {
        let mut statement = self.conn.prepare_cached("PRAGMA data_version")?;
        let version = statement.query_row([], |row| row.get(0))?;
        if version != self.seen {
            self.seen = version;
            self.memory.doubt();
            self.strangers.fetch_add(1, Ordering::AcqRel);
            self.changed.tell(Change::anything());
        }
        Ok(())
    }

    /// Commits a batch, and says whether the file has changed.
    fn commit(&mut self, mut batch: Vec<Waiting>) -> bool {
        let before = self.changes;
        if let Err(error) = self.begin() {
            self.undo();
            fail(batch, || undone(&error));
            return false;
        }
        let ran = self.run(&mut batch);
        match ran.and_then(|()| self.save()) {
            Ok(()) => match self.end() {
                Ok(()) => batch.into_iter().for_each(|waiting| waiting.command.answer(None)),
                Err(error) if is_constraint(&error) => {
                    // Of an author's table, and checked no earlier. Nothing was committed.
                    self.undo();
                    self.one_by_one(batch, &error);
                }
                Err(error) => {
                    self.undo();
                    fail(batch, || uncommitted(&error));
                }
            },
            Err(error) => {
                self.undo();
                self.one_by_one(batch, &error);
            }
        }
        self.changes != before
    }

    /// One of a batch that was undone is bad. By itself it fails alone.
    fn one_by_one(&mut self, batch: Vec<Waiting>, error: &rusqlite::Error) {
        if batch.len() == 1 {
            return fail(batch, || undone(error));
        }
        for waiting in batch {
            self.commit(vec![waiting]);
        }
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.look()?;
        self.memory.load(&self.conn)
    }

    fn run(&mut self, batch: &mut [Waiting]) -> rusqlite::Result<()> {
        let mut tx = Tx {
            statements: Statements::new(&self.conn),
            desk: self.desk,
            desks: &self.desks,
            memory: &mut self.memory,
            rails: &self.rails,
            served: &mut self.served,
        };
        batch.iter_mut().try_for_each(|waiting| waiting.command.run(&mut tx))?;
        tx.file_if_due()
    }

    fn save(&mut self) -> rusqlite::Result<()> {
        self.memory.save(&self.conn)
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
        self.memory.forget();
        // SQLite has done it already after some errors. If it can't now, the next BEGIN fails and
        // comes here again.
        if !self.conn.is_autocommit() {
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
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
