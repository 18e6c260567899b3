//! Starting, watching and steering tasks: the one typed handle.

mod activity;
mod answer;
mod cancel;
mod error;
mod follow;
mod info;
mod list;
mod new;
mod rerun;
mod start;
mod wait;

use std::{sync::Arc, time::Instant};

pub(crate) use cancel::cancel_write;
pub use error::CallError;
pub use follow::{Follow, Heard};
pub use info::{HistoryEntry, OpenQuestion, TaskInfo};
pub use list::{HistoryList, ListTasks, TaskList};
pub(crate) use new::new_child;
pub use rerun::RerunFrom;
pub use start::{Start, StartedTask};
use steadfast_core::{Message, Principal, Status, TaskId};
use steadfast_store::{Bond, Caller, Counts, Keyed, QuestionRow, Resume, SendTo, Suspend, TaskRow};

use crate::{Result as AuthorResult, blob, engine::Core, finish::finish, limits, runner::Nudge};

type Result<T> = std::result::Result<T, CallError>;

/// The tasks that one principal, or an operator, can see and steer.
///
/// Every call says clearly what is wrong: [`CallError::Unknown`] (also for another principal's
/// task), [`CallError::Expired`], [`CallError::Terminal`].
#[derive(Clone)]
pub struct Tasks {
    core: Arc<Core>,
    principal: Option<Principal>,
}

impl Tasks {
    pub(crate) fn new(core: Arc<Core>, principal: Option<Principal>) -> Tasks {
        Tasks { core, principal }
    }

    fn caller(&self) -> Caller {
        Caller { principal: self.principal.clone(), now: self.core.world.now() }
    }

    /// What is to be seen of a task now, its result or error and its open questions included.
    pub async fn get(&self, id: &TaskId) -> Result<TaskInfo> {
        let (row, questions) = self.row_with_questions(id).await?;
        self.show(row, questions)
    }

    /// All that the caller may see of a task.
    fn show(&self, row: TaskRow, questions: Vec<QuestionRow>) -> Result<TaskInfo> {
        let mut info = info::complete(&self.core, row, questions)?;
        if self.principal.is_some() {
            info.hide_details();
        }
        Ok(info)
    }

    async fn row_with_questions(&self, id: &TaskId) -> Result<(TaskRow, Vec<QuestionRow>)> {
        let found = self.core.store.get_with_questions(self.caller(), id.clone()).await;
        found.map_err(|error| CallError::on(id, error))
    }

    async fn row(&self, id: &TaskId) -> Result<TaskRow> {
        let row = self.core.store.get(self.caller(), id.clone()).await;
        row.map_err(|error| CallError::on(id, error))
    }

    /// What a failed write on a task means. One whose outcome is not known may have happened, and
    /// somebody must be told then.
    fn failed(&self, id: &TaskId, error: steadfast_store::Error) -> CallError {
        self.core.doubt_after(&error);
        CallError::on(id, error)
    }

    /// How many tasks there are of each status.
    pub async fn counts(&self) -> Result<Counts> {
        self.core.store.counts(self.caller()).await.map_err(CallError::Store)
    }

    /// Sends an event to a task. It is kept until the task waits for it.
    pub async fn signal(&self, id: &TaskId, event: Event) -> Result<()> {
        let (tasks, id) = (self.clone(), id.clone());
        finish(&self.core, async move { tasks.signal_whole(&id, event).await }).await
    }

    async fn signal_whole(&self, id: &TaskId, event: Event) -> Result<()> {
        limits::name("the event's name", &event.name)?;
        event.id.as_deref().map_or(Ok(()), |id| limits::name("the event's id", id))?;
        let keep_until = event
            .before_start
            .then(|| self.core.world.now().plus(self.core.settings.early_signals));
        let payload = event.payload.map_err(CallError::Payload)?;
        let most = self.core.settings.max_payload;
        if payload.text().len() > most {
            return Err(CallError::TooLarge { what: "the event's payload", limit: most });
        }
        let body = blob::write(&Message::Signal { name: event.name, id: event.id, payload });
        let send = SendTo { id: id.clone(), body, keep_until };
        let touched = self.core.store.send(self.caller(), send).await;
        let touched = touched.map_err(|error| self.failed(id, error))?;
        self.core.touched(touched.as_slice(), Nudge::MAIL);
        Ok(())
    }

