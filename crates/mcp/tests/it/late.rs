//! A store that takes its time to find a task.

use std::{sync::Arc, time::Duration};

use steadfast_engine::{TaskId, Timestamp};
use steadfast_store::{
    ActivityEnd, ActivityLease, ActivityRow, Adopted, Bond, BoxFuture, Caller, Cancel,
    ClaimActivities, ClaimTasks, Claimed, Counts, Desk, Filter, Held, HistoryPage, InboxRow,
    ListPage, Memory, NewTask, Order, Poison, Posted, QuestionRow, Result, Resume, Retried, SendTo,
    SessionRow, Started, StateRow, Store, Suspend, Swept, TaskKey, TaskRow, Touched, Turn, Turned,
};
use tokio::sync::Notify;

pub(crate) struct Late(pub(crate) Memory, pub(crate) Duration);

macro_rules! passed_on {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> BoxFuture<'_, Result<$answer>> {
            self.0.$name($($arg),*)
        }
    )*};
}

impl Store for Late {
    fn get(&self, caller: Caller, id: TaskId) -> BoxFuture<'_, Result<TaskRow>> {
        Box::pin(async {
            tokio::time::sleep(self.1).await;
            self.0.get(caller, id).await
        })
    }

    /// What it says may not be true any more when it is heard.
    fn session(&self, id: String, now: Timestamp) -> BoxFuture<'_, Result<Option<SessionRow>>> {
        Box::pin(async move {
            let found = self.0.session(id, now).await;
            tokio::time::sleep(self.1).await;
            found
        })
    }

    fn desk(&self) -> Desk {
        self.0.desk()
    }

    fn changed(&self) -> Arc<Notify> {
        self.0.changed()
    }

    passed_on! {
        fn turn(turn: Turn) -> Turned;
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
        fn end_session(id: String) -> bool;
        fn post(body: Vec<u8>, until: Timestamp, most: usize) -> u64;
        fn posted(after: u64, limit: usize) -> Posted;
        fn held_activities() -> Vec<ActivityLease>;
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
