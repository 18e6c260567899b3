//! A store in memory: for tests, for simulations, and for tasks that may die with the process.
//!
//! All of the content lies behind one mutex that is never held across an await, so every call is
//! one atomic step. Nothing here depends on time, chance or the order of a hash map: the same calls
//! in the same order give the same answers.

mod activity;
mod adopt;
mod claim;
mod content;
mod effect;
mod notice;
mod outside;
mod read;
mod session;
mod start;
mod sweep;
mod turn;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use steadfast_core::{TaskId, Timestamp};

use self::content::Content;
use crate::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, Bond, BoxFuture, Caller, Cancel, Change,
    Changes, ClaimActivities, ClaimTasks, Claimed, Counts, Dedup, Desk, Error, Filter, Held,
    HistoryPage, InboxRow, Keyed, ListPage, NewTask, Order, Poison, Posted, QuestionRow, Result,
    Resume, Retried, SendTo, SessionRow, Since, Started, StateRow, Store, Suspend, Swept, TaskKey,
    TaskRow, Touched, Turn, Turned,
};

/// What a store in memory contains. Clones are the same content; it lives as long as one of them,
/// or a [`Memory`], does.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Content>>);

impl Disk {
    /// An empty one.
    #[must_use]
    pub fn new() -> Disk {
        Disk::default()
    }

    /// From now on whoever writes is taken for the holder.
    #[cfg(feature = "mutants")]
    pub fn skip_fence(&self) {
        self.lock().skip_fence = true;
    }

