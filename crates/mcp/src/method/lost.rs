//! The stream of a call that broke while the client waited, up to 2025-11-25: it is taken up again from
//! the task's history.

use std::sync::Arc;

use serde_json::Map;
use steadfast_core::{Json, TaskId};
use tokio_util::sync::CancellationToken;

use super::{call::Call, follow::Point};
use crate::{
    client::{CallRecord, Waiting},
    front::{Answered, Front, Meta, Request},
    outlet::Outlet,
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
    tool: String,
    request: Id,
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
        let Waiting { session: of, request } = record.waiting?;
        let meta = Meta { progress_token: record.progress_token, ..Meta::default() };
        (of == session.id).then(|| LostCall {
            front: front.clone(),
            session: session.clone(),
            task,
            point,
            tool: info.tool,
            request,
            meta,
        })
    }

    /// Sends what the client has missed and what is still to come, and returns the response.
    pub(crate) async fn follow(self, outlet: Outlet) -> String {
        let LostCall { front, session, task, point, tool, request: id, meta } = self;
        let request = Request {
            answered: Answered::default(),
            id: &id,
            method: "tools/call",
            params: "{}",
            client: session.client.clone(),
            session: Some(session),
            meta,
            outlet,
            // The request at work is the one that was made.
            cancel: CancellationToken::new(),
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
        let followed = call.follow(&tasks, &task, point).await;
        match followed.and_then(|(info, _)| call.ended(&info)) {
            Ok(result) => response(&id, &result),
            Err(error) => error_response(Some(&id), &error),
        }
    }
}
