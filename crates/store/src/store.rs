//! The store trait.

use std::{future::Future, pin::Pin, sync::Arc};

use steadfast_core::{TaskId, Timestamp};
use tokio::sync::Notify;

use crate::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, Caller, Cancel, ClaimActivities, ClaimTasks,
    Claimed, Counts, Desk, Filter, HistoryPage, InboxRow, ListPage, NewTask, Order, Poison,
    QuestionRow, Result, Resume, Retried, SendTo, Started, StateRow, Suspend, Swept, TaskKey,
    TaskRow, Touched, Turn, Turned,
};

/// A future that can be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where tasks live.
///
/// Every call that writes is **one atomic commit**: if it returns `Ok` its effects are durable, in
/// the store's own sense of the word; if it returns [`Error::Refused`](crate::Error::Refused) or
/// [`Error::Unavailable`](crate::Error::Unavailable) it had none. If the process dies during a call
/// the effects are there whole or not at all, and the caller finds out which by looking. A store
/// gathers concurrent commits into one flush; a refused one fails alone.
///
/// A call on a task first checks, in this order: is it there and the caller's
/// ([`Unknown`](crate::Refusal::Unknown)), has it expired ([`Expired`](crate::Refusal::Expired)), has
/// it ended ([`Terminal`](crate::Refusal::Terminal)), and then what is special to the call.
pub trait Store: Send + Sync + 'static {
    // ---- who we are ----

    /// This handle's desk. A new one for every handle.
    fn desk(&self) -> Desk;

    /// Desks that hold something and whose process is gone.
    fn dead(&self) -> BoxFuture<'_, Result<Vec<Desk>>>;

    /// Is notified when another handle has changed the store.
    fn changed(&self) -> Arc<Notify>;

    /// Gives back all that this desk holds, so that others can take it at once. Counts as no death.
    /// Dying instead loses nothing: the desk is seen to be dead.
    fn close(&self) -> BoxFuture<'_, Result<()>>;

    // ---- a task's life ----

    /// Starts a task. Once this returns the id resolves until the task expires.
    fn start(&self, task: NewTask) -> BoxFuture<'_, Result<Started>>;

    /// Takes tasks from the ready pile onto this desk, raising their epoch. If the process dies
    /// before it knows, they are on a dead desk and will be adopted.
    fn claim(&self, claim: ClaimTasks) -> BoxFuture<'_, Result<Vec<Claimed>>>;

    /// Appends to a task and lets its effects become true. Dying before: the turn never happened,
    /// and the steps it recorded run again. Dying after: they never do.
    ///
    /// With [`Refusal::Guard`](crate::Refusal::Guard) nothing was written, and the lease stays good.
    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Turned>>;

    /// Puts everything that lies on a dead desk back on the ready pile, counting a death for each
    /// task, or sets it aside at too many. Does nothing if the desk is this handle's own.
    fn adopt(&self, dead: Desk, poison: Poison) -> BoxFuture<'_, Result<Adopted>>;

    // ---- from outside ----

    /// Puts a message into a task's inbox; it is ready then, unless held or halted.
    fn send(&self, caller: Caller, send: SendTo) -> BoxFuture<'_, Result<Option<Touched>>>;

    /// Answers an open question: it is no longer open, and the message is in the inbox. Of two
    /// answers one is refused as [`NotOpen`](crate::Refusal::NotOpen).
    fn answer(
        &self,
        caller: Caller,
        id: TaskId,
        question: String,
        body: Vec<u8>,
    ) -> BoxFuture<'_, Result<Touched>>;

    /// Ends a task as cancelled. Its epoch is raised, so that nothing its holder still writes
    /// counts. Its questions, activities and watches are removed, its inbox emptied, and its parent
    /// told. It goes to the ready pile, where somebody finds and does what is left to do: children,
    /// compensation. A holder on this desk is in the answer.
    fn cancel(&self, caller: Caller, id: TaskId, cancel: Cancel) -> BoxFuture<'_, Result<Vec<Touched>>>;

    /// Halts a task. A holder is left to finish what it is at. Refused as
    /// [`WrongStatus`](crate::Refusal::WrongStatus) if it is suspended already.
    fn suspend(&self, caller: Caller, id: TaskId, suspend: Suspend) -> BoxFuture<'_, Result<Touched>>;

    /// Lets a halted task go on; its deaths are forgotten. Refused as
    /// [`WrongStatus`](crate::Refusal::WrongStatus) if it is not halted.
    fn resume(&self, caller: Caller, id: TaskId, resume: Resume) -> BoxFuture<'_, Result<Touched>>;

    /// Removes a task that has ended, with all that belongs to it. Refused as
    /// [`NotTerminal`](crate::Refusal::NotTerminal) otherwise.
    fn purge(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<()>>;

    /// Removes what has expired, at most `limit` tasks, and kept messages whose time is over.
    /// Tasks that lie on a desk or on the ready pile are left for a later sweep.
    fn sweep(&self, now: Timestamp, limit: usize) -> BoxFuture<'_, Result<Swept>>;

    // ---- activities ----

    /// Takes activities onto this desk, raising their epoch. One whose heartbeat is overdue is
    /// taken from whoever holds it, and its attempt number goes up.
    fn claim_activities(&self, claim: ClaimActivities) -> BoxFuture<'_, Result<Vec<ActivityRow>>>;

    /// Ends an activity: it is gone, and the message is in the task's inbox.
    fn end_activity(&self, end: ActivityEnd) -> BoxFuture<'_, Result<Touched>>;

    /// Puts an activity back for another attempt, and tells the task.
    fn retry_activity(&self, retried: Retried) -> BoxFuture<'_, Result<Touched>>;

    /// Says that an activity is alive until `until`. With `release` it lies on no desk from now on:
    /// somebody outside will end it, and a dead process no longer matters.
    fn beat_activity(
        &self,
        lease: ActivityLease,
        until: Option<Timestamp>,
        release: bool,
    ) -> BoxFuture<'_, Result<()>>;

    /// The activity with this token.
    fn activity(&self, token: String) -> BoxFuture<'_, Result<Option<ActivityRow>>>;

    /// Activities on this desk, by number.
    fn held_activities(&self) -> BoxFuture<'_, Result<Vec<i64>>>;

    // ---- reading ----

    /// A task, with its [`end`](TaskRow::end).
    fn get(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<TaskRow>>;

    /// The same by its number, for whoever holds one; `None` if it is gone.
    fn row(&self, key: TaskKey) -> BoxFuture<'_, Result<Option<TaskRow>>>;

    /// Tasks that meet the filter, from behind `after` on.
    fn list(
        &self,
        filter: Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<ListPage>>;

    /// How many tasks there are of each status, of one principal or of all.
    fn counts(&self, caller: Caller) -> BoxFuture<'_, Result<Counts>>;

    /// Part of a history, from behind `after` on.
    fn history(
        &self,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<HistoryPage>>;

    /// The messages behind number `after`.
    fn inbox(&self, key: TaskKey, after: i64) -> BoxFuture<'_, Result<Vec<InboxRow>>>;

    /// The open questions, in the order they were asked.
    fn questions(&self, key: TaskKey) -> BoxFuture<'_, Result<Vec<QuestionRow>>>;

    /// A value of durable state.
    fn state(&self, scope: String, key: String) -> BoxFuture<'_, Result<StateRow>>;

    /// When the next parked task, waiting activity or overdue heartbeat is due.
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>>>;
}
