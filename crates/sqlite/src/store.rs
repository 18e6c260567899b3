//! The handle: calls that write go to the writer, calls that read to a reader.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use rusqlite::Connection;
use steadfast_core::{TaskId, Timestamp};
use steadfast_store::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, Bond, BoxFuture, Caller, Cancel, Changes,
    ClaimActivities, ClaimTasks, Claimed, Counts, Desk, Filter, Held, HistoryPage, InboxRow, Join,
    Keyed, ListPage, NewTask, Order, Poison, Posted, QuestionRow, Result, Resume, Retried, SendTo,
    SessionRow, Since, Started, StateRow, Suspend, Swept, TaskKey, TaskRow, Touched, Turn, Turned,
};

use crate::{
    OpenError, Options,
    bell::Bell,
    desk::{Desks, Seat},
    join,
    memory::Memory,
    rails::{self, Rails},
    read::{Readers, busy},
    tx::Tx,
    writer::{Office, Writer},
};

/// One open handle on a file. Dropped without [`close`](steadfast_store::Store::close) it is like a
/// process that died: commits that were made are there, and what it held lies on a dead desk.
pub struct Store {
    desk: Desk,
    desks: Desks,
    office: Arc<Office>,
    readers: Arc<Readers>,
    changed: Arc<Changes>,
    /// What must outlive every write: the lock that says this desk is alive. Gone with its last write, or with
    /// the handle.
    seat: Mutex<Option<Seat>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    closed: AtomicBool,
}

impl Store {
    /// Opens the file at this path with full durability, and creates it if it doesn't exist. See
    /// [`Options`] for more.
    pub fn open(path: impl Into<std::path::PathBuf>) -> std::result::Result<Store, OpenError> {
        Options::new(path).open()
    }

    pub(crate) fn begin(
        options: Options,
        mut conn: Connection,
        desks: Desks,
        seat: Seat,
    ) -> std::result::Result<Store, OpenError> {
        let rails = Rails::lay(&mut conn)
            .map_err(|e| OpenError::Failed { path: options.path.clone(), detail: e.to_string() })?;
        let changed = Arc::new(Changes::default());
        if let Ok(busy) = busy(&conn) {
            desks.clean(|desk| !busy.contains(&desk));
        }
        let seen = conn.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap_or(0);
        let writer = Writer {
            changes: conn.total_changes(),
            conn,
            changed: Arc::clone(&changed),
            strangers: Arc::default(),
            desk: seat.number,
            desks: desks.clone(),
            flush_delay: options.flush_delay,
            memory: Memory::default(),
            rails,
            seen,
            served: None,
        };
        let thread = std::thread::Builder::new().name("steadfast-sqlite".into());
        let bell = Bell::hang(desks.path(), seat.number).ok();
        let rings = bell.is_some();
        let office = Arc::new(Office::new(writer, bell));
        if rings {
            let hearing = Arc::clone(&office);
            let thread = std::thread::Builder::new().name("steadfast-bell".into());
            // Without it changes are noticed a little later.
            let _ = thread.spawn(move || hearing.hear());
        }
        let working = Arc::clone(&office);
        let spawned = thread.spawn(move || working.work());
        let thread = spawned.map_err(|e| OpenError::Failed {
            path: options.path.clone(),
            detail: format!("no thread for the writer: {e}"),
        })?;
        Ok(Store {
            desk: Desk(seat.number),
            desks,
            office,
            readers: Readers::new(options),
            changed,
            seat: Mutex::new(Some(seat)),
            writer: Mutex::new(Some(thread)),
            closed: AtomicBool::new(false),
        })
    }

    /// Dies like a process: what waits is not done any more, every later call is refused as
    /// unavailable, and the desk is seen to be dead. For tests.
    #[doc(hidden)]
    pub fn kill(&self) {
        self.readers.close();
        self.leave(true);
    }

    fn leave(&self, discard: bool) {
        self.office.close(discard);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = writer {
            // The writer has ended before the lock is let go: nothing is written by the dead.
            let _ = thread.join();
            self.office.quiet();
        }
        self.seat().take();
    }

    fn seat(&self) -> MutexGuard<'_, Option<Seat>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.leave(false);
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("desk", &self.desk).finish_non_exhaustive()
    }
}

