//! The stream of a call that broke while the client waited, up to 2025-11-25: it is taken up again from
//! the task's history.

use std::sync::Arc;

use serde_json::{Map, Value};
use steadfast_core::{Event, Json, Status, TaskId};
use steadfast_engine::{Bond, CallError, Keyed, ListTasks, Order, TaskInfo, Tasks};
use steadfast_store::LATE;
use tokio_util::sync::CancellationToken;

use super::{
    call::{Call, FOUND_AND_TAKEN_BACK, TAKEN_BACK},
    follow::Point,
};
use crate::{
    client::{CallRecord, Waiting},
    front::{Answered, Front, Holds, Meta, Request, Starting},
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
    keyed: bool,
    /// It has found the call by that, and not made it.
    pub(crate) attached: bool,
    meta: Meta,
}

impl LostCall {
    /// The call that an event of this id was sent for, if it is one of this session.
    pub(crate) async fn find(
        front: &Arc<Front>,
        session: &Arc<Session>,
        event: &str,
    ) -> Result<Option<LostCall>, CallError> {
        let Some((task, point)) = Point::read(event) else { return Ok(None) };
        let tasks = front.tasks(&session.client);
        let info = match tasks.get(&task).await {
            Err(CallError::Unknown(_) | CallError::Expired(_)) => return Ok(None),
            info => info?,
        };
        let record = info.call.as_ref().and_then(|call| call.read::<CallRecord>().ok());
        let waits = record.and_then(|record| Waits::at(record, session, &point));
        let Some(Waits { request, keyed, attached, progress_token }) = waits else {
            return Ok(None);
        };
        if is_ahead(&tasks, &task, point.heard).await? {
            return Ok(None);
        }
        Ok(Some(LostCall {
            front: front.clone(),
            session: session.clone(),
            task,
            point,
            asked: info.questions.into_iter().map(|question| question.key).collect(),
            tool: info.tool,
            request,
            keyed,
            attached,
            meta: Meta { progress_token, ..Meta::default() },
        }))
    }

    /// Sends what the client has missed and what is still to come, and returns the response. Nothing if
    /// the client takes the request back.
    pub(crate) async fn follow(
        self,
        outlet: Outlet,
        holds: Holds,
        cancel: CancellationToken,
    ) -> Option<String> {
        let LostCall { front, session, task, point, tool, request: id, keyed, mut meta, .. } = self;
        // Which one it is does not matter any more, but that its id is not what it is known by.
        meta.key = keyed.then(String::new);
        let request = Request {
            answered: Answered::default(),
            starting: Starting::default(),
            asked: front.pulse.asked(),
            holds,
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
                let reason = call.taken_back(&task);
                if let Err(error) = front.take_back(&tasks, &task, reason, !keyed).await {
                    tracing::debug!(%error, "a cancelled call was over");
                }
                return None;
            }
        };
        // It may have been taken back where it was made, or before this stream was taken up.
        let ended = followed.and_then(|(info, _)| call.end(&info));
        if request.cancel.is_cancelled() {
            return None;
        }
        Some(match ended {
            Ok(result) => response(&id, &result),
            Err(error) => error_response(Some(&id), &error),
        })
    }
}

/// Which request waits for a call at some point of a stream.
struct Waits {
    request: Id,
    keyed: bool,
    attached: bool,
    progress_token: Option<Value>,
}

impl Waits {
    /// Nobody, if it is none of this session.
    fn at(record: CallRecord, session: &Session, point: &Point) -> Option<Waits> {
        let Some(of) = &point.of else {
            let Waiting { session: id, request, keyed } = record.waiting?;
            let progress_token = record.progress_token;
            return (id == session.id).then_some(Waits {
                request,
                keyed,
                attached: false,
                progress_token,
            });
        };
        // A call that can't be made again was found by nobody.
        if !of.is_of(session) || record.fingerprint.is_none() {
            return None;
        }
        let (request, progress_token) = (of.request.clone(), of.progress_token.clone());
        let attached = !record.is_waited_for(&session.id, &request);
        let keyed = attached || record.waiting.is_some_and(|waiting| waiting.keyed);
        Some(Waits { request, keyed, attached, progress_token })
    }
}

