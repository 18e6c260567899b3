//! A store that dies, fails, loses answers, or is wrong on purpose.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use steadfast_core::{Message, TaskId, Timestamp};
use steadfast_store::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, Bond, BoxFuture, Caller, Cancel, Changes,
    ClaimActivities, ClaimTasks, Claimed, Counts, Desk, Error, Filter, Held, HistoryPage, InboxRow,
    Join, Keyed, ListPage, NewTask, Order, Parcel, Poison, Posted, QuestionRow, Result, Resume,
    Retried, SendTo, SessionRow, Since, Started, StateRow, Store, Suspend, Swept, TaskKey, TaskRow,
    Touched, Turn, Turned,
};

use crate::faults::{Faults, Weather};

/// On which side of a commit to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Before it reaches the store.
    Before,
    /// When it is durable, before anybody hears of it.
    After,
}

/// An engine or store that is wrong in one way, to prove that the harness would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A start is acknowledged before it is durable, and never is.
    ReplyBeforeCommit,
    /// Whoever writes is taken for the holder.
    SkippedFence,
    /// An event is handed to the task twice.
    DeliveredTwice,
    /// A cancel is not written down.
    ForgottenCancel,
}

/// A store that dies, fails, loses answers, or is wrong on purpose.
pub struct Bent<S: ?Sized> {
    inner: Arc<S>,
    commits: AtomicU64,
    /// Commits with work of an author's.
    works: AtomicU64,
    die: Option<(u64, At)>,
    die_at_work: Option<(u64, At)>,
    on_death: Box<dyn Fn() + Send + Sync>,
    weather: Option<Weather>,
    changed: Arc<Changes>,
    mutant: Option<Mutant>,
}

impl<S: Store + ?Sized> Bent<S> {
    /// Passes everything on, and counts commits.
    pub fn new(inner: Arc<S>) -> Bent<S> {
        Bent {
            changed: inner.changed(),
            inner,
            commits: AtomicU64::new(0),
            works: AtomicU64::new(0),
            die: None,
            die_at_work: None,
            on_death: Box::new(|| {}),
            weather: None,
            mutant: None,
        }
    }

    /// Calls `death` around the commit with this number, from 1. Nothing goes on after it.
    #[must_use]
    pub fn dying(
        mut self,
        commit: u64,
        at: At,
        death: impl Fn() + Send + Sync + 'static,
    ) -> Bent<S> {
        self.die = Some((commit, at));
        self.on_death = Box::new(death);
        self
    }

    /// The number counts only commits with work of an author's. To be said after
    /// [`dying`](Bent::dying).
    #[must_use]
    pub fn at_work(mut self) -> Bent<S> {
        self.die_at_work = self.die.take();
        self
    }

    /// Lets things go wrong by chance.
    #[must_use]
    pub fn faulty(mut self, faults: Faults, seed: u64) -> Bent<S> {
        let weather = Weather::new(faults, seed);
        self.changed = weather.hear(self.inner.changed());
        self.weather = Some(weather);
        self
    }

    /// Is wrong in one way.
    #[must_use]
    pub fn mutant(mut self, mutant: Option<Mutant>) -> Bent<S> {
        self.mutant = mutant;
        self
    }

    /// How many commits there were.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// A commit, with all that can happen around it.
    async fn around<T>(&self, commit: BoxFuture<'_, Result<T>>) -> Result<T> {
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        let fate = match &self.weather {
            Some(weather) => weather.before_commit().await?,
            None => Default::default(),
        };
        if self.die == Some((number, At::Before)) {
            self.perish().await;
        }
        let result = commit.await;
        if self.die == Some((number, At::After)) {
            self.perish().await;
        }
        let (desk, late) = (self.inner.desk(), fate.is_late());
        fate.after_commit().await?;
        if late && !self.inner.is_alive(desk).await? {
            return Err(Error::Unknown("found out when the lease was over".into()));
        }
        result
    }

    /// A look at the store, if it can be reached.
    async fn look<T>(&self, look: BoxFuture<'_, Result<T>>) -> Result<T> {
        if let Some(weather) = &self.weather {
            weather.reach()?;
        }
        look.await
    }

    async fn perish(&self) {
        (self.on_death)();
        std::future::pending::<()>().await;
    }

