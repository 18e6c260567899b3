//! The handle: calls that write go to the writer or to the lane of solo calls, calls that read to a
//! reader.

mod begin;

use std::sync::{Arc, Mutex, PoisonError};

use steadfast_core::{TaskId, Timestamp};
use steadfast_store::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, Bond, BoxFuture, Caller, Cancel, Changes,
    ClaimActivities, ClaimTasks, Claimed, Counts, Desk, Error, Filter, Held, HistoryPage, InboxRow,
    Join, Keyed, ListPage, NewTask, Order, Parcel, Poison, Posted, QuestionRow, Result, Resume,
    Retried, SendTo, SessionRow, Since, Started, StateRow, Suspend, Swept, TaskKey, TaskRow,
    Touched, Turn, Turned,
};

use self::begin::Life;
use crate::{
    OpenError, Options,
    core::Core,
    join::{self, Pool},
    queue::Apply,
    read::Readers,
    solo, write,
};

/// One open handle on a database. Dropped without [`close`](steadfast_store::Store::close) it is like
/// a process that died: commits that were made are there, and what it held lies on a desk that is
/// dead when its lease has run out.
///
/// If this process is not heard of for longer than its lease, others take over what it held. When it
/// comes back it takes a new desk: what it still does with the old leases is refused, and the rest
/// goes on.
pub struct Store {
    core: Arc<Core>,
    readers: Readers,
    solo: solo::Desk,
    sweeper: solo::Desk,
    pool: Arc<Pool>,
    life: Mutex<Option<Life>>,
}

impl Store {
    /// Opens the database at this address; see [`Options`] for more.
    pub async fn open(address: impl Into<String>) -> std::result::Result<Store, OpenError> {
        Options::new(address).open().await
    }

    /// Dies like a process: what waits is not done any more, every later call is refused as
    /// unavailable, and the desk is dead when its lease has run out. For tests.
    #[doc(hidden)]
    pub fn kill(&self) {
        self.core.queue.close(true);
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(life) = life {
            life.end();
        }
    }

    /// Whether the database can be read, and takes what is written by those connections that write. What says so
    /// needs no room on a disk: after a write that failed there is one that does.
    async fn ask(&self) -> Result<()> {
        self.readers.is_alive(self.core.desk()).await?;
        let was_in_trouble = self.core.health.is_in_trouble();
        self.write(write::Nothing).await?;
        if was_in_trouble && let Err(error) = self.readers.has_room().await {
            self.core.health.failed(&error);
            return Err(error);
        }
        Ok(())
    }

    async fn write<A: Apply>(&self, apply: A) -> Result<A::Answer> {
        self.core.check_open()?;
        match self.core.queue.put(apply)?.await {
            Ok(mut call) => call.outcome(),
            // Only a panic, or a kill, of the writer loses an answer.
            Err(_) => Err(Error::Unknown("the writer has died".into())),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // What waits is still done, and the thread ends by itself.
        self.core.queue.close(false);
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("desk", &self.core.desk()).finish_non_exhaustive()
    }
}

impl steadfast_store::Store for Store {
    fn desk(&self) -> Desk {
        Desk(self.core.desk())
    }

    fn dead(&self) -> BoxFuture<'_, Result<Vec<Desk>>> {
        Box::pin(async move { self.readers.dead(self.core.desk()).await })
    }

