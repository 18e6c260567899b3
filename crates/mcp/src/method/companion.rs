//! Companion tools: for clients that know no tasks, tasks by way of tools.
//!
//! A call that outlives a set time answers with the id of its task, and these tools say how it stands,
//! give its result, take answers to its questions, and cancel it.

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use steadfast_core::{Action, Answer, Json, TaskId};
use steadfast_engine::{CallError, ListTasks, Status, TaskInfo, Tasks};

use super::{early::is_early, outcome, task_error};
use crate::{
    catalog::{Tool, ToolAnnotations},
    front::{Front, Request},
    wire::{CallResult, Content, Revision, RpcError},
};

/// A tool that is about tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Companion {
    Status,
    Result,
    List,
    Input,
    Cancel,
}

#[derive(Deserialize, JsonSchema)]
struct Named {
    /// The id of the task
    task_id: String,
}

#[derive(Deserialize, JsonSchema)]
struct Waiting {
    /// The id of the task
    task_id: String,
    /// How many seconds to wait for its end; a set time at most
    #[serde(default)]
    wait_seconds: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
struct Listing {
    /// Where to go on: `next` of the page before
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Deed {
    Accept,
    Decline,
    Cancel,
}

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The id of the task
    task_id: String,
    /// The key of the question; may be left out if only one is open
    #[serde(default)]
    key: Option<String>,
    /// What the user said: accept with the answer, decline, or cancel
    #[serde(default)]
    action: Option<Deed>,
    /// The answer, as the question's schema wants it
    #[serde(default)]
    answer: Option<Value>,
}

#[derive(Deserialize, JsonSchema)]
struct Ending {
    /// The id of the task
    task_id: String,
    /// Why
    #[serde(default)]
    reason: Option<String>,
}

/// All of them.
pub(crate) fn companions() -> Vec<Tool> {
    let reads = || ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() };
    let tool = |which: Companion, name: &str| Tool::of_front(name, which);
    vec![
        tool(Companion::Status, "task_status")
            .input_of::<Named>()
            .annotations(reads())
            .description("Says how a task stands that another tool has started, and what it asks."),
        tool(Companion::Result, "task_result")
            .input_of::<Waiting>()
            .annotations(reads())
            .description("Waits for the end of a task for a while, and gives its result."),
        tool(Companion::List, "task_list")
            .input_of::<Listing>()
            .annotations(reads())
            .description("Lists your own tasks, newest first."),
        tool(Companion::Input, "task_input").input_of::<Input>().description(
            "Answers a question of a task. Ask the user first; never answer by yourself.",
        ),
        tool(Companion::Cancel, "task_cancel")
            .input_of::<Ending>()
            .description("Cancels a task. What it had done is undone where its tool can undo it."),
    ]
}

impl Front {
    /// What a call that outlived its time answers with.
    pub(super) fn outlived(&self, info: &TaskInfo) -> CallResult {
        let id = &info.id;
        let text = match info.questions.is_empty() {
            true => format!(
                "This takes longer, and goes on as task {id}. Call task_result with this task_id to \
                 wait for its result, task_status to see how it stands, task_cancel to stop it."
            ),
            false => format!(
                "This goes on as task {id} once its questions are answered. {}",
                questions_text(info)
            ),
        };
        CallResult { content: vec![Content::text(text)], ..self.about(info) }
    }

    /// A task in words that programs can read.
    fn about(&self, info: &TaskInfo) -> CallResult {
        let questions: Vec<Value> = info
            .questions
            .iter()
            .map(|one| json!({ "key": one.key, "message": one.message, "schema": one.schema }))
            .collect();
        let structured = json!({
            "task_id": info.id,
            "tool": info.tool,
            "status": info.status.name(),
            "message": outcome::status_message(info),
            "questions": questions,
        });
        CallResult { structured_content: Json::of(&structured).ok(), ..CallResult::default() }
    }

    pub(super) async fn companion(
        self: &Arc<Self>,
        request: &Request<'_>,
        which: Companion,
        arguments: &Json,
    ) -> Result<CallResult, RpcError> {
        let tasks = self.tasks(&request.client);
        let done = match which {
            Companion::Status => self.status(&tasks, read::<Named>(arguments)?).await,
            Companion::Result => {
                let wanted: Waiting = read(arguments)?;
                let most = self.settings.outlives;
                let wait = wanted.wait_seconds.map_or(most, |seconds| {
                    Duration::try_from_secs_f64(seconds).unwrap_or_default().min(most)
                });
                self.ending(&tasks, &id(&wanted.task_id)?, wait).await
            }
            Companion::List if !self.may_list(&request.client) => {
                let text =
                    "Callers are not told apart here, so tasks can't be listed. Use their ids.";
                return Ok(CallResult::error(text));
            }
            Companion::List => self.own_tasks(&tasks, read(arguments)?).await,
            Companion::Input => self.input(&tasks, read(arguments)?).await,
            Companion::Cancel => {
                let wanted: Ending = read(arguments)?;
                let task = id(&wanted.task_id)?;
                let cancelled = tasks.cancel(&task, wanted.reason).await;
                cancelled.map(|()| CallResult::text(format!("The task {task} is cancelled.")))
            }
        };
        // The model can read what is wrong with its call, and do better.
        done.or_else(|error| match error {
            error @ (CallError::Store(_) | CallError::ShuttingDown) => Err(task_error(error)),
            error => Ok(CallResult::error(error.to_string())),
        })
    }

