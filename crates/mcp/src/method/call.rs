//! Calls of durable tools: as a task that the client follows, or waited for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value};
use steadfast_core::{Json, TaskId, Timestamp, Ttl};
use steadfast_engine::{Bond, StartedTask, TaskInfo, Tasks};

use super::{
    Reply, follow::Point, lost::REQUEST_TAG, outcome, questions, rounds::apply, task_error,
    tools::cancelled,
};
use crate::{
    audit,
    catalog::{PROMPT, RESOURCE, ToolEntry},
    client::{CallRecord, Client, Waiting},
    context::{HANDED_OUT, protocol_code},
    front::{Front, Request, millis},
    identity::Claims,
    repeat::{fingerprint, idempotency_key, request_key},
    secret::{Place, Sealed},
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

    fn hands_itself_out(&self) -> bool {
        self.entry.is_some_and(|entry| entry.tool.hands_itself_out)
    }

    /// Refuses a principal that has too many tasks open.
    async fn check_count(&self) -> Result<(), RpcError> {
        let (front, principal) = (self.front, &self.request.client.principal);
        let most = front.settings.max_open_tasks;
        if most == 0 {
            return Ok(());
        }
        let count = match front.counted.get(principal, most, Instant::now()) {
            Some(count) => count,
            None => {
                let counts = self.tasks().counts().await.map_err(task_error)?;
                let open = counts.iter().filter(|(status, _)| !status.is_terminal());
                let count = open.map(|(_, count)| count).sum();
                front.counted.set(principal, count);
                count
            }
        };
        if count >= most {
            let message = format!("there are {count} tasks that have not ended, and {most} may be");
            return Err(RpcError::slow_down(&message, Duration::from_secs(1)));
        }
        front.counted.add(principal);
        Ok(())
    }

    /// Whether it ends with its connection, and with the process that it came to: its client can neither
    /// take it up again nor say that a later request is the same, and so makes it anew.
    fn ends_with_connection(&self) -> bool {
        let stays = self.request.session.as_ref().is_some_and(|session| session.can_return);
        !stays && self.request.meta.key.is_none() && self.request_state.is_none()
    }

    /// From now on it goes on whatever becomes of this process. True when that is durable.
    async fn outlives_connection(&self, id: &TaskId) -> Result<(), RpcError> {
        if !self.ends_with_connection() {
            return Ok(());
        }
        self.tasks().free(vec![(id.clone(), Bond::Desk)]).await.map_err(task_error)
    }

    /// Starts a task, or finds the one of a request that was made before.
    async fn start(&self, ttl: Option<f64>, followed: bool) -> Result<StartedTask, RpcError> {
        self.check_count().await?;
        let mut started = self.start_once(ttl, followed).await?;
        if !started.new && self.request.meta.key.is_none() && self.frees_its_id(&started.id).await?
        {
            started = self.start_once(ttl, followed).await?;
        }
        match started.new {
            true => audit::created(&self.request.client, &started.id, self.engine_name),
            false => self.check_same(&started.id).await?,
        }
        Ok(started)
    }

    /// Whether a call has no claim any more to the id that it came with: it was answered, or its stream
    /// was taken up.
    async fn frees_its_id(&self, id: &TaskId) -> Result<bool, RpcError> {
        if self.front.sent.has(id) {
            self.front.sent.flush(&self.front.engine).await;
            return Ok(true);
        }
        let Some(session) = &self.request.session else { return Ok(false) };
        let key = request_key(session, self.request.id);
        if self.tasks().keyed(&key).await.map_err(task_error)?.as_ref() != Some(id) {
            // That it was sent has been written down since.
            return Ok(true);
        }
        if !session.has_taken_up(id.as_str()) {
            return Ok(false);
        }
        let freed = self.tasks().free(vec![(id.clone(), Bond::Key)]).await;
        freed.map_err(task_error).map(|()| true)
    }

    fn fingerprint(&self) -> u64 {
        fingerprint(self.request.method, self.request.params)
    }

    async fn start_once(&self, ttl: Option<f64>, followed: bool) -> Result<StartedTask, RpcError> {
        let stored = self.request.session.as_ref().filter(|session| session.can_return);
        let waited = stored.filter(|_| !followed);
        let keyed = self.request.meta.key.as_deref();
        let key = match (keyed, waited) {
            (Some(key), _) => Some(idempotency_key(key)),
            (None, Some(session)) => Some(request_key(session, self.request.id)),
            (None, None) => None,
        };
        let print = key.is_some().then(|| self.fingerprint());
        let client = &self.request.client;
        let (id, credentials) = self.seal()?;
        let in_rounds = client.revision.is_stateless() && (!followed || self.hands_itself_out());
        let record = CallRecord {
            revision: client.revision.name().into(),
            claims: Claims::clone(&client.claims),
            credentials,
            capabilities: client.capabilities.clone(),
            client: client.info.clone(),
            companions: self.front.settings.companions,
            refused: self.refused.clone(),
            progress_token: self.request.meta.progress_token.clone(),
            arguments: in_rounds.then(|| self.arguments_digest()).flatten(),
            answer_within_ms: in_rounds.then(|| millis(self.front.settings.request_state_life)),
            fingerprint: print,
            waiting: waited.map(|session| Waiting {
                session: session.id.clone(),
                request: self.request.id.clone(),
                keyed: keyed.is_some(),
            }),
        };
        let mut start = self.tasks().start(self.engine_name, &self.arguments).call(&record);
        if let Some(id) = id {
            start = start.id(id);
        }
        if let Some(key) = key {
            start = start.request_key(key);
        }
        if !followed && self.ends_with_connection() {
            start = start.bound_to_process();
        }
        for (name, value) in self.entry.iter().flat_map(|entry| &entry.tool.tags) {
            start = start.tag(name, value);
        }
        if let Some(session) = &self.request.session {
            start = start.session(&session.id);
        }
        match &self.request.session {
            Some(session) if followed => start = start.tag(SESSION_TAG, &session.id),
            Some(session) if session.can_return && keyed.is_some() => {
                start = start.tag(REQUEST_TAG, request_key(session, self.request.id));
            }
            _ => {}
        }
        if let Some(ttl) = ttl.filter(|ttl| ttl.is_finite() && *ttl >= 0.0) {
            start = start.ttl(Ttl::Millis(ttl as u64));
        }
        if let Some(trace) = &self.request.meta.trace {
            start = start.trace(trace);
        }
        start.await.map_err(task_error)
    }

    /// The credentials that came with the request, encrypted for the task that is to be started; and its
    /// id, if that has to be known for it.
    fn seal(&self) -> Result<(Option<TaskId>, Sealed), RpcError> {
        let (front, client) = (self.front, &self.request.client);
        if client.credentials.is_empty() {
            return Ok((None, Sealed::new()));
        }
        let id = front.engine.new_id();
        let place = Place { principal: &client.principal, call: &id };
        // Who comes with credentials where there is no key got no further than the door.
        let sealed = front.keys.seal(place, &client.credentials).ok_or_else(RpcError::internal)?;
        Ok((Some(id), sealed))
    }

    /// Refuses a request that has the id or the key of another.
    async fn check_same(&self, id: &TaskId) -> Result<(), RpcError> {
        let info = self.tasks().get(id).await.map_err(task_error)?;
        let record = info.call.and_then(|call| call.read::<CallRecord>().ok());
        match record.is_some_and(|record| record.fingerprint == Some(self.fingerprint())) {
            true => Ok(()),
            false => Err(RpcError::taken(match self.request.meta.key {
                Some(_) => "this idempotency key was used for another request",
                None => "another request with this id has not been answered yet",
            })),
        }
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
                let started = self.start(ttl, true).await?;
                if let Some(session) = &self.request.session {
                    front.tell_of_new_task(session, &started.id, &self.request.answered.0);
                }
                if let (Some(created), false) = (started.created, own) {
                    return Ok(self.new_task(&started, created));
                }
                let info = tasks.get(&started.id).await.map_err(task_error)?;
                (started.id, info)
            }
        };
        let info = if own { self.until_handed_out(&id).await? } else { info };
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
        let (id, heard) = match &self.request_state {
            Some(state) if client.revision.is_stateless() => {
                let (info, heard) = self.resume(state).await?;
                (info.id, heard)
            }
            _ => {
                let started = self.start(None, false).await?;
                let heard = match started.new {
                    true => 0,
                    false => self.attach(&started.id).await?,
                };
                (started.id, heard)
            }
        };
        let point = Point { heard, ..Point::default() };
        if self.request.session.is_some() {
            self.request.outlet.begin(point.name(&id)).await;
        }
        let mut guard = CancelOnDrop {
            front: self.front.clone(),
            tasks: tasks.clone(),
            id: id.clone(),
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
            followed = self.follow(&tasks, &id, point) => followed?,
            () = outlives => {
                guard.armed = false;
                let info = tasks.get(&id).await.map_err(task_error)?;
                return match info.status.is_terminal() {
                    true => self.ended(&info),
                    false => self.outlived(&info).await,
                };
            }
            () = self.request.cancel.cancelled() => {
                guard.armed = true;
                return Err(cancelled());
            }
        };
        guard.armed = false;
        match info.status.is_terminal() {
            true => self.ended(&info),
            false if asks(&info, client) => {
                // The client may come back with the answer in a week.
                self.outlives_connection(&info.id).await?;
                Ok(self.input_required(&info, point.heard))
            }
            false => self.outlived(&info).await,
        }
    }

    /// The request was made before: it is answered here from now on, and no longer where it was. How
    /// much of the task's history is not for this stream.
    async fn attach(&self, id: &TaskId) -> Result<u64, RpcError> {
        if let Some(session) = &self.request.session {
            session.close_call(id.as_str());
            let info = self.tasks().get(id).await.map_err(task_error)?;
            let open = info.questions.iter().map(|question| (question.key.as_str(), false));
            session.keep_asked(id.as_str(), open, &self.request.outlet);
        }
        self.events(&self.tasks(), id).await
    }

    /// The answer of a call that goes on without its client.
    async fn outlived(&self, info: &TaskInfo) -> Reply {
        self.outlives_connection(&info.id).await?;
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

/// Cancels a task whose caller has gone, unless it is disarmed.
struct CancelOnDrop {
    front: Arc<Front>,
    tasks: Tasks,
    id: TaskId,
    armed: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            let (tasks, id) = (self.tasks.clone(), self.id.clone());
            // Nobody waits for it, but for who shuts the server down.
            self.front.background.spawn(async move {
                if let Err(error) = tasks.cancel(&id, Some(TAKEN_BACK.into())).await {
                    tracing::debug!(%error, "a task could not be cancelled");
                }
            });
        }
    }
}
