//! How a task looks on the wire: its state, and its end.

use std::{borrow::Cow, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use steadfast_core::{FailureKind, Json, Status, TaskId, Timestamp};
use steadfast_engine::{StartedTask, TaskInfo};

use super::{Reply, questions};
use crate::{
    ask::NO_CAPABLE_CLIENT,
    catalog::ToolEntry,
    client::Client,
    context::protocol_code,
    front::{Front, millis},
    wire::{CallResult, Object, Revision, RpcError, code, iso8601, meta},
};

/// How a task ended, as the call that it stands for would have.
pub(super) enum Ended<'a> {
    Result(Cow<'a, Json>),
    Error(RpcError),
    Cancelled(Option<&'a str>),
}

/// The end of a task, if it has ended, for a client of this revision.
pub(super) fn ended(info: &TaskInfo, revision: Revision) -> Option<Ended<'_>> {
    match info.status {
        Status::Completed => {
            let output = info.output.as_ref().map(Cow::Borrowed);
            Some(Ended::Result(output.unwrap_or_else(|| Cow::Owned(Json::null()))))
        }
        Status::Failed => Some(failed(info, revision)),
        Status::Cancelled => Some(Ended::Cancelled(info.reason.as_deref())),
        _ => None,
    }
}

fn failed(info: &TaskInfo, revision: Revision) -> Ended<'_> {
    let Some(failure) = &info.failure else { return Ended::Error(RpcError::internal()) };
    if failure.kind == FailureKind::Panicked {
        // Its text is for the operator.
        return Ended::Error(RpcError::new(code::INTERNAL, "the tool failed unexpectedly"));
    }
    if let Some(code) = protocol_code(failure.code.as_deref()) {
        let error = RpcError::new(code, failure.message.clone());
        return Ended::Error(match &failure.data {
            Some(data) => error.data(data),
            None => error,
        });
    }
    if let Some(missing) = missing(info, revision) {
        return Ended::Error(missing);
    }
    let result = CallResult::error(failure.message.clone());
    match Json::of(&result) {
        Ok(json) => Ended::Result(Cow::Owned(json)),
        Err(_) => Ended::Error(RpcError::internal()),
    }
}

/// The error of a task that could not do without something that its client has not declared. Before
/// 2026-07-28 there was none for it: it was an error of the tool.
pub(super) fn missing(info: &TaskInfo, revision: Revision) -> Option<RpcError> {
    let failure = info.failure.as_ref().filter(|_| revision.is_stateless())?;
    let code = failure.code.as_deref().filter(|code| *code == NO_CAPABLE_CLIENT);
    let needed: Value = code.and(failure.data.as_ref())?.read().ok()?;
    Some(RpcError::missing(&needed))
}

impl RpcError {
    /// A call that was cancelled has no answer of its own in the protocol.
    fn cancelled(reason: Option<&str>) -> RpcError {
        match reason {
            Some(reason) => RpcError::new(code::INTERNAL, format!("cancelled: {reason}")),
            None => RpcError::new(code::INTERNAL, "cancelled"),
        }
    }
}

/// A recorded result of a tool, as far as it is looked into.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IsError {
    #[serde(default)]
    is_error: bool,
}

impl Front {
    /// A tool's result, with the task that it came from if the client knows tasks of 2025-11-25.
    pub(super) fn call_result(
        &self,
        client: &Client,
        entry: Option<&ToolEntry>,
        result: &Json,
        related: Option<&TaskId>,
    ) -> Reply {
        let object = self.call_object(self.result(client), client, entry, result)?;
        let Recorded { mut meta, .. } = recorded(result)?;
        if let Some(task) = related {
            meta.insert(meta::RELATED_TASK.into(), json!({ "taskId": task }));
        }
        Ok(self.close_with(client, object, meta))
    }

