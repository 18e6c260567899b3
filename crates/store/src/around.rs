//! Something between an engine and its store, for tests: it lets calls wait, fail or get lost.

use std::{future::Future, sync::Arc};

use steadfast_core::{TaskId, Timestamp};

use crate::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, After, Bond, BoxFuture, Caller, Cancel,
    Changes, ClaimActivities, ClaimTasks, Claimed, Counts, Desk, Filter, Held, HistoryPage,
    InboxRow, Join, Keyed, ListPage, NewTask, Order, Parcel, Poison, Posted, QuestionRow, Result,
    Resume, Retried, SendTo, SessionRow, Since, Started, StateRow, Store, Suspend, Swept, TaskKey,
    TaskRow, Touched, Turn, Turned,
};

/// What happens around each call of a store. Whatever implements it is a [`Store`].
pub trait Around: Send + Sync + 'static {
    /// The store behind it, for the next call.
    fn inner(&self) -> Result<Arc<dyn Store>>;

    /// Its desk, also when there is no store behind it any more.
    fn desk(&self) -> Desk;

    /// What others have changed.
    fn changed(&self) -> Arc<Changes>;

    /// Makes a call, or doesn't. It is named like the method, but that a turn which lets go of its task is
    /// a `park`, one that is taken with work is a `turn` too, and a task that is read with its questions is a
    /// `get`.
    fn around<T: Send + 'static>(
        &self,
        call: &'static str,
        done: BoxFuture<'static, Result<T>>,
    ) -> impl Future<Output = Result<T>> + Send;
}

macro_rules! around {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> BoxFuture<'_, Result<$answer>> {
            around!(self, stringify!($name), $name, $($arg),*)
        }
    )*};
    ($self:ident, $call:expr, $name:ident, $($arg:ident),*) => {{
        let (call, inner) = ($call, $self.inner());
        Box::pin(async move {
            let inner = inner?;
            let done = Box::pin(async move { inner.$name($($arg),*).await });
            $self.around(call, done).await
        })
    }};
}

impl<A: Around> Store for A {
    fn desk(&self) -> Desk {
        Around::desk(self)
    }

    fn changed(&self) -> Arc<Changes> {
        Around::changed(self)
    }

    fn solitude(&self) -> Option<u64> {
        self.inner().ok()?.solitude()
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Turned>> {
        let call = match turn.after {
            After::Keep | After::End { .. } => "turn",
            After::Park { .. } | After::Yield => "park",
        };
        around!(self, call, turn, turn)
    }

    fn kind(&self) -> &'static str {
        self.inner().map_or("a store that is gone", |inner| inner.kind())
    }

    fn turn_with(&self, turn: Turn, join: Join) -> BoxFuture<'_, Result<Turned>> {
        around!(self, "turn", turn_with, turn, join)
    }

    fn get_with_questions(
        &self,
        caller: Caller,
        id: TaskId,
    ) -> BoxFuture<'_, Result<(TaskRow, Vec<QuestionRow>)>> {
        around!(self, "get", get_with_questions, caller, id)
    }

    around! {
        fn dead() -> Vec<Desk>;
        fn is_alive(desk: Desk) -> bool;
        fn check() -> ();
        fn close() -> ();
        fn start(task: NewTask) -> Started;
        fn unbind(tasks: Vec<(TaskId, Bond)>, since: Since) -> ();
        fn claim(claim: ClaimTasks) -> Vec<Claimed>;
        fn begin(how: Parcel) -> Parcel;
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
        fn held_activities() -> Vec<ActivityLease>;
        fn begin_session(session: SessionRow, most: usize) -> ();
        fn keep_session(session: SessionRow, before: Vec<u8>) -> bool;
        fn touch_session(id: String, expires: Timestamp) -> bool;
        fn session(id: String, now: Timestamp) -> Option<SessionRow>;
        fn end_session(id: String) -> bool;
        fn post(body: Vec<u8>, until: Timestamp, most: usize) -> u64;
        fn posted(after: u64, limit: usize) -> Posted;
        fn get(caller: Caller, id: TaskId) -> TaskRow;
        fn keyed(caller: Caller, dedup: String) -> Option<Keyed>;
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
