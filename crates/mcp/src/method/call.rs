//! Calls of durable tools: as a task that the client follows, or waited for.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use steadfast_core::{Json, Status, TaskId, Timestamp};
use steadfast_engine::{CallError, StartedTask, TaskInfo, Tasks};

use super::{
    Reply,
    follow::{Attached, Point},
    lost::is_taken_back,
    outcome, questions,
    rounds::apply,
    task_error,
    tools::cancelled,
};
use crate::{
    catalog::{PROMPT, RESOURCE, ToolEntry},
    client::{CallRecord, Client},
    context::{HANDED_OUT, protocol_code},
    front::{Front, Request},
    wire::{Object, RpcError, code, meta},
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

impl Call<'_> {
    pub(super) fn tasks(&self) -> Tasks {
        self.front.tasks(&self.request.client)
    }

    pub(super) fn hands_itself_out(&self) -> bool {
        self.entry.is_some_and(|entry| entry.tool.hands_itself_out)
    }

    /// Starts a task and hands it to the client.
    pub(super) async fn handed_out(self, ttl: Option<f64>) -> Reply {
        let (front, client) = (self.front, &self.request.client);
        let tasks = self.tasks();
        let own = self.hands_itself_out();
        let (id, info) = match &self.request_state {
            Some(state) if own => {
                let (info, _) = self.resume(state).await?;
                (info.id.clone(), info)
            }
            _ => {
                let (started, _) = self.start(ttl, true).await?;
                if let Some(session) = &self.request.session {
                    front.tell_of_new_task(session, &started.id, &self.request.answered.0);
                }
                if let (Some(created), false) = (started.created, own) {
                    self.is_answered(&started.id);
                    return Ok(self.new_task(&started, created));
                }
                let info = tasks.get(&started.id).await.map_err(task_error)?;
                (started.id, info)
            }
        };
        let info = if own { self.until_handed_out(&id).await? } else { info };
        self.is_answered(&id);
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
                    false => {
                        let heard = self.events(&tasks, &id).await?;
                        Ok(self.input_required(&info, heard))
                    }
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

    /// The answer to a call that has become a task.
    fn new_task(&self, started: &StartedTask, created: Timestamp) -> String {
        let (front, client) = (self.front, &self.request.client);
        let state =
            |object| front.new_task_object(object, client, self.engine_name, started, created);
        match client.revision.is_stateless() {
            true => front.close(client, state(Object::new().put("resultType", "task"))),
            false => Object::new().raw("task", &state(Object::new()).close()).close(),
        }
    }

    /// Waits until the code hands the task out, ends, or asks something that a client of 2026-07-28
    /// answers by calling again.
    async fn until_handed_out(&self, id: &TaskId) -> Result<TaskInfo, RpcError> {
        let tasks = self.tasks();
        let mut given = self.input_responses.clone();
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
                    let on = &self.request.outlet;
                    front.send_questions(session, &info, on, Some(&info.id), None).await;
                    let seen = info;
                    tasks.wait_for(id, |info| *info != seen).await.map_err(task_error)?;
                }
                None if !handed(&info) && apply(&tasks, &info, &mut given).await? => {}
                _ => return Ok(info),
            }
        }
    }

    /// Runs the call while the client waits.
    pub(super) async fn blocking(self) -> Reply {
        let client = &self.request.client;
        let tasks = self.tasks();
        let (id, point, follow) = match &self.request_state {
            Some(state) if client.revision.is_stateless() => {
                let (info, heard) = Box::pin(self.resume(state)).await?;
                (info.id, Point { heard, ..Point::default() }, None)
            }
            _ => {
                let (started, follow) = Box::pin(self.start(None, false)).await?;
                match started.new {
                    true => (started.id, Point::default(), follow),
                    false => {
                        let info = tasks.get(&started.id).await.map_err(task_error)?;
                        if is_taken_back(&info) {
                            // By whoever made it, and before this request was made.
                            return self.ended(&info);
                        }
                        let point = Box::pin(self.attach(&info)).await?;
                        Box::pin(self.check_early(&info.id)).await?;
                        (started.id, point, None)
                    }
                }
            }
        };
        if self.request.session.is_some() {
            self.request.outlet.begin(point.name(&id)).await;
        }
        let mut guard = CancelOnDrop {
            front: self.front.clone(),
            tasks: tasks.clone(),
            id: id.clone(),
            reason: self.taken_back(&id),
            by_id: self.is_known_by_its_id(),
            armed: self.ends_with_connection(),
        };
        let settings = &self.front.settings;
        let outlives = async {
            match settings.companions && self.entry.is_some() {
                true => tokio::time::sleep(settings.outlives).await,
                false => std::future::pending().await,
            }
        };
        let (info, point) = tokio::select! {
            followed = self.follow(&tasks, &id, point, follow) => {
                followed.map(|(info, point)| (info, Some(point)))?
            }
            () = outlives => (tasks.get(&id).await.map_err(task_error)?, None),
            () = self.request.cancel.cancelled() => {
                guard.armed = true;
                return Err(cancelled());
            }
        };
        // The client may come back with the answer in a week.
        let ended = match info.status.is_terminal() {
            true => Some(info.clone()),
            false => self.outlives_connection(&info.id).await?,
        };
        guard.armed = false;
        match (ended, point) {
            (Some(ended), _) => self.end(&ended),
            (None, Some(point)) if asks(&info, client) => {
                Ok(self.input_required(&info, point.heard))
            }
            (None, _) => self.outlived(&info),
        }
    }

    /// The request was made before: it is answered here from now on, and no longer where it was. What is
    /// in the task's history already is not for this stream.
    async fn attach(&self, info: &TaskInfo) -> Result<Point, RpcError> {
        let id = &info.id;
        let heard = self.events(&self.tasks(), id).await?;
        let Some(session) = &self.request.session else {
            return Ok(Point { heard, ..Point::default() });
        };
        session.close_call(id.as_str());
        let open = info.questions.iter().map(|question| (question.key.as_str(), false));
        session.keep_asked(id.as_str(), open, &self.request.outlet);
        let record = info.call.as_ref().and_then(|call| call.read::<CallRecord>().ok());
        let (request, token) = (self.request.id, &self.request.meta.progress_token);
        let made_it = record.as_ref().filter(|record| record.is_waited_for(&session.id, request));
        if made_it.is_none() {
            session.attach(request, id);
            if session.can_return {
                // So that it can be taken back in any process.
                self.front
                    .sessions
                    .keep(session)
                    .await
                    .map_err(|error| task_error(CallError::Store(error)))?;
            }
        }
        let is_known = made_it.is_some_and(|record| record.progress_token == *token);
        let of = (!is_known).then(|| Attached::new(session, request, token.as_ref()));
        Ok(Point { heard, of, ..Point::default() })
    }

    /// The answer when the task has ended. None if its client took it back, wherever that was.
    pub(super) fn end(&self, info: &TaskInfo) -> Reply {
        if self.was_taken_back(info) {
            self.request.cancel.cancel();
            return Err(cancelled());
        }
        self.is_answered(&info.id);
        self.ended(info)
    }

    /// Why its task is cancelled when its client takes this request back.
    pub(super) fn taken_back(&self, id: &TaskId) -> &'static str {
        let session = self.request.session.as_ref();
        match session.is_some_and(|session| session.is_attached(self.request.id, id)) {
            true => FOUND_AND_TAKEN_BACK,
            false => TAKEN_BACK,
        }
    }

    /// Whether its task was cancelled because this very request was taken back. To others that found the
    /// task by their key it has failed.
    fn was_taken_back(&self, info: &TaskInfo) -> bool {
        let Some(session) = &self.request.session else { return false };
        let record = info.call.as_ref().and_then(|call| call.read::<CallRecord>().ok());
        let made_it = record.is_some_and(|one| one.is_waited_for(&session.id, self.request.id));
        let took_it = session.has_taken_back(self.request.id, &info.id);
        made_it && is_taken_back(info) || took_it && info.status == Status::Cancelled
    }

    /// The answer of a call that goes on without its client.
    fn outlived(&self, info: &TaskInfo) -> Reply {
        self.is_answered(&info.id);
        let result = Json::of(&self.front.outlived(info)).map_err(|_| RpcError::internal())?;
        self.front.call_result(&self.request.client, None, &result, None)
    }

    /// Whether the task waits for an answer that only a companion tool can bring.
    pub(super) fn waits_for_tool(&self, info: &TaskInfo) -> bool {
        let by_tool = self.front.settings.companions && self.entry.is_some();
        by_tool && !info.questions.is_empty() && !asks(info, &self.request.client)
    }

    /// What is answered when the task has ended.
    pub(super) fn ended(&self, info: &TaskInfo) -> Reply {
        let other = [PROMPT, RESOURCE].iter().any(|kind| self.engine_name.starts_with(kind));
        match other {
            true => self.other_result(info),
            false => self.front.final_reply(&self.request.client, info, None),
        }
    }

    /// The result of what is no tool: a prompt, or a resource.
    fn other_result(&self, info: &TaskInfo) -> Reply {
        if let Some(missing) = outcome::missing(info, self.request.client.revision) {
            return Err(missing);
        }
        let failed = || match &info.failure {
            Some(failure) if failure.kind == steadfast_core::FailureKind::Error => {
                let own = protocol_code(failure.code.as_deref());
                let rpc = RpcError::new(own.unwrap_or(code::INTERNAL), failure.message.clone());
                match failure.data.as_ref().filter(|_| own.is_some()) {
                    Some(data) => rpc.data(data),
                    None => rpc,
                }
            }
            _ => RpcError::internal(),
        };
        let output = info.output.as_ref().ok_or_else(failed)?;
        let fields: Map<String, Value> = output.read().map_err(|_| RpcError::internal())?;
        let mut object = self.front.result(&self.request.client);
        for (name, value) in &fields {
            object = object.put(name, value);
        }
        if self.engine_name.starts_with(RESOURCE) {
            object = self.front.cache_hints(&self.request.client, object, Duration::ZERO);
        }
        Ok(self.front.close(&self.request.client, object))
    }
}

