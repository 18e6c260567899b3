//! The questions of a task on their way to a client, and the answers on their way back.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use steadfast_core::{Action, Answer, Json, Status, TaskId};
use steadfast_engine::{CallError, ListTasks, OpenQuestion, Order, TaskInfo, Tasks};

use super::{call::SESSION_TAG, follow::Point, theirs::Theirs};
use crate::{
    ask::error_answer,
    client::{Client, InputKind},
    front::Front,
    outlet::Outlet,
    session::Session,
    wire::{Object, Revision, meta, request},
};

/// A question as the wire has it.
pub(super) struct Open {
    pub(super) key: String,
    method: String,
    params: Option<Value>,
}

impl Open {
    /// Puts something into the `_meta` of the request.
    fn put_meta(&mut self, name: &str, value: Value) {
        if let Value::Object(params) = self.params.get_or_insert_with(|| json!({})) {
            match params.entry("_meta").or_insert_with(|| json!({})) {
                Value::Object(meta) => drop(meta.insert(name.into(), value)),
                other => *other = json!({ name: value }),
            }
        }
    }
}

/// The open questions that this client can be asked, in its own revision's words.
pub(super) fn open(info: &TaskInfo, client: &Client) -> Vec<Open> {
    if !InputKind::ALL.iter().any(|kind| client.capabilities.can(*kind)) {
        // So nothing need be read.
        return Vec::new();
    }
    let shown = info.questions.iter().filter_map(|question| {
        let (method, params) = request_of(question);
        let kind = InputKind::of(&method, params.as_ref())?;
        client.capabilities.can(kind).then(|| Open {
            key: question.key.clone(),
            params: params
                .map(|params| in_words_of(client.revision, params, &info.id, &question.key)),
            method,
        })
    });
    shown.collect()
}

/// The request that a question stands for. One that was asked without a front is a form.
fn request_of(question: &OpenQuestion) -> (String, Option<Value>) {
    let data = question.data.as_ref().and_then(|data| data.read::<Value>().ok());
    if let Some(Value::Object(mut request)) = data
        && let Some(Value::String(method)) = request.remove("method")
    {
        return (method, request.remove("params"));
    }
    let schema: Value = question.schema.read().unwrap_or(Value::Null);
    let params = json!({ "mode": "form", "message": question.message, "requestedSchema": schema });
    ("elicitation/create".into(), Some(params))
}

fn in_words_of(revision: Revision, mut params: Value, task: &TaskId, key: &str) -> Value {
    if let Value::Object(fields) = &mut params {
        if revision < Revision::V2025_11_25 {
            fields.remove("mode");
        }
        if revision == Revision::V2025_11_25 && fields.get("mode").is_some_and(|m| m == "url") {
            fields.insert("elicitationId".into(), json!(format!("{task}:{key}")));
        }
    }
    params
}

/// All of them in one object, by key.
pub(super) fn input_requests(open: &[Open]) -> String {
    let mut object = Object::new();
    for question in open {
        let one = Object::new().put("method", &question.method);
        object = object.raw(&question.key, &one.maybe("params", question.params.as_ref()).close());
    }
    object.close()
}

/// What a client's response to a question says.
fn answer_of(question: &OpenQuestion, response: &Value) -> Answer {
    let (method, _) = request_of(question);
    if method != "elicitation/create" {
        return Answer { action: Action::Accept, content: Json::of(response).ok() };
    }
    let content = response.get("content").filter(|content| !content.is_null());
    let content = || content.and_then(|content| Json::of(content).ok());
    match response.get("action").and_then(Value::as_str) {
        Some("accept") => Answer { action: Action::Accept, content: content() },
        Some("decline") => Answer { action: Action::Decline, content: None },
        Some("cancel") => Answer { action: Action::Cancel, content: None },
        // It fits no form, so the task asks again and says why.
        _ => Answer { action: Action::Accept, content: Json::of(response).ok() },
    }
}

/// Hands answers to a task. Those to questions that are not open are ignored, as the protocol wants.
pub(super) async fn apply(
    tasks: &Tasks,
    info: &TaskInfo,
    responses: &Map<String, Value>,
) -> Result<(), CallError> {
    for question in &info.questions {
        if let Some(response) = responses.get(&question.key) {
            give(tasks, &info.id, &question.key, answer_of(question, response)).await?;
        }
    }
    Ok(())
}

async fn give(tasks: &Tasks, id: &TaskId, key: &str, answer: Answer) -> Result<(), CallError> {
    match tasks.answer_unchecked(id, key, answer).await {
        // Somebody else was first, or it is over.
        Err(CallError::NotAsked { .. } | CallError::Terminal { .. }) => Ok(()),
        done => done,
    }
}

/// The id of a request that asks a question: it says all that is needed to find the question again,
/// in any process.
pub(crate) struct Routed {
    pub(super) task: TaskId,
    pub(super) key: String,
}

impl Routed {
    fn name(task: &TaskId, key: &str, times: u32) -> String {
        format!("ask:{task}:{times}:{key}")
    }

    /// Reads such an id.
    pub(crate) fn read(id: &str) -> Option<Routed> {
        let mut parts = id.strip_prefix("ask:")?.splitn(3, ':');
        let (task, _, key) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Routed { task: TaskId::new(task).ok()?, key: key.into() })
    }
}

