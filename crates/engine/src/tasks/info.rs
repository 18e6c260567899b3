//! What is to be seen of a task.

use std::collections::BTreeMap;

use steadfast_core::{
    Ask, Compensation, Event, Failure, Json, Principal, Progress, Status, TaskId, Timestamp,
};
use steadfast_store::{QuestionRow, TaskRow};

use super::{CallError, Result};
use crate::{
    blob::{self, About, End},
    engine::Core,
};

/// What is to be seen of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskInfo {
    /// Its id.
    pub id: TaskId,
    /// The tool it runs.
    pub tool: String,
    /// The version of the tool it was started with. If the process that started it does not have the
    /// tool, it is `None` until another takes it up, and then that one's newest.
    pub version: Option<u32>,
    /// Whose it is.
    pub owner: Option<Principal>,
    /// Where it stands.
    pub status: Status,
    /// This process takes up such tasks: it has the tool in a version that can run them, and its
    /// [`max_running`](crate::Settings::max_running) and [`only`](crate::Settings::only) do not leave them
    /// to others. What other processes take up is not known here: one that is not served here may run
    /// elsewhere, and waits if nobody takes it up.
    pub served_here: bool,
    /// When it was accepted.
    pub created: Timestamp,
    /// When something visible last changed.
    pub updated: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// When it will be removed, if that is known.
    pub expires: Option<Timestamp>,
    /// When a waiting task goes on by itself.
    pub wakes: Option<Timestamp>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// The task that started it.
    pub parent: Option<TaskId>,
    /// The task that it is a rerun of.
    pub rerun_of: Option<TaskId>,
    /// The trace context it was started with.
    pub trace: Option<String>,
    /// What was said of the call that started it.
    pub call: Option<Json>,
    /// The task that the call started: this one, or that of which it is a child, a child's child, or a
    /// rerun.
    pub origin: TaskId,
    /// What the task last said of itself.
    pub message: Option<String>,
    /// How far it is.
    pub progress: Option<Progress>,
    /// Why it failed, retries, or is stuck.
    pub failure: Option<Failure>,
    /// When the next attempt is due.
    pub retry_at: Option<Timestamp>,
    /// Why it was cancelled or suspended.
    pub reason: Option<String>,
    /// How its undoing stands.
    pub compensation: Option<Compensation>,
    /// Marks that the task has set, by name.
    pub marks: BTreeMap<String, Json>,
    /// Its result.
    pub output: Option<Json>,
    /// Its open questions, in the order they were asked. Empty in listings.
    pub questions: Vec<OpenQuestion>,
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    /// The key to answer it by.
    pub key: String,
    /// What the user reads.
    pub message: String,
    /// JSON Schema of the answer.
    pub schema: Json,
    /// What else the front may show.
    pub data: Option<Json>,
    /// Until when it waits.
    pub deadline: Option<Timestamp>,
}

/// A line of a task's history.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEntry {
    /// Its number, from 0 at the oldest.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

impl From<Ask> for OpenQuestion {
    fn from(ask: Ask) -> OpenQuestion {
        OpenQuestion {
            key: ask.key,
            message: ask.message,
            schema: ask.schema,
            data: ask.data,
            deadline: ask.deadline,
        }
    }
}

impl TaskInfo {
    /// What a principal may see of it: not what is for the operator's eyes only.
    pub(super) fn hide_details(&mut self) {
        if let Some(failure) = &mut self.failure {
            failure.detail = None;
        }
        if let Some(Compensation::Failed { failure }) = &mut self.compensation {
            failure.detail = None;
        }
    }
}

impl HistoryEntry {
    /// The same for a line of a history.
    pub(super) fn hide_details(&mut self) {
        match &mut self.event {
            Event::StepFailed { failure, .. }
            | Event::StepRetrying { failure, .. }
            | Event::ActivityFailed { failure, .. }
            | Event::QuestionRefused { failure, .. }
            | Event::ChildFailed { failure, .. }
            | Event::StateFailed { failure, .. }
            | Event::Stuck { failure }
            | Event::Failed { failure }
            | Event::Undone { failure: Some(failure), .. } => failure.detail = None,
            _ => {}
        }
    }
}

/// What the row says, without questions.
pub(super) fn from_row(core: &Core, row: TaskRow) -> TaskInfo {
    let view = blob::read_view(&row.view);
    let about: About = blob::read(&row.about).unwrap_or_default();
    let mut info = TaskInfo {
        served_here: core.takes(&row.tool, row.version),
        origin: about.origin.unwrap_or_else(|| row.id.clone()),
        id: row.id,
        tool: row.tool,
        version: row.version,
        owner: row.owner,
        status: row.status,
        created: row.created,
        updated: row.updated,
        ended: row.ended,
        expires: row.expires,
        wakes: row.wake,
        tags: row.tags,
        parent: about.parent,
        rerun_of: about.rerun_of,
        trace: about.trace,
        call: about.call,
        message: view.message,
        progress: view.progress,
        failure: view.failure,
        retry_at: view.retry_at,
        reason: view.reason,
        compensation: view.compensation,
        marks: view.marks,
        output: None,
        questions: Vec::new(),
    };
    match row.end.as_deref().map(blob::read::<End>) {
        Some(Ok(End::Completed(output))) => info.output = Some(output),
        Some(Ok(End::Failed(failure))) => info.failure = Some(failure),
        Some(Ok(End::Cancelled(reason))) => info.reason = reason,
        Some(Err(_)) | None => {}
    }
    info
}

/// The same, with its open questions if it waits for them.
pub(super) fn complete(core: &Core, row: TaskRow, questions: Vec<QuestionRow>) -> Result<TaskInfo> {
    let asks = row.status == Status::InputRequired || row.status.is_halted();
    let mut info = from_row(core, row);
    for question in questions.iter().filter(|_| asks) {
        let ask: Ask = blob::read(&question.body).map_err(CallError::Store)?;
        info.questions.push(ask.into());
    }
    Ok(info)
}