    /// Opens another handle on it.
    #[must_use]
    pub fn open(&self) -> Memory {
        let changed = Arc::new(Changes::default());
        let desk = AtomicI64::new(self.lock().seat(Arc::clone(&changed)).0);
        let (dead, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Memory { disk: self.clone(), desk, changed, dead, closed, leased: false }
    }

    /// The same, of a process that lives by a lease, as on a store that others reach over a network:
    /// when it was [taken for dead](Memory::presume_dead) its next call that writes finds that out, and
    /// is made from a new desk.
    #[must_use]
    pub fn open_leased(&self) -> Memory {
        let mut handle = self.open();
        handle.leased = true;
        handle
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // A panic inside a call is a bug of this store. Those that come after it still get to see
        // what is there, rather than a second panic that hides the first.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open handle on a [`Disk`]. Dropped or [killed](Memory::kill) it is a process that died: what
/// it holds lies on a dead desk.
#[derive(Debug)]
pub struct Memory {
    disk: Disk,
    /// Changed with the content locked.
    desk: AtomicI64,
    changed: Arc<Changes>,
    dead: AtomicBool,
    /// It was given back: it can look at what is there, and change nothing.
    closed: AtomicBool,
    leased: bool,
}

impl Memory {
    /// Dies like a process: every later call through this handle, also one that was made before
    /// but not yet polled, has no effect and returns [`Error::Unavailable`].
    pub fn kill(&self) {
        let mut content = self.disk.lock();
        self.dead.store(true, Ordering::Relaxed);
        content.leave(self.own_desk());
    }

    /// Is taken for dead by the others from now on, and is not: as after a long pause.
    pub fn presume_dead(&self) {
        self.disk.lock().leave(self.own_desk());
    }

    fn own_desk(&self) -> Desk {
        Desk(self.desk.load(Ordering::Acquire))
    }

    /// Takes a new desk if this one is taken for dead. Whoever believes to hold something looks at it.
    fn sit_down(&self, content: &mut Content) {
        if self.leased && content.is_dead(self.own_desk()) {
            let desk = content.seat(Arc::clone(&self.changed));
            content.rebind(self.own_desk(), desk);
            self.desk.store(desk.0, Ordering::Release);
            self.changed.tell(Change::anything());
        }
    }

    /// Looks at the content.
    fn read<T>(&self, look: impl FnOnce(&Content) -> Result<T>) -> Result<T> {
        let content = self.disk.lock();
        self.alive()?;
        look(&content)
    }

    /// Changes the content, and tells the other handles if it did.
    fn write<T>(&self, change: impl FnOnce(&mut Content, Desk) -> Result<T>) -> Result<T> {
        let mut content = self.disk.lock();
        self.alive()?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Unavailable("this handle is closed".into()));
        }
        self.sit_down(&mut content);
        let desk = self.own_desk();
        let done = change(&mut content, desk);
        content.announce(desk);
        done
    }

    /// Asked with the content locked, as `kill` sets it: no call straddles a death.
    fn alive(&self) -> Result<()> {
        match self.dead.load(Ordering::Relaxed) {
            true => Err(Error::Unavailable("this handle was killed".into())),
            false => Ok(()),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Store for Memory {
    fn desk(&self) -> Desk {
        self.own_desk()
    }

    fn kind(&self) -> &'static str {
        "the store in memory"
    }

    fn dead(&self) -> BoxFuture<'_, Result<Vec<Desk>>> {
        Box::pin(async move { self.read(|content| Ok(content.dead())) })
    }

    fn is_alive(&self, desk: Desk) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.read(|content| Ok(!content.is_dead(desk))) })
    }

    fn changed(&self) -> Arc<Changes> {
        Arc::clone(&self.changed)
    }

    fn solitude(&self) -> Option<u64> {
        self.disk.lock().solitude(self.own_desk())
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.closed.load(Ordering::Relaxed) {
                return self.alive();
            }
            self.write(|content, desk| {
                self.closed.store(true, Ordering::Relaxed);
                content.close(desk);
                content.leave(desk);
                Ok(())
            })
        })
    }

    fn start(&self, task: NewTask) -> BoxFuture<'_, Result<Started>> {
        Box::pin(async move {
            self.write(|content, desk| {
                task.dedup.as_ref().map_or(Ok(()), Dedup::in_time)?;
                content.start(task, Some(desk))
            })
        })
    }

    fn unbind(&self, tasks: Vec<(TaskId, Bond)>, since: Since) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.write(|content, _| {
                content.unbind(&tasks, since.moment);
                Ok(())
            })
        })
    }

    fn claim(&self, claim: ClaimTasks) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        Box::pin(async move { self.write(|content, desk| Ok(content.claim(&claim, desk))) })
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Turned>> {
        Box::pin(async move { self.write(|content, desk| content.turn(turn, desk)) })
    }

    fn adopt(&self, dead: Desk, poison: Poison) -> BoxFuture<'_, Result<Adopted>> {
        Box::pin(async move { self.write(|content, _| Ok(content.adopt(dead, &poison))) })
    }

    fn held(&self) -> BoxFuture<'_, Result<Vec<Held>>> {
        Box::pin(async move { self.read(|content| Ok(content.held(self.own_desk()))) })
    }

    fn send(&self, caller: Caller, send: SendTo) -> BoxFuture<'_, Result<Option<Touched>>> {
        Box::pin(async move { self.write(|content, desk| content.send(&caller, send, desk)) })
    }

    fn answer(
        &self,
        caller: Caller,
        id: TaskId,
        question: String,
        body: Vec<u8>,
    ) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(async move {
            self.write(|content, desk| content.answer(&caller, &id, &question, body, desk))
        })
    }

    fn cancel(
        &self,
        caller: Caller,
        id: TaskId,
        cancel: Cancel,
    ) -> BoxFuture<'_, Result<Vec<Touched>>> {
        Box::pin(
            async move { self.write(|content, desk| content.cancel(&caller, &id, cancel, desk)) },
        )
    }

    fn suspend(
        &self,
        caller: Caller,
        id: TaskId,
        suspend: Suspend,
    ) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(
            async move { self.write(|content, desk| content.suspend(&caller, &id, suspend, desk)) },
        )
    }

    fn resume(&self, caller: Caller, id: TaskId, resume: Resume) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(
            async move { self.write(|content, desk| content.resume(&caller, &id, resume, desk)) },
        )
    }

    fn purge(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.write(|content, _| content.purge(&caller, &id)) })
    }

    fn sweep(&self, now: Timestamp, limit: usize) -> BoxFuture<'_, Result<Swept>> {
        Box::pin(async move { self.write(|content, _| Ok(content.sweep(now, limit))) })
    }

    fn claim_activities(&self, claim: ClaimActivities) -> BoxFuture<'_, Result<Vec<ActivityRow>>> {
        Box::pin(
            async move { self.write(|content, desk| Ok(content.claim_activities(&claim, desk))) },
        )
    }

    fn end_activity(&self, end: ActivityEnd) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(async move { self.write(|content, desk| content.end_activity(end, desk)) })
    }

    fn retry_activity(&self, retried: Retried) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(async move { self.write(|content, desk| content.retry_activity(retried, desk)) })
    }

    fn beat_activity(
        &self,
        lease: ActivityLease,
        until: Option<Timestamp>,
        release: bool,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(
            async move { self.write(|content, _| content.beat_activity(lease, until, release)) },
        )
    }

    fn activity(&self, token: String) -> BoxFuture<'_, Result<Option<ActivityRow>>> {
        Box::pin(async move { self.read(|content| Ok(content.activity(&token))) })
    }

    fn held_activities(&self) -> BoxFuture<'_, Result<Vec<ActivityLease>>> {
        Box::pin(async move { self.read(|content| Ok(content.held_activities(self.own_desk()))) })
    }

    fn begin_session(&self, session: SessionRow, most: usize) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.write(|content, _| {
                content.begin_session(session, most);
                Ok(())
            })
        })
    }

    fn keep_session(&self, session: SessionRow, before: Vec<u8>) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.write(|content, _| Ok(content.keep_session(session, &before))) })
    }

    fn touch_session(&self, id: String, expires: Timestamp) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.write(|content, _| Ok(content.touch_session(&id, expires))) })
    }

    fn session(&self, id: String, now: Timestamp) -> BoxFuture<'_, Result<Option<SessionRow>>> {
        Box::pin(async move { self.read(|content| Ok(content.session(&id, now))) })
    }

    fn end_session(&self, id: String) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.write(|content, _| Ok(content.end_session(&id))) })
    }

    fn post(&self, body: Vec<u8>, until: Timestamp, most: usize) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { self.write(|content, _| Ok(content.post(body, until, most))) })
    }

    fn posted(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Posted>> {
        Box::pin(async move { self.read(|content| Ok(content.posted(after, limit))) })
    }

    fn get(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<TaskRow>> {
        Box::pin(async move { self.read(|content| content.get(&caller, &id)) })
    }

    fn get_with_questions(
        &self,
        caller: Caller,
        id: TaskId,
    ) -> BoxFuture<'_, Result<(TaskRow, Vec<QuestionRow>)>> {
        Box::pin(async move {
            self.read(|content| {
                let row = content.get(&caller, &id)?;
                let questions = content.questions(row.key);
                Ok((row, questions))
            })
        })
    }

    fn keyed(&self, caller: Caller, dedup: String) -> BoxFuture<'_, Result<Option<Keyed>>> {
        Box::pin(async move { self.read(|content| Ok(content.keyed(&caller, dedup))) })
    }

    fn row(&self, key: TaskKey) -> BoxFuture<'_, Result<Option<TaskRow>>> {
        Box::pin(async move { self.read(|content| Ok(content.row(key))) })
    }

    fn list(
        &self,
        filter: Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<ListPage>> {
        Box::pin(async move { self.read(|content| Ok(content.list(&filter, order, after, limit))) })
    }

    fn counts(&self, caller: Caller) -> BoxFuture<'_, Result<Counts>> {
        Box::pin(async move { self.read(|content| Ok(content.counts(&caller))) })
    }

    fn history(
        &self,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<HistoryPage>> {
        Box::pin(async move { self.read(|content| Ok(content.history(key, order, after, limit))) })
    }

    fn inbox(&self, key: TaskKey, after: i64) -> BoxFuture<'_, Result<Vec<InboxRow>>> {
        Box::pin(async move { self.read(|content| Ok(content.inbox(key, after))) })
    }

    fn questions(&self, key: TaskKey) -> BoxFuture<'_, Result<Vec<QuestionRow>>> {
        Box::pin(async move { self.read(|content| Ok(content.questions(key))) })
    }

    fn state(&self, scope: String, key: String) -> BoxFuture<'_, Result<StateRow>> {
        Box::pin(async move { self.read(|content| Ok(content.state(scope, key))) })
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>>> {
        Box::pin(async move { self.read(|content| Ok(content.next_wake())) })
    }
}