    async fn bent_turn(&self, mut turn: Turn) -> Result<Turned> {
        if self.mutant == Some(Mutant::SkippedFence) {
            // The store was told not to look at who writes; and the numbers go on as they are.
            if let Some(last) = self.last_event(turn.lease.key).await? {
                turn.first = last + 1;
            }
        }
        self.around(self.inner.turn(turn)).await
    }

    /// Puts an event into the inbox twice, and without the id by which that would be noticed.
    async fn send_twice(&self, caller: Caller, mut send: SendTo) -> Result<Option<Touched>> {
        if let Ok(Message::Signal { name, payload, .. }) = serde_json::from_slice(&send.body) {
            let bare = Message::Signal { name, id: None, payload };
            send.body = serde_json::to_vec(&bare).unwrap_or_default();
        }
        self.inner.send(caller.clone(), send.clone()).await?;
        self.around(self.inner.send(caller, send)).await
    }

    /// Answers at once, and commits a moment later.
    async fn start_early(&self, mut task: NewTask) -> Result<Started> {
        task.hold = false;
        let inner = self.inner.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(inner.start(task).await);
        });
        Ok(Started::New { key: TaskKey(i64::MAX), lease: None, mail: false })
    }

    async fn last_event(&self, key: TaskKey) -> Result<Option<u64>> {
        let page = self.inner.history(key, Order::NewestFirst, None, 1).await?;
        Ok(page.events.first().map(|(seq, _)| *seq))
    }
}

