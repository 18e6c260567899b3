//! The stream of a call that broke while the client waited, up to 2025-11-25: it is taken up again from
//! the task's history.

use std::sync::Arc;

use serde_json::Map;
use steadfast_core::{Json, Status, TaskId};
use steadfast_engine::{CallError, ListTasks, TaskInfo};
use tokio_util::sync::CancellationToken;

use super::{
    call::{Call, TAKEN_BACK},
    follow::Point,
};
use crate::{
    client::{CallRecord, Waiting},
    front::{Answered, Front, Holds, Meta, Request},
    outlet::Outlet,
    repeat::request_key,
    session::Session,
    wire::{Id, error_response, response},
};

/// A call whose stream broke.
pub(crate) struct LostCall {
    front: Arc<Front>,
    session: Arc<Session>,
    pub(crate) task: TaskId,
    /// The last that the client has.
    pub(crate) point: Point,
    /// The keys of its open questions.
    pub(crate) asked: Vec<String>,
    tool: String,
    pub(crate) request: Id,
    /// Its id is not free when it is answered, because its key is what it is known by.
    pub(crate) keyed: bool,
    meta: Meta,
}

impl LostCall {
    /// The call that an event of this id was sent for, if it is one of this session.
    pub(crate) async fn find(
        front: &Arc<Front>,
        session: &Arc<Session>,
        event: &str,
    ) -> Option<LostCall> {
        let (task, point) = Point::read(event)?;
        let info = front.tasks(&session.client).get(&task).await.ok()?;
        let record: CallRecord = info.call?.read().ok()?;
        let Waiting { session: of, request, keyed } = record.waiting?;
        let meta = Meta { progress_token: record.progress_token, ..Meta::default() };
        (of == session.id).then(|| LostCall {
            front: front.clone(),
            session: session.clone(),
            task,
            point,
            asked: info.questions.into_iter().map(|question| question.key).collect(),
            tool: info.tool,
            request,
            keyed,
            meta,
        })
    }

    /// Sends what the client has missed and what is still to come, and returns the response. Nothing if
    /// the client takes the request back.
    pub(crate) async fn follow(self, outlet: Outlet, cancel: CancellationToken) -> Option<String> {
        let LostCall { front, session, task, point, tool, request: id, meta, .. } = self;
        let request = Request {
            answered: Answered::default(),
            holds: Holds::default(),
            again: true,
            id: &id,
            method: "tools/call",
            params: "{}",
            client: session.client.clone(),
            session: Some(session),
            meta,
            outlet,
            cancel,
        };
        let call = Call {
            front: &front,
            request: &request,
            engine_name: &tool,
            entry: None,
            arguments: Json::null(),
            refused: None,
            input_responses: Map::new(),
            request_state: None,
        };
        let tasks = front.tasks(&request.client);
        let followed = tokio::select! {
            followed = call.follow(&tasks, &task, point, None) => followed,
            () = request.cancel.cancelled() => {
                if let Err(error) = tasks.cancel(&task, Some(TAKEN_BACK.into())).await {
                    tracing::debug!(%error, "a cancelled call was over");
                }
                return None;
            }
        };
        // It may have been taken back where it was made, or before this stream was taken up.
        if followed.as_ref().is_ok_and(|(info, _)| is_taken_back(info)) {
            return None;
        }
        Some(match followed.and_then(|(info, _)| call.ended(&info)) {
            Ok(result) => response(&id, &result),
            Err(error) => error_response(Some(&id), &error),
        })
    }
}

pub(super) fn is_taken_back(info: &TaskInfo) -> bool {
    info.status == Status::Cancelled && info.reason.as_deref() == Some(TAKEN_BACK)
}

/// What the task of a call is found by whose request has an idempotency key.
pub(super) const REQUEST_TAG: &str = "mcp.request";

impl Front {
    /// Cancels a request of a session that was begun before this process was, or in another: nobody
    /// waits for it here.
    pub(crate) async fn cancel_lost(&self, session: &Session, id: &Id) -> Result<(), CallError> {
        let tasks = self.tasks(&session.client);
        let key = request_key(session, id);
        let mut found: Vec<TaskId> = tasks.keyed(&key).await?.into_iter().collect();
        let list = ListTasks {
            statuses: Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect(),
            tag: Some((REQUEST_TAG.into(), key)),
            ..ListTasks::default()
        };
        found.extend(tasks.list(list).await?.tasks.into_iter().map(|info| info.id));
        for found in found {
            let info = tasks.get(&found).await?;
            let record = info.call.as_ref().and_then(|call| call.read::<CallRecord>().ok());
            let waiting = record.and_then(|record| record.waiting);
            let is_it = waiting.is_some_and(|of| of.session == session.id && of.request == *id);
            if is_it && !info.status.is_terminal() {
                tasks.cancel(&found, Some(TAKEN_BACK.into())).await?;
            }
        }
        Ok(())
    }
}