/// A call that writes: how much, and what.
macro_rules! write {
    ($self:ident, $bytes:expr, |$tx:ident| $apply:expr) => {{
        let bytes = $bytes;
        Box::pin(async move { $self.office.call(bytes, move |$tx| $apply).await })
    }};
}

impl steadfast_store::Store for Store {
    fn desk(&self) -> Desk {
        self.desk
    }

    fn dead(&self) -> BoxFuture<'_, Result<Vec<Desk>>> {
        Box::pin(async move {
            let (desks, own) = (self.desks.clone(), self.desk.0);
            self.readers
                .scan(move |conn| {
                    let busy = busy(conn)?;
                    desks.clean(|desk| !busy.contains(&desk));
                    let others = busy.into_iter().filter(|desk| *desk != own);
                    Ok(others.filter(|desk| !desks.is_alive(*desk)).map(Desk).collect())
                })
                .await
        })
    }

    fn is_alive(&self, desk: Desk) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            match desk == self.desk {
                true => Ok(self.seat().is_some()),
                false => Ok(self.desks.is_alive(desk.0)),
            }
        })
    }

    fn changed(&self) -> Arc<Changes> {
        Arc::clone(&self.changed)
    }

    fn solitude(&self) -> Option<u64> {
        self.office.solitude()
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            rails::not_inside()?;
            if self.closed.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
            let mut seat = self.seat().take();
            let close = move |tx: &mut Tx<'_>| {
                let closed = tx.close();
                // Before the commit, so that nobody sees what is given back and takes this desk for alive; and
                // not before the transaction, in which nobody can adopt it.
                drop(seat.take());
                closed
            };
            self.office.call_last(0, close).await?;
            self.desks.remove(self.desk.0);
            Ok(())
        })
    }

    fn start(&self, task: NewTask) -> BoxFuture<'_, Result<Started>> {
        write!(self, task.bytes(), |tx| tx.start(&task))
    }

    fn unbind(&self, tasks: Vec<(TaskId, Bond)>, since: Since) -> BoxFuture<'_, Result<()>> {
        write!(self, 0, |tx| tx.unbind(&tasks, since.moment))
    }

    fn claim(&self, claim: ClaimTasks) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        write!(self, 0, |tx| tx.claim(&claim))
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Turned>> {
        write!(self, turn.bytes(), |tx| tx.turn(&turn))
    }

    fn kind(&self) -> &'static str {
        join::KIND
    }

    fn turn_with(&self, turn: Turn, join: Join) -> BoxFuture<'_, Result<Turned>> {
        Box::pin(join::turn_with(&self.office, turn, join))
    }

    fn adopt(&self, dead: Desk, poison: Poison) -> BoxFuture<'_, Result<Adopted>> {
        write!(self, poison.view.len(), |tx| tx.adopt(dead, &poison))
    }

    fn send(&self, caller: Caller, send: SendTo) -> BoxFuture<'_, Result<Option<Touched>>> {
        write!(self, send.body.len(), |tx| tx.send(&caller, &send))
    }

    fn answer(
        &self,
        caller: Caller,
        id: TaskId,
        question: String,
        body: Vec<u8>,
    ) -> BoxFuture<'_, Result<Touched>> {
        write!(self, body.len(), |tx| tx.answer(&caller, &id, &question, &body))
    }

    fn cancel(
        &self,
        caller: Caller,
        id: TaskId,
        cancel: Cancel,
    ) -> BoxFuture<'_, Result<Vec<Touched>>> {
        write!(self, cancel.bytes(), |tx| tx.cancel(&caller, &id, &cancel))
    }

    fn suspend(
        &self,
        caller: Caller,
        id: TaskId,
        suspend: Suspend,
    ) -> BoxFuture<'_, Result<Touched>> {
        write!(self, suspend.view.len(), |tx| tx.suspend(&caller, &id, &suspend))
    }

    fn resume(&self, caller: Caller, id: TaskId, resume: Resume) -> BoxFuture<'_, Result<Touched>> {
        write!(self, resume.view.len(), |tx| tx.resume(&caller, &id, &resume))
    }

    fn purge(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<()>> {
        write!(self, 0, |tx| tx.purge(&caller, &id))
    }

    fn sweep(&self, now: Timestamp, limit: usize) -> BoxFuture<'_, Result<Swept>> {
        write!(self, 0, |tx| tx.sweep(now, limit))
    }

    fn claim_activities(&self, claim: ClaimActivities) -> BoxFuture<'_, Result<Vec<ActivityRow>>> {
        write!(self, 0, |tx| tx.claim_activities(&claim))
    }

    fn end_activity(&self, end: ActivityEnd) -> BoxFuture<'_, Result<Touched>> {
        write!(self, end.body.len(), |tx| tx.end_activity(&end))
    }

    fn retry_activity(&self, retried: Retried) -> BoxFuture<'_, Result<Touched>> {
        write!(self, retried.body.len(), |tx| tx.retry_activity(&retried))
    }

    fn beat_activity(
        &self,
        lease: ActivityLease,
        until: Option<Timestamp>,
        release: bool,
    ) -> BoxFuture<'_, Result<()>> {
        write!(self, 0, |tx| tx.beat_activity(lease, until, release))
    }

    fn activity(&self, token: String) -> BoxFuture<'_, Result<Option<ActivityRow>>> {
        Box::pin(async move { self.readers.activity(&token) })
    }

    fn held_activities(&self) -> BoxFuture<'_, Result<Vec<ActivityLease>>> {
        Box::pin(async move { self.readers.held_activities(self.desk.0) })
    }

    fn begin_session(&self, session: SessionRow, most: usize) -> BoxFuture<'_, Result<()>> {
        write!(self, session.body.len(), |tx| tx.begin_session(&session, most))
    }

    fn keep_session(&self, session: SessionRow, before: Vec<u8>) -> BoxFuture<'_, Result<bool>> {
        write!(self, session.body.len() + before.len(), |tx| tx.keep_session(&session, &before))
    }

    fn touch_session(&self, id: String, expires: Timestamp) -> BoxFuture<'_, Result<bool>> {
        write!(self, 0, |tx| tx.touch_session(&id, expires))
    }

    fn session(&self, id: String, now: Timestamp) -> BoxFuture<'_, Result<Option<SessionRow>>> {
        Box::pin(async move { self.readers.session(id, now) })
    }

    fn end_session(&self, id: String) -> BoxFuture<'_, Result<bool>> {
        write!(self, 0, |tx| tx.end_session(&id))
    }

    fn post(&self, body: Vec<u8>, until: Timestamp, most: usize) -> BoxFuture<'_, Result<u64>> {
        write!(self, body.len(), |tx| Ok(tx.post(&body, until, most)?))
    }

    fn posted(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Posted>> {
        Box::pin(async move { self.readers.posted(after, limit) })
    }

    fn get(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<TaskRow>> {
        Box::pin(async move { self.readers.get(&caller, &id) })
    }

    fn get_with_questions(
        &self,
        caller: Caller,
        id: TaskId,
    ) -> BoxFuture<'_, Result<(TaskRow, Vec<QuestionRow>)>> {
        Box::pin(async move { self.readers.get_with_questions(&caller, &id) })
    }

    fn keyed(&self, caller: Caller, dedup: String) -> BoxFuture<'_, Result<Option<Keyed>>> {
        Box::pin(async move { self.readers.keyed(&caller, &dedup) })
    }

    fn row(&self, key: TaskKey) -> BoxFuture<'_, Result<Option<TaskRow>>> {
        Box::pin(async move { self.readers.row(key) })
    }

    fn held(&self) -> BoxFuture<'_, Result<Vec<Held>>> {
        Box::pin(async move { self.readers.held(self.desk.0) })
    }

    fn list(
        &self,
        filter: Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<ListPage>> {
        Box::pin(async move { self.readers.list(filter, order, after, limit).await })
    }

    fn counts(&self, caller: Caller) -> BoxFuture<'_, Result<Counts>> {
        Box::pin(async move { self.readers.counts(caller).await })
    }

    fn history(
        &self,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<HistoryPage>> {
        Box::pin(async move { self.readers.history(key, order, after, limit).await })
    }

    fn inbox(&self, key: TaskKey, after: i64) -> BoxFuture<'_, Result<Vec<InboxRow>>> {
        Box::pin(async move { self.readers.inbox(key, after) })
    }

    fn questions(&self, key: TaskKey) -> BoxFuture<'_, Result<Vec<QuestionRow>>> {
        Box::pin(async move { self.readers.questions(key) })
    }

    fn state(&self, scope: String, key: String) -> BoxFuture<'_, Result<StateRow>> {
        Box::pin(async move { self.readers.state(&scope, &key) })
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>>> {
        Box::pin(async move { self.readers.next_wake() })
    }
}