    fn is_alive(&self, desk: Desk) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.readers.is_alive(desk.0).await })
    }

    fn changed(&self) -> Arc<Changes> {
        Arc::clone(&self.core.changed)
    }

    fn check(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.core.check_open()?;
            self.core.health.up_to_date()?;
            // However many ask while it does not answer, one waits for it.
            let _alone = self.core.health.asking.lock().await;
            if let Some(said) = self.core.health.said() {
                return said;
            }
            let said = self.ask().await;
            self.core.health.heard(&said);
            said
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.solo.give_back(&self.core))
    }

    fn start(&self, task: NewTask) -> BoxFuture<'_, Result<Started>> {
        Box::pin(self.write(write::StartTask(task)))
    }

    fn unbind(&self, tasks: Vec<(TaskId, Bond)>, since: Since) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(write::Unbind(tasks, since)))
    }

    fn claim(&self, claim: ClaimTasks) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        Box::pin(self.solo.call(&self.core, solo::Claim::new(claim)))
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Turned>> {
        Box::pin(self.write(write::TakeTurn(turn)))
    }

    fn kind(&self) -> &'static str {
        join::KIND
    }

    fn begin(&self, how: Parcel) -> BoxFuture<'_, Result<Parcel>> {
        Box::pin(join::begin(&self.pool, how))
    }

    fn turn_with(&self, turn: Turn, join: Join) -> BoxFuture<'_, Result<Turned>> {
        Box::pin(join::turn_with(&self.core, turn, join))
    }

    fn adopt(&self, dead: Desk, poison: Poison) -> BoxFuture<'_, Result<Adopted>> {
        Box::pin(self.solo.call(&self.core, solo::Adopt { dead: dead.0, poison }))
    }

    fn send(&self, caller: Caller, send: SendTo) -> BoxFuture<'_, Result<Option<Touched>>> {
        Box::pin(self.write(write::SendMail { caller, send }))
    }

    fn answer(
        &self,
        caller: Caller,
        id: TaskId,
        question: String,
        body: Vec<u8>,
    ) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.write(write::Answer { caller, id, question, body }))
    }

    fn cancel(
        &self,
        caller: Caller,
        id: TaskId,
        cancel: Cancel,
    ) -> BoxFuture<'_, Result<Vec<Touched>>> {
        Box::pin(self.write(write::CancelTask { caller, id, cancel }))
    }

    fn suspend(
        &self,
        caller: Caller,
        id: TaskId,
        suspend: Suspend,
    ) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.write(write::SuspendTask { caller, id, suspend }))
    }

    fn resume(&self, caller: Caller, id: TaskId, resume: Resume) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.write(write::ResumeTask { caller, id, resume }))
    }

    fn purge(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(write::Purge { caller, id }))
    }

    fn sweep(&self, now: Timestamp, limit: usize) -> BoxFuture<'_, Result<Swept>> {
        Box::pin(solo::sweep(&self.sweeper, &self.core, now, limit))
    }

    fn claim_activities(&self, claim: ClaimActivities) -> BoxFuture<'_, Result<Vec<ActivityRow>>> {
        Box::pin(self.solo.call(&self.core, solo::ClaimWork::new(claim)))
    }

    fn end_activity(&self, end: ActivityEnd) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.write(write::EndActivity(end)))
    }

    fn retry_activity(&self, retried: Retried) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.write(write::RetryActivity(retried)))
    }

    fn beat_activity(
        &self,
        lease: ActivityLease,
        until: Option<Timestamp>,
        release: bool,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(write::BeatActivity { lease, until, release }))
    }

    fn activity(&self, token: String) -> BoxFuture<'_, Result<Option<ActivityRow>>> {
        Box::pin(async move { self.readers.activity(&token).await })
    }

    fn held_activities(&self) -> BoxFuture<'_, Result<Vec<ActivityLease>>> {
        Box::pin(async move { self.readers.held_activities(self.core.desk()).await })
    }

    fn begin_session(&self, session: SessionRow, most: usize) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(write::BeginSession { session, most }))
    }

    fn keep_session(&self, session: SessionRow, before: Vec<u8>) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.solo.call(&self.core, solo::KeepSession { session, before }))
    }

    fn touch_session(&self, id: String, expires: Timestamp) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.solo.call(&self.core, solo::TouchSession { id, expires }))
    }

    fn session(&self, id: String, now: Timestamp) -> BoxFuture<'_, Result<Option<SessionRow>>> {
        Box::pin(self.readers.session(id, now))
    }

    fn end_session(&self, id: String) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.write(write::EndSession(id)))
    }

    fn post(&self, body: Vec<u8>, until: Timestamp, most: usize) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.write(write::Post { body, until, most }))
    }

    fn posted(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Posted>> {
        Box::pin(self.readers.posted(after, limit))
    }

    fn get(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<TaskRow>> {
        Box::pin(async move { self.readers.get(&caller, &id).await })
    }

    fn get_with_questions(
        &self,
        caller: Caller,
        id: TaskId,
    ) -> BoxFuture<'_, Result<(TaskRow, Vec<QuestionRow>)>> {
        Box::pin(async move { self.readers.get_with_questions(&caller, &id).await })
    }

    fn keyed(&self, caller: Caller, dedup: String) -> BoxFuture<'_, Result<Option<Keyed>>> {
        Box::pin(async move { self.readers.keyed(&caller, &dedup).await })
    }

    fn row(&self, key: TaskKey) -> BoxFuture<'_, Result<Option<TaskRow>>> {
        Box::pin(self.readers.row(key))
    }

    fn held(&self) -> BoxFuture<'_, Result<Vec<Held>>> {
        Box::pin(async move { self.readers.held(self.core.desk()).await })
    }

    fn list(
        &self,
        filter: Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<ListPage>> {
        Box::pin(self.readers.list(filter, order, after, limit))
    }

    fn counts(&self, caller: Caller) -> BoxFuture<'_, Result<Counts>> {
        Box::pin(async move { self.readers.counts(&caller).await })
    }

    fn history(
        &self,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<HistoryPage>> {
        Box::pin(self.readers.history(key, order, after, limit))
    }

    fn inbox(&self, key: TaskKey, after: i64) -> BoxFuture<'_, Result<Vec<InboxRow>>> {
        Box::pin(self.readers.inbox(key, after))
    }

    fn questions(&self, key: TaskKey) -> BoxFuture<'_, Result<Vec<QuestionRow>>> {
        Box::pin(self.readers.questions(key))
    }

    fn state(&self, scope: String, key: String) -> BoxFuture<'_, Result<StateRow>> {
        Box::pin(async move { self.readers.state(&scope, &key).await })
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>>> {
        Box::pin(self.readers.next_wake())
    }
}
