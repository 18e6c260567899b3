//! The task of a call: started, or found if the request was made before.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use steadfast_core::{Status, TaskId, Ttl};
use steadfast_engine::{Bond, CallError, Follow, Keyed, StartedTask, TaskInfo};
use steadfast_store as store;

use super::{
    call::{Call, CancelOnDrop, FOUND_AND_TAKEN_BACK, SESSION_TAG},
    early::is_early,
    lost::{REQUEST_TAG, is_taken_back},
    task_error,
    tools::cancelled,
};
use crate::{
    audit,
    client::{CallRecord, Waiting},
    front::millis,
    identity::Claims,
    repeat::{fingerprint, idempotency_key, request_key},
    secret::{Place, Sealed},
    wire::{RpcError, code},
};

/// A task, and who hears what it says.
type Started = (StartedTask, Option<Follow>);

/// Whether the id of a call is free for other requests.
enum Free {
    No,
    /// Since a request came that has it too.
    Since,
    /// It was free by then.
    Before,
}

/// The id of a request was used for another that is over, and may have been used for this one before that.
fn overtaken() -> RpcError {
    let message =
        "another request with this id was answered while this one was on its way; make it again";
    RpcError::new(code::INVALID_REQUEST, message).status(503)
}

/// Why there is no task for a request that is known when it is made again. Whether there is none may not be
/// known: then it finds out by that.
fn not_started(error: CallError) -> RpcError {
    match error {
        CallError::Store(error @ store::Error::Unknown(_)) => {
            tracing::error!(%error, "it is not known whether a task was started");
            let message = "it is not known whether the call was made; try again";
            RpcError::new(code::INTERNAL, message).status(503)
        }
        error => task_error(error),
    }
}

/// Nobody knows whether its task was started, which its client could not come back to: it must not go on. What
/// the client is told.
async fn end_unheard(mut guard: CancelOnDrop) -> RpcError {
    const REASON: &str = "it was not known whether it had begun";
    let ended = guard.tasks.cancel(&guard.id, Some(REASON.into())).await;
    // What the store does not take now is tried again when nobody waits for it.
    guard.armed = matches!(ended, Err(CallError::Store(_)));
    match ended {
        Ok(())
        | Err(CallError::Unknown(_) | CallError::Terminal { status: Status::Cancelled, .. }) => {
            RpcError::new(code::INTERNAL, format!("cancelled: {REASON}"))
        }
        // It was quick, and is done.
        Err(CallError::Terminal { .. }) => RpcError::internal(),
        Err(error) => task_error(error),
    }
}

/// A start whose task is cancelled when it is there, if whoever waits for the start has gone: a start that has
/// begun is carried to its end.
struct Guarded<F: Future<Output: Send> + Send + 'static> {
    starting: Option<(Pin<Box<F>>, CancelOnDrop)>,
}

impl<F: Future<Output: Send> + Send + 'static> Future for Guarded<F> {
    type Output = (F::Output, CancelOnDrop);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((start, _)) = &mut self.starting else { return Poll::Pending };
        let Poll::Ready(started) = start.as_mut().poll(cx) else { return Poll::Pending };
        match self.starting.take() {
            Some((_, guard)) => Poll::Ready((started, guard)),
            None => Poll::Pending,
        }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Guarded<F> {
    fn drop(&mut self) {
        let Some((start, guard)) = self.starting.take() else { return };
        let background = guard.front.background.clone();
        background.spawn(async move {
            drop(start.await);
            drop(guard);
        });
    }
}

