//! Tasks of both generations.

use std::{sync::Arc, time::Instant};

use serde::Deserialize;
use serde_json::{Map, Value};
use steadfast_core::TaskId;
use steadfast_engine::{CallError, ListTasks, TaskInfo};

use super::{
    Reply, call::SESSION_TAG, early::is_early, params, questions, task_error, tools::Paged,
};
use crate::{
    audit,
    client::Client,
    front::{Front, Request},
    wire::{Object, RpcError},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    task_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    task_id: String,
    input_responses: Map<String, Value>,
}

/// The task that the parameters name.
fn id(request: &Request<'_>, text: &str) -> Result<TaskId, RpcError> {
    TaskId::new(text).map_err(|_| {
        audit::not_found(&request.client, text, request.method);
        RpcError::invalid_params("task not found")
    })
}

/// Why a call on a task came to nothing. That there is no such task is noted.
fn refused(request: &Request<'_>, task_id: &str, error: CallError) -> RpcError {
    if matches!(error, CallError::Unknown(_) | CallError::Expired(_)) {
        audit::not_found(&request.client, task_id, request.method);
    }
    task_error(error)
}

/// In 2026-07-28 only a client that has said that it knows tasks can ask for them.
fn check_client(request: &Request<'_>) -> Result<(), RpcError> {
    let stateless = request.client.revision.is_stateless();
    match stateless && !request.client.capabilities.tasks() {
        true => Err(RpcError::missing_tasks()),
        false => Ok(()),
    }
}

impl Front {
    /// Refuses a client that asks too often.
    fn check_rate(&self, request: &Request<'_>) -> Result<(), RpcError> {
        let taken = self.polls.take(&request.client.principal, Instant::now());
        taken.map_err(|after| RpcError::slow_down("tasks are asked for too often", after))
    }

    /// The task that the parameters name, if it is the caller's.
    async fn named(&self, request: &Request<'_>, task_id: &str) -> Result<TaskInfo, RpcError> {
        self.check_rate(request)?;
        let found = self.tasks(&request.client).get(&id(request, task_id)?).await;
        let info = found.map_err(|error| refused(request, task_id, error))?;
        audit::retrieved(&request.client, task_id, request.method);
        Ok(info)
    }

    pub(super) async fn get_task(&self, request: &Request<'_>) -> Reply {
        check_client(request)?;
        let Named { task_id } = params(request)?;
        let client = &request.client;
        let info = self.named(request, &task_id).await?;
        if client.revision.is_stateless() {
            let object = self.detailed_task(self.result(client), client, &info)?;
            Ok(self.close(client, object))
        } else {
            Box::pin(self.ask_who_looks(request, &info)).await;
            Ok(self.task_object(Object::new(), client, &info).close())
        }
    }

    /// Sends the questions of a task to a session that follows it, on the session's own stream: to the
    /// one that started it, now that it shows to know it, and to another when it looks again. One that
    /// took it up by its id may call for the result only when it is over, and at the first look may not
    /// be ready for a question yet, and dismiss it.
    async fn ask_who_looks(&self, request: &Request<'_>, info: &TaskInfo) {
        let Some(session) = &request.session else { return };
        let own = info.tags.get(SESSION_TAG).is_some_and(|of| *of == session.id);
        let asks = !info.questions.is_empty();
        if !own && !asks {
            return;
        }
        let again = session.look_at(info.id.as_str());
        let Some(stream) = session.stream() else { return };
        if asks {
            if own || again {
                self.send_questions(session, info, &stream, Some(&info.id), None).await;
            }
        } else if !again {
            // What it began to ask since it was read may have been passed over on the stream, as a
            // question of a task that was not looked at yet.
            if let Ok(now) = self.tasks(&request.client).get(&info.id).await {
                self.send_questions(session, &now, &stream, Some(&now.id), None).await;
            }
        }
    }

    pub(super) async fn cancel_task(&self, request: &Request<'_>) -> Reply {
        check_client(request)?;
        let Named { task_id } = params(request)?;
        self.check_rate(request)?;
        let (client, id) = (&request.client, id(request, &task_id)?);
        let tasks = self.tasks(client);
        let reason = Some("cancelled by the client".to_owned());
        let done = tasks.cancel(&id, reason).await;
        if done.is_ok() {
            audit::steered(client, &task_id, request.method);
        }
        if client.revision.is_stateless() {
            match done {
                // Cancelling what is over is no error any more.
                Ok(_) | Err(CallError::Terminal { .. }) => Ok(self.acknowledgement(client)),
                Err(error) => Err(refused(request, &task_id, error)),
            }
        } else {
            done.map_err(|error| match error {
                CallError::Terminal { status, .. } => RpcError::invalid_params(format!(
                    "cannot cancel the task: it is already {status}"
                )),
                error => refused(request, &task_id, error),
            })?;
            let info = tasks.get(&id).await.map_err(task_error)?;
            Ok(self.task_object(Object::new(), client, &info).close())
        }
    }

    pub(super) async fn update_task(&self, request: &Request<'_>) -> Reply {
        check_client(request)?;
        let Update { task_id, input_responses } = params(request)?;
        let client = &request.client;
        let tasks = self.tasks(client);
        let info = self.named(request, &task_id).await?;
        audit::steered(client, &task_id, request.method);
        questions::apply(&tasks, &info, &input_responses).await.map_err(task_error)?;
        Ok(self.acknowledgement(client))
    }

    /// Without a word of who we are: rmcp's client takes what has `_meta` for the result of a tool.
    fn acknowledgement(&self, client: &Client) -> String {
        self.result(client).close()
    }

    /// Waits for the end of a task, and asks its questions meanwhile.
    pub(super) async fn task_result(self: &Arc<Self>, request: &Request<'_>) -> Reply {
        let Named { task_id } = params(request)?;
        let client = &request.client;
        let tasks = self.tasks(client);
        let mut info = self.named(request, &task_id).await?;
        let id = info.id.clone();
        loop {
            if info.status.is_terminal() {
                return self.final_reply(client, &info, Some(&id));
            }
            if let Some(session) = &request.session {
                self.send_questions(session, &info, &request.outlet, Some(&id), None).await;
            }
            info = tokio::select! {
                info = tasks.wait_for_change(&id, &info) => info.map_err(task_error)?,
                () = request.cancel.cancelled() => return Err(super::tools::cancelled()),
            };
        }
    }

    pub(super) async fn list_tasks(&self, request: &Request<'_>) -> Reply {
        let client = &request.client;
        if !self.may_list(client) {
            return Err(RpcError::no_method(request.method));
        }
        self.check_rate(request)?;
        let Paged { cursor } = params(request)?;
        let limit = self.settings.page_size;
        let list = ListTasks { cursor, limit, ..ListTasks::default() };
        let page = self.tasks(client).list(list).await.map_err(task_error)?;
        let mut shown = Vec::with_capacity(page.tasks.len());
        for info in page.tasks.into_iter().filter(|info| !is_early(info)) {
            // A listing has no questions, and what a task shows depends on them.
            let info = match info.status == steadfast_core::Status::InputRequired {
                true => self.tasks(client).get(&info.id).await.unwrap_or(info),
                false => info,
            };
            shown.push(self.task_object(Object::new(), client, &info).close());
        }
        let tasks = format!("[{}]", shown.join(","));
        Ok(Object::new().raw("tasks", &tasks).maybe("nextCursor", page.next).close())
    }
}