    fn call_object(
        &self,
        object: Object,
        client: &Client,
        entry: Option<&ToolEntry>,
        result: &Json,
    ) -> Result<Object, RpcError> {
        let Recorded { content, structured_content, is_error, .. } = recorded(result)?;
        let shows = entry.is_none_or(|entry| entry.shows_structure(client.revision));
        let mut object = object.raw("content", content.map_or("[]", RawValue::get));
        if let Some(value) = structured_content.filter(|_| shows) {
            object = object.raw("structuredContent", value.get());
        }
        Ok(if is_error { object.raw("isError", "true") } else { object })
    }

    /// What the call would have returned, had it been waited for.
    pub(super) fn final_reply(
        &self,
        client: &Client,
        info: &TaskInfo,
        related: Option<&TaskId>,
    ) -> Reply {
        let offer = self.catalog.offer();
        let entry = offer.tools.get(&info.tool);
        match ended(info, client.revision) {
            Some(Ended::Result(result)) => {
                self.call_result(client, entry.map(AsRef::as_ref), &result, related)
            }
            Some(Ended::Error(error)) => Err(error),
            Some(Ended::Cancelled(reason)) => Err(RpcError::cancelled(reason)),
            None => Err(RpcError::internal()),
        }
    }

    /// The state of a task that was just started, which need not be read to be known.
    pub(super) fn new_task_object(
        &self,
        object: Object,
        client: &Client,
        tool: &str,
        started: &StartedTask,
        created: Timestamp,
    ) -> Object {
        let offer = self.catalog.offer();
        let own = offer.tools.get(tool).and_then(|entry| entry.tool.poll_interval);
        let poll = own.unwrap_or(self.settings.poll_interval / 4);
        let ttl = started.expires.map(|at| at.0.saturating_sub(created.0).max(0));
        let (ttl_name, poll_name) = words(client.revision);
        object
            .put("taskId", &started.id)
            .put("status", "working")
            .put("createdAt", &iso8601(created))
            .put("lastUpdatedAt", &iso8601(created))
            .put(ttl_name, &ttl)
            .put(poll_name, &millis(poll))
    }

    /// A task's state, in the words of the client's revision, written into an object.
    pub(super) fn task_object(&self, object: Object, client: &Client, info: &TaskInfo) -> Object {
        self.state(object, &View::of(client, info))
    }

    fn state(&self, object: Object, view: &View<'_>) -> Object {
        let View { client, info, .. } = view;
        let ttl = info.expires.map(|at| at.0.saturating_sub(info.created.0).max(0));
        let asks = !view.asked.is_empty();
        let poll = (!info.status.is_terminal()).then(|| millis(self.poll_interval(info, asks)));
        let (ttl_name, poll_name) = words(client.revision);
        let status = view.status();
        let message = match status {
            "failed" => status_message(info).or_else(|| error_text(info)),
            _ => status_message(info),
        };
        object
            .put("taskId", &info.id)
            .put("status", status)
            .maybe("statusMessage", message)
            .put("createdAt", &iso8601(info.created))
            .put("lastUpdatedAt", &iso8601(info.updated))
            .put(ttl_name, &ttl)
            .maybe(poll_name, poll)
    }

    /// A task's state with what goes with it inline: result, error, questions. As 2026-07-28 has it.
    pub(super) fn detailed_task(
        &self,
        object: Object,
        client: &Client,
        info: &TaskInfo,
    ) -> Result<Object, RpcError> {
        let view = View::of(client, info);
        let object = self.state(object, &view);
        Ok(match view.ended {
            Some(Ended::Result(result)) => {
                let offer = self.catalog.offer();
                let entry = offer.tools.get(&info.tool).map(AsRef::as_ref);
                // It is a whole result of its own, type and all: ext-tasks refuses it otherwise.
                let inner = self.call_object(self.result(client), client, entry, &result)?;
                let Recorded { meta, .. } = recorded(&result)?;
                let inner = match meta.is_empty() {
                    true => inner.close(),
                    false => inner.put("_meta", &meta).close(),
                };
                object.raw("result", &inner)
            }
            Some(Ended::Error(error)) => object.put("error", &error),
            Some(Ended::Cancelled(_)) => object,
            None if view.asked.is_empty() => object,
            None => object.raw("inputRequests", &questions::input_requests(&view.asked)),
        })
    }

