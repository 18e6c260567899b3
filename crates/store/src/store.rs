//! The store trait.

use std::{future::Future, pin::Pin, sync::Arc};

use steadfast_core::{TaskId, Timestamp};

use crate::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, Bond, Caller, Cancel, Changes,
    ClaimActivities, ClaimTasks, Claimed, Counts, Desk, Error, Filter, Held, HistoryPage, InboxRow,
    Join, Keyed, ListPage, NewTask, Order, Parcel, Poison, Posted, QuestionRow, Result, Resume,
    Retried, SendTo, SessionRow, Since, Started, StateRow, Suspend, Swept, TaskKey, TaskRow,
    Touched, Turn, Turned,
};

/// A future that can be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer of a store that runs no work. Nobody gets here who has looked at its kind.
fn no_work() -> Error {
    Error::Corrupt("this store runs no code of others in its transactions".into())
}

/// Where tasks live.
///
/// Every call that writes is **one atomic commit**: if it returns `Ok` its effects are durable, in
/// the store's own sense of the word; if it returns [`Error::Refused`](crate::Error::Refused) or
/// [`Error::Unavailable`](crate::Error::Unavailable) it had none. If the process dies during a call
/// the effects are there whole or not at all, and the caller finds out which by looking. A store
/// gathers concurrent commits into one flush; a refused one fails alone.
///
/// A call on a task first checks, in this order: is it there and the caller's
/// ([`Unknown`](crate::Refusal::Unknown)), has it expired ([`Expired`](crate::Refusal::Expired)),
/// has it ended ([`Terminal`](crate::Refusal::Terminal)), and then what is special to the call. A
/// call with a lease checks the lease alone ([`Fenced`](crate::Refusal::Fenced)): its holder may go
/// on with a task that has expired or ended.
///
/// A message makes its task ready, unless the task is held, is halted (see
/// [`Status::is_halted`](steadfast_core::Status::is_halted)) or has not begun: it is
/// [`Queued`](steadfast_core::Status::Queued) and parked with a wake. The message is kept in each
/// case. A task that has ended gets no messages but those of its own activities.
pub trait Store: Send + Sync + 'static {
    // ---- who we are ----

    /// This handle's desk. A new one for every handle; and another from then on when this process was
    /// taken for dead, on a store where that can happen: what it held lies on the one before. What is
    /// bound to that and still lies there is bound to the new one from then on.
    fn desk(&self) -> Desk;

    /// Desks that hold something and whose process is gone, in the order of their numbers.
    fn dead(&self) -> BoxFuture<'_, Result<Vec<Desk>>>;

    /// Whether the process of a desk may still live. False for one that never was.
    fn is_alive(&self, desk: Desk) -> BoxFuture<'_, Result<bool>>;

    /// What other handles have changed in the store. It is kept for whoever asks next.
    fn changed(&self) -> Arc<Changes>;

    /// As long as this says the same number, nobody but this handle can have changed the store. `None`
    /// while another handle is open, or if that can't be known: then only reading tells. It costs no more
    /// than a look at memory.
    fn solitude(&self) -> Option<u64> {
        None
    }

    /// Whether the store can be read and, as far as that can be known, written. It changes nothing that
    /// anybody sees. For who asks whether this process is ready.
    fn check(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.next_wake().await.map(drop) })
    }

    /// Gives back all that this desk holds, so that others can take it at once, and raises its
    /// epochs. Counts as no death, and as no attempt at an activity. A halted task waits for its
    /// resume.
    ///
    /// It is the last that is written in the name of the desk, which is dead in the same commit: who
    /// sees what was given back also sees that whatever is bound to the desk is abandoned. From then on
    /// the handle refuses to write as [`Unavailable`](crate::Error::Unavailable), and can still read;
    /// closing it again does nothing. If this fails it is closed all the same.
    /// Dying instead loses nothing: the desk is seen to be dead.
    fn close(&self) -> BoxFuture<'_, Result<()>>;

    // ---- a task's life ----

    /// Starts a task. Once this returns the id resolves until the task expires.
    ///
    /// The dedup keys are looked at first, as [`Dedup`](crate::Dedup) says, which also refuses what comes
    /// [late](crate::Refusal::Late); then a task with the same id, whoever it belongs to and even if it has expired,
    /// refuses the start as [`Exists`](crate::Refusal::Exists).
    fn start(&self, task: NewTask) -> BoxFuture<'_, Result<Started>>;

    /// Frees tasks of what they are bound to. Those that are gone, not bound, or free already, are left alone.
    /// Keys are free since then.
    fn unbind(&self, tasks: Vec<(TaskId, Bond)>, since: Since) -> BoxFuture<'_, Result<()>>;

    /// Takes tasks from the ready pile onto this desk, raising their epoch. If the process dies
    /// before it knows, they are on a dead desk and will be adopted. One that has no version yet gets
    /// the highest that the caller can run, for good.
    ///
    /// Owners take turns, within a claim and from one claim to the next; of an owner's tasks the
    /// one that became ready first comes first. Parked tasks that are due go to the ready pile
    /// whatever their tool, so that [`next_wake`](Store::next_wake) is not held up by tasks that
    /// nobody here can run.
    ///
    /// Fewer than were asked for may be all that there are. A store may also leave some, if what is recorded of
    /// them is too much for one answer: then it says by [`changed`](Store::changed) that there is work.
    fn claim(&self, claim: ClaimTasks) -> BoxFuture<'_, Result<Vec<Claimed>>>;

    /// Appends to a task and lets its effects become true. Dying before: the turn never happened,
    /// and the steps it recorded run again. Dying after: they never do.
    ///
    /// In this order: the lease is checked; the history is removed if it starts anew; messages are
    /// removed; events, status and view are written; the effects become true one after the other,
    /// each seeing those before it; the lease is dealt with.
    ///
    /// With [`Refusal::Guard`](crate::Refusal::Guard) nothing was written, and the lease stays
    /// good. A second end is refused as [`Terminal`](crate::Refusal::Terminal), the same way.
    /// Events that don't continue the history are an [`Error::Corrupt`](crate::Error::Corrupt):
    /// also then nothing was written.
    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Turned>>;

    /// What kind of store it is, for [work](crate::Work) that is made for one, and for people.
    fn kind(&self) -> &'static str {
        "a store of another kind"
    }

    /// Begins a transaction for code of an author's, where that runs before the commit; what goes in and
    /// comes out is between this store and the [work](crate::Work) for its kind. Dropped, or if the
    /// process dies, it is rolled back.
    fn begin(&self, how: Parcel) -> BoxFuture<'_, Result<Parcel>> {
        drop(how);
        Box::pin(async { Err(no_work()) })
    }

    /// Takes a turn together with what code of an author's does in the same transaction: both are
    /// durable, or neither, also if the process dies in the middle. The turn has no events; the one that
    /// the work leads to is appended, as number [`first`](Turn::first).
    ///
    /// If the lease is stale the work is undone, or not even run. If the work fails, or was overtaken,
    /// the turn is refused as [`Guard`](crate::Refusal::Guard); so nothing else should be in it.
    fn turn_with(&self, turn: Turn, join: Join) -> BoxFuture<'_, Result<Turned>> {
        drop((turn, join));
        Box::pin(async { Err(no_work()) })
    }

    /// Puts everything that lies on a dead desk back on the ready pile, counting a death for each
    /// task, or sets it aside at too many; epochs are raised. Does nothing if the desk is not dead.
    ///
    /// A halted task keeps its status and waits for its resume; it counts as neither ready nor
    /// poisoned. A task that has ended and is set aside keeps its status and view too: nobody takes
    /// it any more. An activity goes back to its queue, and its attempt number goes up.
    fn adopt(&self, dead: Desk, poison: Poison) -> BoxFuture<'_, Result<Adopted>>;

    // ---- from outside ----

    /// Puts a message into a task's inbox, which makes the task ready (see above). `None` if there
    /// is no such task for this caller, and the message is kept for it.
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
    /// compensation; the deaths counted so far are forgotten. If another desk holds it, it stays there
    /// with its new epoch until that puts it back, or is adopted: its process may be in the middle of
    /// a step, which must have stopped before it is taken back. The answer has the task, with
    /// [`here`](Touched::here) if this desk held it until now, and the parent if it was told.
    fn cancel(
        &self,
        caller: Caller,
        id: TaskId,
        cancel: Cancel,
    ) -> BoxFuture<'_, Result<Vec<Touched>>>;

    /// Halts a task. A holder is left to finish what it is at; otherwise the task leaves the ready
    /// pile, and its wake is forgotten unless it has not begun. Refused as
    /// [`WrongStatus`](crate::Refusal::WrongStatus) if it is suspended already.
    fn suspend(
        &self,
        caller: Caller,
        id: TaskId,
        suspend: Suspend,
    ) -> BoxFuture<'_, Result<Touched>>;

    /// Lets a halted task go on: it is running again, stays with its holder or goes to the ready
    /// pile, and its deaths are forgotten. One that has not begun, and whose wake is later than
    /// [`Resume::at`](crate::Resume::at), is queued again and waits for it. Refused as
    /// [`WrongStatus`](crate::Refusal::WrongStatus) if it is not halted.
    fn resume(&self, caller: Caller, id: TaskId, resume: Resume) -> BoxFuture<'_, Result<Touched>>;

    /// Removes a task that has ended, with all that belongs to it, even if somebody holds it.
    /// Refused as [`NotTerminal`](crate::Refusal::NotTerminal) otherwise.
    fn purge(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<()>>;

    /// Removes what has expired, and kept messages, notices and sessions whose time is over; those that expired first
    /// come first. At most `limit` tasks are removed or reported as overdue. Ended tasks with
    /// something left to do (on a desk, on the ready pile, or parked with a wake) are left for a
    /// later sweep. A store may remove it in parts, and what is left of an expired task next time.
    fn sweep(&self, now: Timestamp, limit: usize) -> BoxFuture<'_, Result<Swept>>;

    // ---- activities ----

    /// Takes activities onto this desk, raising their epoch; those that were queued first come
    /// first. One whose heartbeat is overdue is taken from whoever holds it, or from outside if it
    /// was released; its attempt number goes up. Those due or overdue go back to the queue whatever
    /// their name, so that [`next_wake`](Store::next_wake) is not held up by those that nobody here
    /// can run.
    fn claim_activities(&self, claim: ClaimActivities) -> BoxFuture<'_, Result<Vec<ActivityRow>>>;

    /// Ends an activity: it is gone, and the message is in the task's inbox. Refused as
    /// [`Fenced`](crate::Refusal::Fenced) if the epoch is not the present one or it is gone; so are
    /// [`retry_activity`](Store::retry_activity) and [`beat_activity`](Store::beat_activity). Who
    /// holds it does not matter.
    fn end_activity(&self, end: ActivityEnd) -> BoxFuture<'_, Result<Touched>>;

    /// Puts an activity back for another attempt, raising its attempt number and its epoch, and
    /// tells the task.
    fn retry_activity(&self, retried: Retried) -> BoxFuture<'_, Result<Touched>>;

    /// Says that an activity is alive until `until`. With `release` it lies on no desk from now on:
    /// somebody outside will end it, and a dead process no longer matters. Its epoch stays.
    fn beat_activity(
        &self,
        lease: ActivityLease,
        until: Option<Timestamp>,
        release: bool,
    ) -> BoxFuture<'_, Result<()>>;

    /// The activity with this token.
    fn activity(&self, token: String) -> BoxFuture<'_, Result<Option<ActivityRow>>>;

    /// Activities on this desk, lowest number first.
    fn held_activities(&self) -> BoxFuture<'_, Result<Vec<ActivityLease>>>;

    // ---- sessions ----

    /// Begins a session. If there are more than `most` then, those go that would be over first.
    fn begin_session(&self, session: SessionRow, most: usize) -> BoxFuture<'_, Result<()>>;

    /// Writes the body of a session anew, if it still is `before`, and [touches](Store::touch_session)
    /// it. False if it is another, or if there is no session of this id any more: then nothing was
    /// written, and it is not begun again. Of two who have read the same, one has to read once more; so
    /// has who died, or lost the answer, and does not know whether it wrote.
    fn keep_session(&self, session: SessionRow, before: Vec<u8>) -> BoxFuture<'_, Result<bool>>;

    /// A session is in use, and not over before then: a later time that is written already stays, and
    /// so does the body. False if there is none of this id any more. Dying before loses no more than
    /// that it was used.
    fn touch_session(&self, id: String, expires: Timestamp) -> BoxFuture<'_, Result<bool>>;

    /// A session, unless it is over by now.
    fn session(&self, id: String, now: Timestamp) -> BoxFuture<'_, Result<Option<SessionRow>>>;

    /// Ends a session, and removes its [state](crate::session_scope). False if there was none.
    fn end_session(&self, id: String) -> BoxFuture<'_, Result<bool>>;

    // ---- notices ----

    /// Puts up a notice for all handles to read until its time is over; of more than `most` the oldest
    /// go. Its number is higher than that of any before it.
    fn post(&self, body: Vec<u8>, until: Timestamp, most: usize) -> BoxFuture<'_, Result<u64>>;

    /// The notices behind number `after`.
    fn posted(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Posted>>;

    // ---- reading ----

    /// A task, with its [`end`](TaskRow::end).
    fn get(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<TaskRow>>;

    /// A task with its open questions, as of one moment if the store can.
    fn get_with_questions(
        &self,
        caller: Caller,
        id: TaskId,
    ) -> BoxFuture<'_, Result<(TaskRow, Vec<QuestionRow>)>> {
        Box::pin(async move {
            let row = self.get(caller, id).await?;
            let questions = self.questions(row.key).await?;
            Ok((row, questions))
        })
    }

    /// The task of the caller's that has this dedup key, or that has freed it and nobody has taken it since;
    /// unless it has expired.
    fn keyed(&self, caller: Caller, dedup: String) -> BoxFuture<'_, Result<Option<Keyed>>>;

    /// A task by its number, for whoever holds one; `None` if it is gone.
    fn row(&self, key: TaskKey) -> BoxFuture<'_, Result<Option<TaskRow>>>;

    /// Every task on this desk, lowest number first, so that a process learns what others did to
    /// the tasks it holds. One that it believes to hold and that is missing here was cancelled or
    /// taken over.
    fn held(&self) -> BoxFuture<'_, Result<Vec<Held>>>;

    /// Tasks that meet the filter, from behind `after` on. Whoever reads page by page sees every task
    /// that was there when he began, and still is. One that is started meanwhile may be missing, also
    /// if the tasks are read oldest first: of two starts at the same time the later number may be seen
    /// before the earlier one.
    fn list(
        &self,
        filter: Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<ListPage>>;

    /// How many tasks there are of each status, of one principal or of all, without those that have
    /// expired. A status that no task has is not in the answer.
    fn counts(&self, caller: Caller) -> BoxFuture<'_, Result<Counts>>;

    /// Part of a history, from behind `after` on; empty if the task is gone.
    fn history(
        &self,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<HistoryPage>>;

    /// The messages behind number `after`, oldest first; none if the task is gone.
    fn inbox(&self, key: TaskKey, after: i64) -> BoxFuture<'_, Result<Vec<InboxRow>>>;

    /// The open questions, in the order they were asked; none if the task is gone.
    fn questions(&self, key: TaskKey) -> BoxFuture<'_, Result<Vec<QuestionRow>>>;

    /// A value of durable state.
    fn state(&self, scope: String, key: String) -> BoxFuture<'_, Result<StateRow>>;

    /// When the next parked task is due, or the next attempt at an activity, or a heartbeat. What
    /// is on the ready pile or in the queue of activities does not count.
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>>>;
}
