//! A store whose answers a test holds back, loses or denies.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use steadfast_engine::{TaskId, Timestamp};
use steadfast_store::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, After, Bond, BoxFuture, Caller, Cancel,
    ClaimActivities, ClaimTasks, Claimed, Counts, Desk, Error, Filter, Held, HistoryPage, InboxRow,
    ListPage, Memory, NewTask, Order, Poison, Posted, QuestionRow, Result, Resume, Retried, SendTo,
    SessionRow, Started, StateRow, Store, Suspend, Swept, TaskKey, TaskRow, Touched, Turn, Turned,
};
use tokio::sync::{Notify, SetOnce};

use crate::support::within;

/// The gates that are put up, by the names of the calls that they are for, in their order.
#[derive(Clone, Default)]
pub(crate) struct Gates(Arc<Mutex<HashMap<&'static str, Vec<Waiting>>>>);

struct Waiting {
    /// How many calls pass before it closes.
    skip: usize,
    steps: Arc<Steps>,
}

/// A gate that one call comes to. If it is dropped the call never happens.
#[must_use = "a gate that is dropped lets its call fail"]
pub(crate) struct Gate(Arc<Steps>);

#[derive(Default)]
struct Steps {
    came: SetOnce<()>,
    /// Whether the call reaches the store.
    write: SetOnce<bool>,
    answer: SetOnce<Answer>,
}

#[derive(Clone, Copy)]
enum Answer {
    Given,
    Lost,
    Denied,
}

impl Gates {
    /// Holds the next call of this name. A turn that lets go of its task is called `park`.
    pub(crate) fn hold(&self, call: &'static str) -> Gate {
        self.hold_after(0, call)
    }

    /// Holds the call of this name that comes after so many others.
    pub(crate) fn hold_after(&self, skip: usize, call: &'static str) -> Gate {
        let steps = Arc::<Steps>::default();
        let mut gates = self.0.lock().unwrap();
        gates.entry(call).or_default().push(Waiting { skip, steps: steps.clone() });
        Gate(steps)
    }

    fn next(&self, call: &str) -> Option<Arc<Steps>> {
        let mut gates = self.0.lock().unwrap();
        let next = gates.get_mut(call)?;
        let first = next.first_mut()?;
        if first.skip > 0 {
            first.skip -= 1;
            return None;
        }
        Some(next.remove(0).steps)
    }
}

impl Gate {
    /// Waits until the call is there.
    pub(crate) async fn came(&self) {
        within(self.0.came.wait()).await;
    }

    pub(crate) fn has_come(&self) -> bool {
        self.0.came.get().is_some()
    }

    fn decide(&self, write: bool, answer: Answer) {
        drop(self.0.write.set(write));
        drop(self.0.answer.set(answer));
    }

    /// It happens; the answer is still held back.
    pub(crate) fn write(&self) {
        drop(self.0.write.set(true));
    }

    /// It happens, and is answered.
    pub(crate) fn pass(&self) {
        self.decide(true, Answer::Given);
    }

    /// It happens, and nobody hears of it.
    pub(crate) fn lose(&self) {
        self.decide(true, Answer::Lost);
    }

    /// It does not happen, and nobody can say so.
    pub(crate) fn vanish(&self) {
        self.decide(false, Answer::Lost);
    }

    /// It does not happen, and may be tried again.
    pub(crate) fn fail(&self) {
        self.decide(false, Answer::Denied);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.fail();
    }
}

/// A store in memory behind gates.
pub(crate) struct Slow {
    pub(crate) inner: Arc<Memory>,
    pub(crate) gates: Gates,
}

impl Slow {
    async fn around<T>(&self, name: &str, call: BoxFuture<'_, Result<T>>) -> Result<T> {
        let Some(gate) = self.gates.next(name) else { return call.await };
        drop(gate.came.set(()));
        let done = if *gate.write.wait().await { Some(call.await) } else { None };
        match (gate.answer.wait().await, done) {
            (Answer::Given, Some(done)) => done,
            (Answer::Denied, None) => Err(Error::Unavailable("denied on purpose".into())),
            _ => Err(Error::Unknown("lost on purpose".into())),
        }
    }
}

macro_rules! gated {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> BoxFuture<'_, Result<$answer>> {
            Box::pin(self.around(stringify!($name), self.inner.$name($($arg),*)))
        }
    )*};
}

impl Store for Slow {
    fn desk(&self) -> Desk {
        self.inner.desk()
    }

    fn changed(&self) -> Arc<Notify> {
        self.inner.changed()
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Turned>> {
        let name = match turn.after {
            After::Keep | After::End { .. } => "turn",
            After::Park { .. } | After::Yield => "park",
        };
        Box::pin(self.around(name, self.inner.turn(turn)))
    }

    gated! {
        fn dead() -> Vec<Desk>;
        fn is_alive(desk: Desk) -> bool;
        fn unbind(tasks: Vec<(TaskId, Bond)>) -> ();
        fn keyed(caller: Caller, dedup: String) -> Option<TaskId>;
        fn close() -> ();
        fn start(task: NewTask) -> Started;
        fn claim(claim: ClaimTasks) -> Vec<Claimed>;
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