impl Front {
    /// Sends a task's open questions to a client as requests, each on one stream only: related to a
    /// task that the client knows, or from a point of the stream of the call that waits for them.
    pub(super) async fn send_questions(
        &self,
        session: &Arc<Session>,
        info: &TaskInfo,
        on: &Outlet,
        related: Option<&TaskId>,
        mut point: Option<&mut Point>,
    ) {
        for mut question in open(info, &session.client) {
            let of_call = point.is_some();
            let Some(times) = session.ask(info.id.as_str(), &question.key, on, of_call) else {
                continue;
            };
            let id = Routed::name(&info.id, &question.key, times);
            if let Some(task) = related {
                question.put_meta(meta::RELATED_TASK, json!({ "taskId": task }));
            }
            if self.listener.listens() && question.method != "roots/list" {
                // No other request that is open has it, and any process finds the question by it.
                question.put_meta("progressToken", json!(id));
            }
            if let (Some(task), Some(Value::Object(params))) =
                (session.client.task_params(&question.method), &mut question.params)
            {
                params.insert("task".into(), task);
            }
            let params = question.params.map(|params| params.to_string());
            let message = request(&id, &question.method, params.as_deref());
            match &mut point {
                Some(point) => {
                    point.sent += 1;
                    point.ask(&question.key, &info.questions);
                    on.send_at(point.name(&info.id), message).await
                }
                None if session.is_stream(on) => {
                    let open: Vec<&str> =
                        info.questions.iter().map(|one| one.key.as_str()).collect();
                    let point = session.ask_on_stream(info.id.as_str(), &question.key, &open);
                    on.send_at(point, message).await
                }
                None => on.send(message).await,
            };
        }
    }

    /// A client's response to a question: the answer, or a task of its own that will have it.
    pub(crate) async fn take_response(
        self: &Arc<Self>,
        session: &Arc<Session>,
        to: &Routed,
        outcome: Result<Value, Value>,
    ) -> Result<(), CallError> {
        let theirs = outcome.as_ref().ok().and_then(Theirs::created);
        let Some(theirs) = theirs else {
            return self.take_answer(&session.client, to, outcome).await;
        };
        match self.asked(&session.client, to).await? {
            Some((info, question))
                if session.client.task_params(&request_of(&question).0).is_some() =>
            {
                self.answered_by_theirs(session, &info.id, &to.key, theirs).await
            }
            _ => self.take_answer(&session.client, to, outcome).await,
        }
    }

    /// A client's answer to a question. One that fits no open question is ignored.
    pub(super) async fn take_answer(
        &self,
        client: &Client,
        to: &Routed,
        outcome: Result<Value, Value>,
    ) -> Result<(), CallError> {
        let Some((info, question)) = self.asked(client, to).await? else { return Ok(()) };
        let answer = match outcome {
            Ok(result) => answer_of(&question, &result),
            Err(error) => error_answer(&error),
        };
        give(&self.tasks(client), &info.id, &to.key, answer).await
    }

    /// The question, if it is open, and the task that asks it.
    pub(super) async fn asked(
        &self,
        client: &Client,
        to: &Routed,
    ) -> Result<Option<(TaskInfo, OpenQuestion)>, CallError> {
        let info = match self.tasks(client).get(&to.task).await {
            Err(CallError::Unknown(_) | CallError::Expired(_)) => return Ok(None),
            info => info?,
        };
        let question = info.questions.iter().find(|question| question.key == to.key).cloned();
        Ok(question.map(|question| (info, question)))
    }
}

impl Front {
    /// Asks the questions of a session's tasks on its own stream, as long as that is open: those that
    /// are open now, and those that come. In 2025-11-25 only of tasks that the client has looked at: a
    /// question that overtakes the answer to the call is about a task that the client doesn't know yet,
    /// and ext-tasks dismisses it.
    pub(crate) async fn ask_on_stream(self: Arc<Self>, session: Arc<Session>, stream: Outlet) {
        let mut news = self.engine.news();
        loop {
            news.mark_unchanged();
            // Of its own size while it is at it: there are many streams, and they are silent for long.
            let away = match Box::pin(self.ask_now(&session, &stream)).await {
                Ok(true) => false,
                // It was ended by another process, and its stream ends with it.
                Ok(false) => return,
                Err(error) => {
                    // The stream stays, and its client counts on it.
                    tracing::warn!(%error, "what a session is asked can't be read; trying again");
                    true
                }
            };
            tokio::select! {
                back = self.away(&stream), if away => if !back { return },
                changed = news.changed(), if !away => if changed.is_err() { return },
                () = stream.closed() => return,
                () = self.draining.cancelled() => return,
            }
        }
    }

    /// Asks what is to be asked on a session's own stream now. False if the session is over.
    async fn ask_now(
        self: &Arc<Self>,
        session: &Arc<Session>,
        stream: &Outlet,
    ) -> Result<bool, CallError> {
        let tasks = self.tasks(&session.client);
        // With companions the client may know the task by way of tools.
        let shows = session.client.revision == Revision::V2025_11_25 && !self.settings.companions;
        if !self.sessions.check(session).await.map_err(CallError::Store)? {
            return Ok(false);
        }
        let list = ListTasks {
            statuses: vec![Status::InputRequired],
            tag: Some((SESSION_TAG.into(), session.id.clone())),
            order: Order::OldestFirst,
            limit: 1_000,
            ..ListTasks::default()
        };
        let waiting = tasks.list(list).await?.tasks;
        self.follow_again(session);
        session.keep_asking(waiting.iter().map(|one| one.id.as_str()));
        for one in waiting {
            if shows && !session.has_looked_at(one.id.as_str()) {
                continue;
            }
            match tasks.get(&one.id).await {
                Ok(info) => {
                    self.send_questions(session, &info, stream, Some(&info.id), None).await;
                }
                Err(CallError::Store(error)) => return Err(CallError::Store(error)),
                // It is gone since.
                Err(_) => {}
            }
        }
        Ok(true)
    }
}