impl Call<'_> {
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
    pub(super) fn ends_with_connection(&self) -> bool {
        !self.can_return() && self.request.meta.key.is_none() && self.request_state.is_none()
    }

    /// From now on it goes on whatever becomes of this process: durable when this returns. Unless it has
    /// ended before that, as others end what is bound to a process that they take for dead: then this is how.
    pub(super) async fn outlives_connection(
        &self,
        id: &TaskId,
    ) -> Result<Option<TaskInfo>, RpcError> {
        if !self.ends_with_connection() {
            return Ok(None);
        }
        let tasks = self.tasks();
        tasks.free(vec![(id.clone(), Bond::Desk)]).await.map_err(task_error)?;
        let info = tasks.get(id).await.map_err(task_error)?;
        Ok(Some(info).filter(|info| info.status.is_terminal()))
    }

    /// Starts a task, or finds the one of a request that was made before. With who hears what it says, if
    /// the client waits for it.
    pub(super) async fn start(
        &self,
        ttl: Option<f64>,
        followed: bool,
    ) -> Result<Started, RpcError> {
        // Who takes the request back waits until this is over, and looks for its task then.
        let _starting = self.request.starting.lock().await;
        if self.request.cancel.is_cancelled() {
            self.take_back_keyed().await?;
            return Err(cancelled());
        }
        self.check_count().await?;
        let (mut started, mut follow) = self.start_once(ttl, followed, None).await?;
        if !started.new && !self.is_of_this_request(&started).await? {
            let before = Some(started.id);
            (started, follow) = self.start_once(ttl, followed, before).await?;
        }
        match started.new {
            true => audit::created(&self.request.client, &started.id, self.engine_name),
            false => self.check_same(&started.id).await?,
        }
        Ok((started, follow))
    }

    /// The request was taken back before it came this far. What its key stands for is taken back with it, if
    /// a request before it has begun that.
    async fn take_back_keyed(&self) -> Result<(), RpcError> {
        let Some(key) = &self.request.meta.key else { return Ok(()) };
        let tasks = self.tasks();
        let found = tasks.keyed(&idempotency_key(key)).await.map_err(task_error)?;
        let Some(Keyed { id, .. }) = found else { return Ok(()) };
        self.check_same(&id).await?;
        match tasks.cancel(&id, Some(FOUND_AND_TAKEN_BACK.into())).await {
            Ok(()) | Err(CallError::Terminal { .. }) => Ok(()),
            Err(error) => Err(task_error(error)),
        }
    }

    /// Whether its client can come back to it.
    pub(super) fn can_return(&self) -> bool {
        self.request.session.as_ref().is_some_and(|session| session.can_return)
    }

    /// Whether it is known by its session and the id of its request, and no key.
    pub(super) fn is_known_by_its_id(&self) -> bool {
        self.can_return() && self.request.meta.key.is_none()
    }

    /// There is an answer: when that was sent, the id of its request is free again. Not so if it only
    /// could not be found out what the task came to: then it is still the same request.
    pub(super) fn is_answered(&self, id: &TaskId) {
        if self.is_known_by_its_id() {
            // If there is something in it, it is this.
            let _ = self.request.holds.set(id.clone());
        }
    }

    /// Whether a call that was found by the key of this request may be that of this request, made before. If
    /// not, it has no claim any more to the id that it came with: it was answered, its client took it back, or
    /// its stream was taken up and this is another request. Who took up the stream may be a new process, that
    /// counts from 0 again; but it may as well lose the stream again and make the same request.
    ///
    /// One that was answered, or taken back, after this request had come is that of this request, if they are equal:
    /// of two copies this is the one that took longer to get here. If it was taken back, so was this. If they are
    /// not, the id may have been used for several requests by now, of which this may be one that was answered: only
    /// one that is made after that is another.
    async fn is_of_this_request(&self, found: &StartedTask) -> Result<bool, RpcError> {
        let was_free = self.front.freed.before(&found.id, self.request.asked);
        if was_free == Some(true) {
            return Ok(false);
        }
        let info = match self.tasks().get(&found.id).await {
            Err(CallError::Unknown(_) | CallError::Expired(_)) => return Ok(false),
            info => info.map_err(task_error)?,
        };
        if is_early(&info) {
            self.take_back_keyed().await?;
            return Err(self.taken_back_early(info.id).await?);
        }
        if !self.is_known_by_its_id() {
            return self.is_keyed(&info).await;
        }
        let same = self.is_request_of(&info);
        let free = match found.freed || was_free == Some(false) {
            true => Free::Since,
            // It may have been over when this came, and that is written down only now.
            false if info.status.is_terminal() => self.freed(&info.id).await?,
            false => Free::No,
        };
        match free {
            Free::Before => return Ok(false),
            Free::Since if !same => return Err(overtaken()),
            Free::Since if is_taken_back(&info) => {
                self.request.cancel.cancel();
                return Err(cancelled());
            }
            Free::Since => return Ok(true),
            Free::No => {}
        }
        let taken_up = self
            .request
            .session
            .as_ref()
            .is_some_and(|session| session.has_taken_up(info.id.as_str()));
        Ok(!is_taken_back(&info) && (same || !taken_up))
    }

    /// Whether the id of a call that has it, or had it just now, is free, as the store knows it.
    async fn freed(&self, id: &TaskId) -> Result<Free, RpcError> {
        let Some(session) = &self.request.session else { return Ok(Free::No) };
        let key = request_key(session, self.request.id);
        Ok(match self.tasks().keyed(&key).await.map_err(task_error)? {
            Some(Keyed { id: holder, freed }) if holder == *id => match freed {
                Some(ago) if ago > self.request.asked.elapsed() => Free::Before,
                Some(_) => Free::Since,
                None => Free::No,
            },
            // Another has it, that is the next to be found.
            _ => Free::Before,
        })
    }

    /// Whether a call was found by the idempotency key of this request. If not, it had the request's id once, and was
    /// cancelled for whatever reason.
    async fn is_keyed(&self, info: &TaskInfo) -> Result<bool, RpcError> {
        let Some(key) = self.request.meta.key.as_ref().filter(|_| self.can_return()) else {
            return Ok(true);
        };
        if info.status != Status::Cancelled {
            return Ok(true);
        }
        let keyed = self.tasks().keyed(&idempotency_key(key)).await.map_err(task_error)?;
        Ok(keyed.is_some_and(|keyed| keyed.id == info.id))
    }

    fn fingerprint(&self) -> u64 {
        fingerprint(self.request.method, self.request.params)
    }

    /// Starts a task, in place of another that has its key, or finds one.
    async fn start_once(
        &self,
        ttl: Option<f64>,
        followed: bool,
        before: Option<TaskId>,
    ) -> Result<Started, RpcError> {
        let stored = self.request.session.as_ref().filter(|session| session.can_return);
        let waited = stored.filter(|_| !followed);
        let keyed = self.request.meta.key.as_deref();
        // One that becomes a task is known by its id as well, until its client knows the task.
        let key = match (keyed, stored) {
            (Some(key), _) => Some(idempotency_key(key)),
            (None, Some(session)) => Some(request_key(session, self.request.id)),
            (None, None) => None,
        };
        let print = key.is_some().then(|| self.fingerprint());
        let failed = match key.is_some() {
            true => not_started,
            false => task_error,
        };
        let client = &self.request.client;
        let bound = !followed && self.ends_with_connection();
        let (id, credentials) = self.seal()?;
        // To be found by if nobody hears whether it was started.
        let id = id.or_else(|| bound.then(|| self.front.engine.new_id()));
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
        if let Some(id) = &id {
            start = start.id(id.clone());
        }
        if let Some(key) = key {
            start = start.request_key(key).asked(self.request.asked);
        }
        if let (Some(_), Some(session)) = (keyed, stored) {
            // A client that takes it back knows no more of it than its id.
            start = start.unless_cancelled(request_key(session, self.request.id));
        }
        if let Some(before) = before {
            start = start.instead_of(before);
        }
        if bound {
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
        if followed {
            return start.await.map(|started| (started, None)).map_err(failed);
        }
        if stored.is_none() {
            // Its client can't come back for what it missed.
            start = start.passing_progress();
        }
        let starting = start.and_follow();
        let Some(id) = id.filter(|_| bound) else {
            return starting.await.map(|(started, follow)| (started, Some(follow))).map_err(failed);
        };
        let reason = self.taken_back(&id);
        let (front, tasks) = (self.front.clone(), self.tasks());
        let guard = CancelOnDrop { front, tasks, id, reason, by_id: false, armed: true };
        match (Guarded { starting: Some((Box::pin(starting), guard)) }).await {
            (Ok((started, follow)), mut guard) => {
                guard.armed = false;
                Ok((started, Some(follow)))
            }
            (Err(CallError::Store(store::Error::Unknown(_))), guard) => {
                Err(end_unheard(guard).await)
            }
            (Err(error), mut guard) => {
                guard.armed = false;
                Err(failed(error))
            }
        }
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

    /// Whether a task was made by this request, or by one that is equal.
    fn is_request_of(&self, info: &TaskInfo) -> bool {
        let record = info.call.as_ref().and_then(|call| call.read::<CallRecord>().ok());
        record.is_some_and(|record| record.fingerprint == Some(self.fingerprint()))
    }

    /// Refuses a request that has the id or the key of another.
    async fn check_same(&self, id: &TaskId) -> Result<(), RpcError> {
        let info = self.tasks().get(id).await.map_err(task_error)?;
        match self.is_request_of(&info) {
            true => Ok(()),
            false => Err(RpcError::taken(match self.request.meta.key {
                Some(_) => "this idempotency key was used for another request",
                None => "another request with this id has not been answered yet",
            })),
        }
    }
}
