//! Calls of durable tools: as a task that the client follows, or waited for.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use steadfast_core::{Event, Json, Note, TaskId, Timestamp, Ttl};
use steadfast_engine::{HistoryEntry, Order, StartedTask, TaskInfo, Tasks};

use super::{Reply, questions, task_error, tools::cancelled};
use crate::{
    catalog::ToolEntry,
    client::{CallRecord, Client},
    context::HANDED_OUT,
    front::{Front, LEVELS, Request, level},
    wire::{Object, RpcError, meta, notification},
};

/// A call of a durable tool, or of what is one inside.
pub(super) struct Call<'a> {
    pub(super) front: &'a Arc<Front>,
    pub(super) request: &'a Request<'a>,
    /// What the engine calls it.
    pub(super) engine_name: &'a str,
    pub(super) entry: Option<&'a Arc<ToolEntry>>,
    pub(super) arguments: Json,
    /// Why nothing is run, if nothing is.
    pub(super) refused: Option<String>,
    pub(super) input_responses: Map<String, Value>,
    pub(super) request_state: Option<String>,
}

/// The tag of tasks that a session started and follows.
pub(super) const SESSION_TAG: &str = "mcp.session";

/// What the state of a request begins with.
const STATE: &str = "r1.";

impl Call<'_> {
    fn tasks(&self) -> Tasks {
        self.front.tasks(&self.request.client)
    }

    async fn start(&self, ttl: Option<f64>, followed: bool) -> Result<StartedTask, RpcError> {
        let client = &self.request.client;
        let record = CallRecord {
            revision: client.revision.name().into(),
            capabilities: client.capabilities.clone(),
            client: client.info.clone(),
            companions: self.front.settings.companions,
            refused: self.refused.clone(),
            progress_token: self.request.meta.progress_token.clone().filter(|_| followed),
        };
        let mut start = self.tasks().start(self.engine_name, &self.arguments).call(&record);
        for (name, value) in self.entry.iter().flat_map(|entry| &entry.tool.tags) {
            start = start.tag(name, value);
        }
        if let (Some(session), true) = (&self.request.session, followed) {
            start = start.tag(SESSION_TAG, &session.id);
        }
        if let Some(ttl) = ttl.filter(|ttl| ttl.is_finite() && *ttl >= 0.0) {
            start = start.ttl(Ttl::Millis(ttl as u64));
        }
        if let Some(trace) = &self.request.meta.trace {
            start = start.trace(trace);
        }
        start.await.map_err(task_error)
    }

    /// Starts a task and hands it to the client.
    pub(super) async fn handed_out(self, ttl: Option<f64>) -> Reply {
        let (front, client) = (self.front, &self.request.client);
        let tasks = self.tasks();
        let own = self.entry.is_some_and(|entry| entry.tool.hands_itself_out);
        let (id, info) = match &self.request_state {
            Some(state) if own => {
                let info = self.resume(state).await?;
                (info.id.clone(), info)
            }
            _ => {
                let id = self.start(ttl, true).await?.id;
                let info = tasks.get(&id).await.map_err(task_error)?;
                (id, info)
            }
        };
        let info = if own { self.until_handed_out(&id, info).await? } else { info };
        let mut more = Map::new();
        match info.marks.get(HANDED_OUT) {
            Some(text) => {
                if let Ok(text @ Value::String(_)) = text.read() {
                    more.insert(meta::IMMEDIATE.into(), text);
                }
            }
            // It never came to that. A client of 2025-11-25 wants a task in any case.
            None if own && client.revision.is_stateless() => {
                return match info.status.is_terminal() {
                    true => front.final_reply(client, &info, None),
                    false => Ok(self.input_required(&info)),
                };
            }
            None => {}
        }
        if client.revision.is_stateless() {
            let object = Object::new().put("resultType", "task");
            let object = front.task_object(object, client, &info);
            Ok(front.close_with(client, object, more))
        } else {
            let task = front.task_object(Object::new(), client, &info).close();
            Ok(front.close_with(client, Object::new().raw("task", &task), more))
        }
    }

    /// Waits until the code hands the task out, ends, or asks something that a client of 2026-07-28
    /// answers by calling again.
    async fn until_handed_out(&self, id: &TaskId, info: TaskInfo) -> Result<TaskInfo, RpcError> {
        let tasks = self.tasks();
        if !self.input_responses.is_empty() {
            questions::apply(&tasks, &info, &self.input_responses).await.map_err(task_error)?;
        }
        let client = &self.request.client;
        let handed =
            |info: &TaskInfo| info.status.is_terminal() || info.marks.contains_key(HANDED_OUT);
        loop {
            let info = tasks
                .wait_for(id, |info| handed(info) || asks(info, client))
                .await
                .map_err(task_error)?;
            match &self.request.session {
                Some(session) if !handed(&info) => {
                    let front = self.front;
                    front.send_questions(session, &info, &self.request.outlet, true).await;
                    let seen = info;
                    tasks.wait_for(id, |info| *info != seen).await.map_err(task_error)?;
                }
                _ => return Ok(info),
            }
        }
    }

    /// Runs the call while the client waits.
    pub(super) async fn blocking(self) -> Reply {
        let (front, client) = (self.front, &self.request.client);
        let tasks = self.tasks();
        let id = match &self.request_state {
            Some(state) if client.revision.is_stateless() => {
                let info = self.resume(state).await?;
                questions::apply(&tasks, &info, &self.input_responses).await.map_err(task_error)?;
                info.id
            }
            _ => self.start(None, false).await?.id,
        };
        // A client of 2026-07-28 that goes away has taken its request back.
        let mut guard = CancelOnDrop {
            tasks: tasks.clone(),
            id: id.clone(),
            armed: client.revision.is_stateless(),
        };
        let settings = &front.settings;
        let outlives = async {
            match settings.companions && self.entry.is_some() {
                true => tokio::time::sleep(settings.outlives).await,
                false => std::future::pending().await,
            }
        };
        let info = tokio::select! {
            info = self.follow(&tasks, &id) => info?,
            () = outlives => {
                guard.armed = false;
                let info = tasks.get(&id).await.map_err(task_error)?;
                return match info.status.is_terminal() {
                    true => front.final_reply(client, &info, None),
                    false => self.outlived(&info),
                };
            }
            () = self.request.cancel.cancelled() => {
                guard.armed = true;
                return Err(cancelled());
            }
        };
        guard.armed = false;
        match info.status.is_terminal() {
            true if self.entry.is_some() => front.final_reply(client, &info, None),
            true => self.other_result(&info),
            false if asks(&info, client) => Ok(self.input_required(&info)),
            false => self.outlived(&info),
        }
    }

    /// The answer of a call that goes on without its client.
    fn outlived(&self, info: &TaskInfo) -> Reply {
        let result = Json::of(&self.front.outlived(info)).map_err(|_| RpcError::internal())?;
        self.front.call_result(&self.request.client, None, &result, None)
    }

    /// Whether the task waits for an answer that only a companion tool can bring.
    fn waits_for_tool(&self, info: &TaskInfo) -> bool {
        let by_tool = self.front.settings.companions && self.entry.is_some();
        by_tool && !info.questions.is_empty() && !asks(info, &self.request.client)
    }

    /// Until the task has ended, or asks something that the client answers by calling again. What it
    /// says meanwhile goes to the client, and so do its questions if they go out live.
    async fn follow(&self, tasks: &Tasks, id: &TaskId) -> Result<TaskInfo, RpcError> {
        let client = &self.request.client;
        let least = match &self.request.session {
            Some(session) => Some(session.log_level().unwrap_or(1)),
            None => self.request.meta.log_level,
        };
        let listens = least.is_some() || self.request.meta.progress_token.is_some();
        if !listens && self.request.session.is_none() {
            let done = |info: &TaskInfo| {
                info.status.is_terminal() || asks(info, client) || self.waits_for_tool(info)
            };
            return tasks.wait_for(id, done).await.map_err(task_error);
        }
        let mut voice = Voice { call: self, least, progress: f64::NEG_INFINITY };
        let mut seen = 0;
        loop {
            let (info, events) = tasks.wait_for_events(id, seen).await.map_err(task_error)?;
            for event in &events {
                voice.say(event).await;
            }
            seen = events.last().map_or(seen, |last| last.seq + 1);
            if info.status.is_terminal() || self.waits_for_tool(&info) {
                return Ok(info);
            }
            match &self.request.session {
                Some(session) => {
                    self.front.send_questions(session, &info, &self.request.outlet, false).await;
                }
                None if asks(&info, client) => return Ok(info),
                None => {}
            }
        }
    }

    /// The task of an earlier round of this call: it must be the caller's own, and the same call.
    async fn resume(&self, state: &str) -> Result<TaskInfo, RpcError> {
        let wrong = || RpcError::invalid_params("this requestState is not valid for this request");
        let id = state.strip_prefix(STATE).and_then(|id| TaskId::new(id).ok()).ok_or_else(wrong)?;
        let tasks = self.tasks();
        let info = tasks.get(&id).await.map_err(|_| wrong())?;
        let life = self.front.settings.request_state_life;
        if info.tool != self.engine_name || info.updated.plus(life) < now() {
            return Err(wrong());
        }
        let first = tasks.history(&id, Order::OldestFirst, None, 1).await.map_err(|_| wrong())?;
        match first.entries.first().map(|entry| &entry.event) {
            Some(Event::Started { input, .. }) if same(input, &self.arguments) => Ok(info),
            _ => Err(wrong()),
        }
    }

    fn input_required(&self, info: &TaskInfo) -> String {
        let client = &self.request.client;
        let asked = questions::open(info, client);
        let object = Object::new()
            .put("resultType", "input_required")
            .raw("inputRequests", &questions::input_requests(&asked))
            .put("requestState", &format!("{STATE}{}", info.id));
        self.front.close(client, object)
    }

    /// The result of what is no tool: a prompt.
    fn other_result(&self, info: &TaskInfo) -> Reply {
        let failed = || match &info.failure {
            Some(failure) if failure.kind == steadfast_core::FailureKind::Error => {
                RpcError::new(crate::wire::code::INTERNAL, failure.message.clone())
            }
            _ => RpcError::internal(),
        };
        let output = info.output.as_ref().ok_or_else(failed)?;
        let fields: Map<String, Value> = output.read().map_err(|_| RpcError::internal())?;
        let mut object = self.front.result(&self.request.client);
        for (name, value) in &fields {
            object = object.put(name, value);
        }
        Ok(self.front.close(&self.request.client, object))
    }
}

