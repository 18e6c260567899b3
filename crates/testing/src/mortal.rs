//! A store that can die under its engine.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use steadfast_engine::{Bond, Order, TaskId, Timestamp};
use steadfast_store::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, BoxFuture, Caller, Cancel, ClaimActivities,
    ClaimTasks, Claimed, Counts, Desk, Error, Filter, Held, HistoryPage, InboxRow, ListPage,
    NewTask, Poison, Posted, QuestionRow, Result, Resume, Retried, SendTo, SessionRow, Started,
    StateRow, Store, Suspend, Swept, TaskKey, TaskRow, Touched, Turn, Turned,
};
use tokio::sync::Notify;

use crate::wait::until;

/// A handle on a store that lets go of it when it is killed, whoever still holds the handle.
pub(crate) struct Mortal {
    inner: RwLock<Option<Arc<dyn Store>>>,
    desk: Desk,
    changed: Arc<Notify>,
}

impl Mortal {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Mortal {
        let (desk, changed) = (inner.desk(), inner.changed());
        Mortal { inner: RwLock::new(Some(inner)), desk, changed }
    }

    fn alive(&self) -> Result<Arc<dyn Store>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner).clone();
        inner.ok_or_else(|| Error::Unavailable("this server was killed".into()))
    }

    /// No call that is made from now on has an effect.
    pub(crate) fn kill(&self) -> Dying {
        let inner = self.inner.write().unwrap_or_else(PoisonError::into_inner).take();
        Dying(inner.map(|inner| Arc::downgrade(&inner)))
    }
}

/// A store whose last calls are on their way.
pub(crate) struct Dying(Option<Weak<dyn Store>>);

impl Dying {
    /// Waits until none is: then the desk is seen to be dead.
    pub(crate) async fn dead(self) {
        let Some(inner) = self.0 else { return };
        until("the store to be let go of", || inner.strong_count() == 0).await;
    }
}

macro_rules! mortal {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> BoxFuture<'_, Result<$answer>> {
            Box::pin(async move {
                let done = self.alive()?.$name($($arg),*).await;
                // The dead hear nothing.
                match self.alive() {
                    Ok(_) => done,
                    Err(_) => Err(Error::Unknown("this server was killed meanwhile".into())),
                }
            })
        }
    )*};
}

impl Store for Mortal {
    fn desk(&self) -> Desk {
        self.desk
    }

    fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    mortal! {
        fn dead() -> Vec<Desk>;
        fn is_alive(desk: Desk) -> bool;
        fn unbind(tasks: Vec<(TaskId, Bond)>) -> ();
        fn keyed(caller: Caller, dedup: String) -> Option<TaskId>;
        fn close() -> ();
        fn start(task: NewTask) -> Started;
        fn claim(claim: ClaimTasks) -> Vec<Claimed>;
        fn turn(turn: Turn) -> Turned;
        fn adopt(dead: Desk, poison: Poison) -> Adopted;
        fn send(caller: Caller, send: SendTo) -> Option<Touched>;
        fn answer(caller: Caller, id: TaskId, question: String, body: Vec<u8>) -> Touched;
        fn cancel(caller: Caller, id: TaskId, cancel: Cancel) -> Vec<Touched>;
        fn suspend(caller: Caller, id: TaskId, suspend: Suspend) -> Touched;
        fn resume(caller: Caller, id: TaskId, resume: Resume) -> Touched;
        fn purge(caller: Caller, id: TaskId) -> ();
        fn sweep(now: Timestamp, limit: usize) -> Swept;
        fn claim_activities(claim: ClaimActivities) -> Vec<ActivityRow>;
        fn end_activity(end: ActivityEnd) -> Touched;
        fn retry_activity(retried: Retried) -> Touched;
        fn beat_activity(lease: ActivityLease, until: Option<Timestamp>, release: bool) -> ();
        fn activity(token: String) -> Option<ActivityRow>;
        fn begin_session(session: SessionRow, most: usize) -> ();
        fn keep_session(session: SessionRow) -> bool;
        fn session(id: String, now: Timestamp) -> Option<SessionRow>;
        fn end_session(id: String) -> bool;
        fn post(body: Vec<u8>, until: Timestamp, most: usize) -> u64;
        fn posted(after: u64, limit: usize) -> Posted;
        fn held_activities() -> Vec<ActivityLease>;
        fn get(caller: Caller, id: TaskId) -> TaskRow;
        fn get_with_questions(caller: Caller, id: TaskId) -> (TaskRow, Vec<QuestionRow>);
        fn row(key: TaskKey) -> Option<TaskRow>;
        fn held() -> Vec<Held>;
        fn list(filter: Filter, order: Order, after: Option<TaskKey>, limit: usize) -> ListPage;
        fn counts(caller: Caller) -> Counts;
        fn history(key: TaskKey, order: Order, after: Option<u64>, limit: usize) -> HistoryPage;
        fn inbox(key: TaskKey, after: i64) -> Vec<InboxRow>;
        fn questions(key: TaskKey) -> Vec<QuestionRow>;
        fn state(scope: String, key: String) -> StateRow;
        fn next_wake() -> Option<Timestamp>;
    }
}