/// Whether a task asks something that this client can answer.
pub(super) fn asks(info: &TaskInfo, client: &Client) -> bool {
    !questions::open(info, client).is_empty()
}

/// Why the task of a call was cancelled whose client took the request back: that gets no answer.
pub(super) const TAKEN_BACK: &str = "the client took the request back";

/// The same of one that has found the call of another by its key: to that the call has failed.
pub(super) const FOUND_AND_TAKEN_BACK: &str =
    "another request with its idempotency key was taken back";

/// Cancels a task whose caller has gone, unless it is disarmed.
pub(super) struct CancelOnDrop {
    pub(super) front: Arc<Front>,
    pub(super) tasks: Tasks,
    pub(super) id: TaskId,
    pub(super) reason: &'static str,
    /// The id of its request is what it is known by.
    pub(super) by_id: bool,
    pub(super) armed: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            let (front, tasks, id) = (self.front.clone(), self.tasks.clone(), self.id.clone());
            let (reason, by_id) = (self.reason, self.by_id);
            let draining = self.front.draining.clone();
            // Nobody waits for it, but for who shuts the server down.
            self.front.background.spawn(async move {
                loop {
                    match front.take_back(&tasks, &id, reason, by_id).await {
                        Ok(()) => return,
                        // The store is away: then it must not go on when that is back. Of a process
                        // that goes, others end what was bound to it.
                        Err(CallError::Store(error)) if !draining.is_cancelled() => {
                            tracing::warn!(task = %id, %error, "can't cancel a call; trying again");
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                        Err(error) => {
                            tracing::debug!(%error, "a task could not be cancelled");
                            return;
                        }
                    }
                }
            });
        }
    }
}