/// Whether a task asks something that this client can answer.
fn asks(info: &TaskInfo, client: &Client) -> bool {
    !questions::open(info, client).is_empty()
}

fn same(one: &Json, other: &Json) -> bool {
    match (one.read::<Value>(), other.read::<Value>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

/// Cancels a task whose caller has gone, unless it is disarmed.
struct CancelOnDrop {
    tasks: Tasks,
    id: TaskId,
    armed: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            let (tasks, id) = (self.tasks.clone(), self.id.clone());
            // Nobody waits for it; the engine carries it to its end.
            tokio::spawn(async move {
                let reason = "the client took the request back".to_owned();
                if let Err(error) = tasks.cancel(&id, Some(reason)).await {
                    tracing::debug!(%error, "a task could not be cancelled");
                }
            });
        }
    }
}

/// Tells a client what a task says on its way.
struct Voice<'a> {
    call: &'a Call<'a>,
    least: Option<usize>,
    progress: f64,
}

impl Voice<'_> {
    async fn say(&mut self, entry: &HistoryEntry) {
        let Event::Noted { note, .. } = &entry.event else { return };
        let message = match note {
            Note::Progress(progress) => {
                let Some(token) = &self.call.request.meta.progress_token else { return };
                // The protocol wants it to rise.
                if progress.done <= self.progress {
                    return;
                }
                self.progress = progress.done;
                let params = Object::new()
                    .put("progressToken", token)
                    .put("progress", &number(progress.done))
                    .maybe("total", progress.total.map(number))
                    .maybe("message", progress.text.as_ref());
                notification("notifications/progress", Some(&params.close()))
            }
            Note::Log { level: name, text } => {
                let severity = level(name).unwrap_or(1);
                if self.least.is_none_or(|least| severity < least) {
                    return;
                }
                let params = Object::new()
                    .put("level", LEVELS[severity])
                    .put("logger", self.call.engine_name)
                    .put("data", text);
                notification("notifications/message", Some(&params.close()))
            }
            Note::Status(_) | Note::Mark { .. } => return,
        };
        self.call.request.outlet.send(message).await;
    }
}

/// Whole numbers are written as such.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}