/// Whether a task has not come so far. One that has begun anew counts from 0 again.
async fn is_ahead(tasks: &Tasks, task: &TaskId, heard: u64) -> Result<bool, CallError> {
    let last = tasks.history(task, Order::NewestFirst, None, 1).await?;
    if last.entries.first().map_or(0, |last| last.seq + 1) >= heard {
        return Ok(false);
    }
    let first = tasks.history(task, Order::OldestFirst, None, 1).await?;
    let first = first.entries.first().map(|first| &first.event);
    Ok(!matches!(first, Some(Event::Started { run: 1.., .. })))
}

pub(super) fn is_taken_back(info: &TaskInfo) -> bool {
    info.status == Status::Cancelled && info.reason.as_deref() == Some(TAKEN_BACK)
}

/// What the task of a call is found by whose request has an idempotency key.
pub(super) const REQUEST_TAG: &str = "mcp.request";

impl Front {
    /// Cancels the call of a request of a session, also if it was begun before this process was, or in
    /// another. Durable when this returns. One that becomes a task does so: it is cancelled as such. Whether
    /// there was one that this can have been said of.
    pub(super) async fn cancel_lost(&self, session: &Session, id: &Id) -> Result<bool, CallError> {
        let tasks = self.tasks(&session.client);
        let key = request_key(session, id);
        let (mut found, mut any) = (Vec::new(), false);
        if let Some(Keyed { id, freed }) = tasks.keyed(&key).await? {
            match freed {
                None => found.push(id),
                // This crossed the answer, or is said twice: another request of this id would be early.
                Some(ago) => any = ago < LATE,
            }
        }
        let holder = found.first().cloned();
        let list = ListTasks {
            statuses: Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect(),
            tag: Some((REQUEST_TAG.into(), key)),
            ..ListTasks::default()
        };
        found.extend(tasks.list(list).await?.tasks.into_iter().map(|info| info.id));
        let attached = session.take_back(id);
        if let Some(task) = &attached {
            // It may be on a stream that was taken up.
            session.cancel(&Id::Text(task.as_str().into()));
        }
        found.extend(attached.clone());
        for found in found {
            let info = match tasks.get(&found).await {
                // What a request has found once may be gone.
                Err(CallError::Unknown(_) | CallError::Expired(_)) => continue,
                info => info?,
            };
            any |= holder.as_ref() == Some(&found) || !info.status.is_terminal();
            let record = info.call.as_ref().and_then(|call| call.read::<CallRecord>().ok());
            let waits = record.as_ref().is_some_and(|record| record.is_waited_for(&session.id, id));
            let found_it = attached.as_ref() == Some(&found);
            let by_id = waits && holder.as_ref() == Some(&found);
            let mut was_over = info.status.is_terminal();
            if (waits || found_it) && !was_over {
                let reason = if waits { TAKEN_BACK } else { FOUND_AND_TAKEN_BACK };
                match self.take_back(&tasks, &found, reason, by_id).await {
                    // Whoever waited for it may have been first.
                    Err(CallError::Terminal { .. }) => was_over = true,
                    done => done?,
                }
            }
            let becomes_task = record.is_some_and(|record| record.waiting.is_none());
            if becomes_task && !found_it || by_id && was_over {
                // Its client will never hear of it.
                tasks.free(vec![(found.clone(), Bond::Key)]).await?;
                self.freed.is_written(found);
            }
        }
        Ok(any)
    }

    /// Cancels the call of a request that its client takes back: durable when this returns. If the call is
    /// known by the id of that request, the id is free from then on.
    pub(super) async fn take_back(
        &self,
        tasks: &Tasks,
        id: &TaskId,
        reason: &str,
        by_id: bool,
    ) -> Result<(), CallError> {
        if !by_id {
            return tasks.cancel(id, Some(reason.into())).await;
        }
        tasks.take_back(id, Some(reason.into())).await?;
        self.freed.is_written(id.clone());
        Ok(())
    }
}