    /// The status of a task in a client's words.
    pub(super) fn status_in(&self, client: &Client, info: &TaskInfo) -> &'static str {
        View::of(client, info).status()
    }

    /// How often to ask: often when the task is young or about to finish, seldom while people think.
    fn poll_interval(&self, info: &TaskInfo, asks: bool) -> Duration {
        let offer = self.catalog.offer();
        let own = offer.tools.get(&info.tool).and_then(|entry| entry.tool.poll_interval);
        let base = own.unwrap_or(self.settings.poll_interval);
        let near = info.progress.as_ref().is_some_and(|progress| {
            progress.total.is_some_and(|total| total > 0.0 && progress.done >= 0.9 * total)
        });
        let age = info.created.until(info.updated);
        match () {
            () if asks => base * 5,
            () if near || own.is_none() && age < base => base / 4,
            () => base,
        }
    }
}

/// What the two generations call a lifetime and an interval.
fn words(revision: Revision) -> (&'static str, &'static str) {
    match revision.is_stateless() {
        true => ("ttlMs", "pollIntervalMs"),
        false => ("ttl", "pollInterval"),
    }
}

fn recorded(result: &Json) -> Result<Recorded<'_>, RpcError> {
    serde_json::from_str(result.text()).map_err(|error| {
        tracing::error!(%error, "a recorded result can't be read");
        RpcError::internal()
    })
}

/// A task as a client sees it.
struct View<'a> {
    client: &'a Client,
    info: &'a TaskInfo,
    /// What it asks, as far as this client can be asked.
    asked: Vec<questions::Open>,
    ended: Option<Ended<'a>>,
}

impl<'a> View<'a> {
    fn of(client: &'a Client, info: &'a TaskInfo) -> View<'a> {
        let ended = ended(info, client.revision);
        View { client, info, asked: questions::open(info, client), ended }
    }

    /// In the words of the protocol.
    fn status(&self) -> &'static str {
        match &self.ended {
            Some(Ended::Cancelled(_)) => "cancelled",
            Some(Ended::Error(_)) => "failed",
            Some(Ended::Result(result)) => {
                // 2025-11-25 calls it failed when the tool did; later that is a result like any other.
                let failed = || serde_json::from_str::<IsError>(result.text());
                let failed =
                    !self.client.revision.is_stateless() && failed().is_ok_and(|r| r.is_error);
                if failed { "failed" } else { "completed" }
            }
            None if !self.asked.is_empty() => "input_required",
            None => "working",
        }
    }
}

/// What a tool said that failed by its result, in place of an error.
fn error_text(info: &TaskInfo) -> Option<String> {
    let result: Value = info.output.as_ref()?.read().ok()?;
    let mut texts = result.get("content")?.as_array()?.iter().map(|block| block.get("text"));
    texts.find_map(|text| text?.as_str().map(str::to_owned))
}

pub(super) fn status_message(info: &TaskInfo) -> Option<String> {
    let said = || {
        let progress = info.progress.as_ref().and_then(|progress| progress.text.clone());
        info.message.clone().or(progress)
    };
    let failure = info.failure.as_ref().map(|failure| match failure.kind {
        FailureKind::Panicked => "the tool failed unexpectedly",
        _ => failure.message.as_str(),
    });
    match info.status {
        Status::Queued if info.served_here => Some("queued".into()),
        Status::Queued => Some(format!("waiting for a process that runs {:?}", info.tool)),
        Status::Retrying => Some(match failure {
            Some(failure) => format!("will be tried again: {failure}"),
            None => "will be tried again".into(),
        }),
        Status::Suspended => Some(match &info.reason {
            Some(reason) => format!("suspended: {reason}"),
            None => "suspended".into(),
        }),
        Status::Stuck => Some("can't go on by itself; the server's operator has to look".into()),
        Status::InputRequired => {
            said().or_else(|| info.questions.first().map(|question| question.message.clone()))
        }
        Status::Failed => failure.map(str::to_owned),
        Status::Cancelled => info.reason.clone(),
        Status::Running | Status::Waiting | Status::Completed => said(),
    }
}