impl<S: Store + ?Sized> Store for Bent<S> {
    fn desk(&self) -> Desk {
        self.inner.desk()
    }
    fn dead(&self) -> BoxFuture<'_, Result<Vec<Desk>>> {
        Box::pin(self.look(self.inner.dead()))
    }
    fn is_alive(&self, desk: Desk) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.look(self.inner.is_alive(desk)))
    }
    fn changed(&self) -> Arc<Changes> {
        self.changed.clone()
    }
    fn solitude(&self) -> Option<u64> {
        self.inner.solitude()
    }
    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.around(self.inner.close()))
    }
    fn start(&self, task: NewTask) -> BoxFuture<'_, Result<Started>> {
        if self.mutant == Some(Mutant::ReplyBeforeCommit) {
            return Box::pin(self.start_early(task));
        }
        Box::pin(self.around(self.inner.start(task)))
    }
    fn unbind(&self, tasks: Vec<(TaskId, Bond)>, since: Since) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.around(self.inner.unbind(tasks, since)))
    }
    fn claim(&self, claim: ClaimTasks) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        Box::pin(self.around(self.inner.claim(claim)))
    }
    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Turned>> {
        Box::pin(self.bent_turn(turn))
    }
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }
    fn begin(&self, how: Parcel) -> BoxFuture<'_, Result<Parcel>> {
        self.inner.begin(how)
    }
    fn turn_with(&self, turn: Turn, join: Join) -> BoxFuture<'_, Result<Turned>> {
        let number = self.works.fetch_add(1, Ordering::SeqCst) + 1;
        Box::pin(async move {
            if self.die_at_work == Some((number, At::Before)) {
                self.perish().await;
            }
            let result = self.around(self.inner.turn_with(turn, join)).await;
            if self.die_at_work == Some((number, At::After)) {
                self.perish().await;
            }
            result
        })
    }
    fn adopt(&self, dead: Desk, poison: Poison) -> BoxFuture<'_, Result<Adopted>> {
        Box::pin(self.around(self.inner.adopt(dead, poison)))
    }
    fn send(&self, caller: Caller, send: SendTo) -> BoxFuture<'_, Result<Option<Touched>>> {
        if self.mutant == Some(Mutant::DeliveredTwice) {
            return Box::pin(self.send_twice(caller, send));
        }
        Box::pin(self.around(self.inner.send(caller, send)))
    }
    fn answer(
        &self,
        caller: Caller,
        id: TaskId,
        question: String,
        body: Vec<u8>,
    ) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.around(self.inner.answer(caller, id, question, body)))
    }
    fn cancel(
        &self,
        caller: Caller,
        id: TaskId,
        cancel: Cancel,
    ) -> BoxFuture<'_, Result<Vec<Touched>>> {
        if self.mutant == Some(Mutant::ForgottenCancel) {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        Box::pin(self.around(self.inner.cancel(caller, id, cancel)))
    }
    fn suspend(
        &self,
        caller: Caller,
        id: TaskId,
        suspend: Suspend,
    ) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.around(self.inner.suspend(caller, id, suspend)))
    }
    fn resume(&self, caller: Caller, id: TaskId, resume: Resume) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.around(self.inner.resume(caller, id, resume)))
    }
    fn purge(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.around(self.inner.purge(caller, id)))
    }
    fn sweep(&self, now: Timestamp, limit: usize) -> BoxFuture<'_, Result<Swept>> {
        Box::pin(self.look(self.inner.sweep(now, limit)))
    }
    fn claim_activities(&self, claim: ClaimActivities) -> BoxFuture<'_, Result<Vec<ActivityRow>>> {
        Box::pin(self.around(self.inner.claim_activities(claim)))
    }
    fn end_activity(&self, end: ActivityEnd) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.around(self.inner.end_activity(end)))
    }
    fn retry_activity(&self, retried: Retried) -> BoxFuture<'_, Result<Touched>> {
        Box::pin(self.around(self.inner.retry_activity(retried)))
    }
    fn beat_activity(
        &self,
        lease: ActivityLease,
        until: Option<Timestamp>,
        release: bool,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.around(self.inner.beat_activity(lease, until, release)))
    }
    fn activity(&self, token: String) -> BoxFuture<'_, Result<Option<ActivityRow>>> {
        Box::pin(self.look(self.inner.activity(token)))
    }
    fn held_activities(&self) -> BoxFuture<'_, Result<Vec<ActivityLease>>> {
        Box::pin(self.look(self.inner.held_activities()))
    }
    fn get(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<TaskRow>> {
        Box::pin(self.look(self.inner.get(caller, id)))
    }
    fn keyed(&self, caller: Caller, dedup: String) -> BoxFuture<'_, Result<Option<Keyed>>> {
        Box::pin(self.look(self.inner.keyed(caller, dedup)))
    }
    fn row(&self, key: TaskKey) -> BoxFuture<'_, Result<Option<TaskRow>>> {
        Box::pin(self.look(self.inner.row(key)))
    }
    fn held(&self) -> BoxFuture<'_, Result<Vec<Held>>> {
        Box::pin(self.look(self.inner.held()))
    }
    fn list(
        &self,
        filter: Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<ListPage>> {
        Box::pin(self.look(self.inner.list(filter, order, after, limit)))
    }
    fn counts(&self, caller: Caller) -> BoxFuture<'_, Result<Counts>> {
        Box::pin(self.look(self.inner.counts(caller)))
    }
    fn history(
        &self,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<HistoryPage>> {
        Box::pin(self.look(self.inner.history(key, order, after, limit)))
    }
    fn inbox(&self, key: TaskKey, after: i64) -> BoxFuture<'_, Result<Vec<InboxRow>>> {
        Box::pin(self.look(self.inner.inbox(key, after)))
    }
    fn questions(&self, key: TaskKey) -> BoxFuture<'_, Result<Vec<QuestionRow>>> {
        Box::pin(self.look(self.inner.questions(key)))
    }
    fn begin_session(&self, session: SessionRow, most: usize) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.look(self.inner.begin_session(session, most)))
    }
    fn keep_session(&self, session: SessionRow, before: Vec<u8>) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.look(self.inner.keep_session(session, before)))
    }
    fn touch_session(&self, id: String, expires: Timestamp) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.look(self.inner.touch_session(id, expires)))
    }
    fn session(&self, id: String, now: Timestamp) -> BoxFuture<'_, Result<Option<SessionRow>>> {
        Box::pin(self.look(self.inner.session(id, now)))
    }
    fn end_session(&self, id: String) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.look(self.inner.end_session(id)))
    }
    fn post(&self, body: Vec<u8>, until: Timestamp, most: usize) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.look(self.inner.post(body, until, most)))
    }
    fn posted(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Posted>> {
        Box::pin(self.look(self.inner.posted(after, limit)))
    }
    fn state(&self, scope: String, key: String) -> BoxFuture<'_, Result<StateRow>> {
        Box::pin(self.look(self.inner.state(scope, key)))
    }
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>>> {
        Box::pin(self.look(self.inner.next_wake()))
    }
}