    /// Halts a task until it is resumed. A step in flight may end; nothing new starts. Of the reason
    /// 64 KiB are kept.
    pub async fn suspend(&self, id: &TaskId, reason: Option<String>) -> Result<()> {
        let (tasks, id, reason) = (self.clone(), id.clone(), reason.map(limits::clip));
        finish(&self.core, async move { tasks.suspend_whole(&id, reason).await }).await
    }

    async fn suspend_whole(&self, id: &TaskId, reason: Option<String>) -> Result<()> {
        let row = self.row(id).await?;
        let view = steadfast_core::View { reason, ..blob::read_view(&row.view) };
        let suspend = Suspend { at: self.core.world.now(), view: blob::write(&view) };
        let touched = self.core.store.suspend(self.caller(), id.clone(), suspend).await;
        let touched = touched.map_err(|error| self.failed(id, error))?;
        self.core.touched(&[touched], Nudge::LOOK);
        Ok(())
    }

    /// Lets a suspended or stuck task go on.
    pub async fn resume(&self, id: &TaskId) -> Result<()> {
        let (tasks, id) = (self.clone(), id.clone());
        finish(&self.core, async move { tasks.resume_whole(&id).await }).await
    }

    async fn resume_whole(&self, id: &TaskId) -> Result<()> {
        let row = self.row(id).await?;
        let view = steadfast_core::View {
            reason: None,
            failure: None,
            retry_at: None,
            ..blob::read_view(&row.view)
        };
        let resume = Resume { at: self.core.world.now(), view: blob::write(&view) };
        let touched = self.core.store.resume(self.caller(), id.clone(), resume).await;
        let touched = touched.map_err(|error| self.failed(id, error))?;
        self.core.touched(&[touched], Nudge::LOOK);
        self.core.dispatch.notify_one();
        Ok(())
    }

    /// The task that was started with a [request key](Start::request_key), also if that was freed and nobody
    /// has taken it since.
    pub async fn keyed(&self, key: &str) -> Result<Option<Keyed>> {
        let found = self.core.store.keyed(self.caller(), start::request_key(key)).await;
        found.map_err(CallError::Store)
    }

    /// Frees tasks of what they are bound to: their key can be used again, or they outlive the process
    /// that they were started for. Those that are gone, or not bound, are left alone. Keys are free for those
    /// who [ask](Start::asked) from now on.
    pub async fn free(&self, tasks: Vec<(TaskId, Bond)>) -> Result<()> {
        self.free_since(tasks, Instant::now()).await
    }

    /// The same, but that it is so since a time that has passed.
    pub async fn free_since(&self, tasks: Vec<(TaskId, Bond)>, since: Instant) -> Result<()> {
        let whole = self.clone();
        finish(&self.core, async move {
            let of_process: Vec<TaskId> = tasks
                .iter()
                .filter(|(_, bond)| *bond == Bond::Desk)
                .map(|(id, _)| id.clone())
                .collect();
            let since = whole.core.since(since);
            whole.core.store.unbind(tasks, since).await.map_err(CallError::Store)?;
            for id in of_process {
                if let Some(nudge) = whole.core.by_id().get(&id) {
                    nudge.set(Nudge::LOOK);
                }
            }
            Ok(())
        })
        .await
    }

    /// Removes a task that has ended, with all that belongs to it.
    pub async fn purge(&self, id: &TaskId) -> Result<()> {
        let purged = self.core.store.purge(self.caller(), id.clone()).await;
        purged.map_err(|error| self.failed(id, error))
    }

    fn check_status(row: &TaskRow, id: &TaskId) -> Result<()> {
        match row.status {
            status @ (Status::Completed | Status::Failed | Status::Cancelled) => {
                Err(CallError::Terminal { id: id.clone(), status })
            }
            _ => Ok(()),
        }
    }
}

/// An event to send to a task.
#[derive(Clone, Debug)]
pub struct Event {
    name: String,
    id: Option<String>,
    payload: std::result::Result<steadfast_core::Json, String>,
    before_start: bool,
}

impl Event {
    /// An event with a name and a payload.
    pub fn new<T: serde::Serialize + ?Sized>(name: impl Into<String>, payload: &T) -> Event {
        let payload: AuthorResult<_> = steadfast_core::Json::of(payload).map_err(Into::into);
        Event {
            name: name.into(),
            id: None,
            payload: payload.map_err(|error| error.to_string()),
            before_start: false,
        }
    }

    /// Its id: of several with the same one the task gets the first. It remembers its last 10,000.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Event {
        self.id = Some(id.into());
        self
    }

    /// If there is no such task yet, keep the event for it.
    #[must_use]
    pub fn even_before_start(mut self) -> Event {
        self.before_start = true;
        self
    }
}