    async fn status(&self, tasks: &Tasks, named: Named) -> Result<CallResult, CallError> {
        let info = tasks.get(&TaskId::new(&named.task_id)?).await?;
        let mut text = format!("The task {} of {} is {}.", info.id, info.tool, info.status);
        if let Some(message) = outcome::status_message(&info) {
            text += &format!(" {message}");
        }
        if !info.questions.is_empty() {
            text += &format!(" {}", questions_text(&info));
        }
        Ok(CallResult { content: vec![Content::text(text)], ..self.about(&info) })
    }

    /// The result of a task if it comes in time, and otherwise how it stands.
    async fn ending(
        &self,
        tasks: &Tasks,
        id: &TaskId,
        wait: Duration,
    ) -> Result<CallResult, CallError> {
        let done = |info: &TaskInfo| info.status.is_terminal() || !info.questions.is_empty();
        let info = match tokio::time::timeout(wait, tasks.wait_for(id, done)).await {
            Ok(info) => info?,
            Err(_) => tasks.get(id).await?,
        };
        // What a model can read, whatever the revision would make of it.
        Ok(match outcome::ended(&info, Revision::NEWEST_WITH_SESSIONS) {
            None => self.outlived(&info),
            Some(outcome::Ended::Result(result)) => result.read().unwrap_or_default(),
            Some(outcome::Ended::Error(error)) => CallResult::error(error.message),
            Some(outcome::Ended::Cancelled(reason)) => CallResult::error(match reason {
                Some(reason) => format!("The task was cancelled: {reason}"),
                None => "The task was cancelled.".into(),
            }),
        })
    }

    async fn own_tasks(&self, tasks: &Tasks, listing: Listing) -> Result<CallResult, CallError> {
        let list = ListTasks { cursor: listing.cursor, limit: 50, ..ListTasks::default() };
        let mut page = tasks.list(list).await?;
        page.tasks.retain(|info| !is_early(info));
        let line = |info: &TaskInfo| format!("{} {} {}", info.id, info.tool, info.status);
        let mut text: Vec<String> = page.tasks.iter().map(line).collect();
        if text.is_empty() {
            text.push("There are none.".into());
        }
        let one = |info: &TaskInfo| json!({ "task_id": info.id, "tool": info.tool, "status": info.status.name() });
        let shown: Vec<Value> = page.tasks.iter().map(one).collect();
        let structured = json!({ "tasks": shown, "next": page.next });
        let result = CallResult::text(text.join("\n"));
        Ok(CallResult { structured_content: Json::of(&structured).ok(), ..result })
    }

    async fn input(&self, tasks: &Tasks, input: Input) -> Result<CallResult, CallError> {
        let id = TaskId::new(&input.task_id)?;
        let info = tasks.get(&id).await?;
        if info.status.is_terminal() {
            return Err(CallError::Terminal { id, status: info.status });
        }
        let key = match (input.key, &info.questions[..]) {
            (Some(key), _) => key,
            (None, [one]) => one.key.clone(),
            (None, []) => return Ok(CallResult::error(format!("The task {id} asks nothing now."))),
            (None, _) => {
                let text =
                    format!("Several questions are open: say which. {}", questions_text(&info));
                return Ok(CallResult::error(text));
            }
        };
        let content = input.answer.as_ref().and_then(|answer| Json::of(answer).ok());
        let answer = match input.action.unwrap_or(Deed::Accept) {
            Deed::Accept => Answer { action: Action::Accept, content },
            Deed::Decline => Answer { action: Action::Decline, content: None },
            Deed::Cancel => Answer { action: Action::Cancel, content: None },
        };
        // The model hears at once what is wrong with its answer, and the question stays open.
        tasks.answer(&id, &key, answer).await?;
        self.ending(tasks, &id, self.settings.outlives).await
    }
}

fn read<T: DeserializeOwned>(arguments: &Json) -> Result<T, RpcError> {
    arguments.read().map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn id(text: &str) -> Result<TaskId, RpcError> {
    TaskId::new(text).map_err(|error| RpcError::invalid_params(error.to_string()))
}

/// The open questions, and how to answer them.
fn questions_text(info: &TaskInfo) -> String {
    let mut text = String::from("Ask the user, and answer with task_input:");
    for question in &info.questions {
        text += &format!(
            "\n- key {:?}: {} (the answer's schema: {})",
            question.key,
            question.message,
            question.schema.text()
        );
    }
    if info.status == Status::Suspended {
        text += "\nThe task is suspended, and goes on when it is resumed.";
    }
    text
}
