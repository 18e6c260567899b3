//! A client that takes a request back before its call has begun: of several processes one may hear of that
//! while the request is still on its way in another.
//!
//! What it said lies in the store as a task that was cancelled from the first, under the key that the call
//! will be started with. So of the two one comes first, and the other finds it, in one commit.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use steadfast_core::TaskId;
use steadfast_engine::{Bond, CallError, Keyed, TaskInfo};

use super::{
    call::{Call, TAKEN_BACK},
    task_error,
    tools::cancelled,
};
use crate::{
    front::Front,
    repeat::request_key,
    session::Session,
    wire::{Id, RpcError},
};

/// What such a task is of. No tool of an author's has a colon in its name.
const EARLY: &str = "request:cancelled";

/// For how long it holds its key: longer than a request may [wait](steadfast_store::LATE) before it begins, also
/// if the clocks of the processes are two minutes apart. Who counts requests from 0 again, in a new process,
/// must not wait long for an id that was taken back and never came.
const KEPT: Duration = Duration::from_secs(150);

/// How many of them one session can leave with one process in that time: a client can name any id.
const MOST: usize = 256;

/// Whether this is no call, but a client's word that one is taken back.
pub(super) fn is_early(info: &TaskInfo) -> bool {
    info.tool == EARLY
}

impl Front {
    /// Takes back a request of a session, wherever it is, and also if it is yet to come: durable when this
    /// returns. One that is at work here and `begins_none`, no task, is nowhere else. False if too much is taken
    /// back that nobody has asked for.
    pub(crate) async fn cancel(
        &self,
        session: &Arc<Session>,
        id: &Id,
        begins_none: bool,
        asked: Instant,
    ) -> Result<bool, CallError> {
        // What ends with its connection came over that, before this.
        if self.cancel_lost(session, id).await? || begins_none || !session.can_return {
            return Ok(true);
        }
        if !session.may_cancel_early(KEPT, MOST) {
            return Ok(false);
        }
        let tasks = self.tasks(&session.client);
        let early = tasks.start(EARLY, &()).request_key(request_key(session, id));
        match early.asked(asked).cancelled(TAKEN_BACK, KEPT).await {
            // The request was made before this was said, and comes too late as well.
            Err(CallError::Late) => return Ok(true),
            started => started?,
        };
        // The call may have begun since we looked: then it has the key. One with an idempotency key has
        // another; but it finds ours if it is begun after this, and if not we find it now.
        self.sessions.check(session).await.map_err(CallError::Store)?;
        self.cancel_lost(session, id).await.map(|_| true)
    }
}

impl Call<'_> {
    /// The request was taken back before it came. Its id is free for another.
    pub(super) async fn taken_back_early(&self, early: TaskId) -> Result<RpcError, RpcError> {
        // Nothing is said of it, whatever becomes of the rest.
        self.request.cancel.cancel();
        self.tasks().free(vec![(early.clone(), Bond::Key)]).await.map_err(task_error)?;
        self.front.freed.is_written(early);
        Ok(cancelled())
    }

    /// Takes back a call that its request has found by its idempotency key, if the request was taken back when
    /// nobody could know yet what it has found.
    pub(super) async fn check_early(&self, id: &TaskId) -> Result<(), RpcError> {
        let keyed = self.can_return() && self.request.meta.key.is_some();
        let Some(session) = self.request.session.as_ref().filter(|_| keyed) else { return Ok(()) };
        let tasks = self.tasks();
        let found =
            tasks.keyed(&request_key(session, self.request.id)).await.map_err(task_error)?;
        let Some(Keyed { id: early, freed: None }) = found else { return Ok(()) };
        match tasks.get(&early).await {
            Ok(info) if is_early(&info) => {}
            // Another call of this id, or one that is just over.
            Ok(_) | Err(CallError::Unknown(_) | CallError::Expired(_)) => return Ok(()),
            Err(error) => return Err(task_error(error)),
        }
        match tasks.cancel(id, Some(self.taken_back(id).into())).await {
            Ok(()) | Err(CallError::Terminal { .. }) => {}
            Err(error) => return Err(task_error(error)),
        }
        Err(self.taken_back_early(early).await?)
    }
}
