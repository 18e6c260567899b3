//! Questions that a client of 2025-11-25 answers by a task of its own. It is followed here: so an answer
//! that takes a person days needs no request that waits for it.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::TaskId;
use steadfast_engine::{CallError, TaskInfo};

use super::questions::Routed;
use crate::{
    client::{Capabilities, Client},
    front::Front,
    session::{About, Session},
    wire::{Revision, request},
};

/// How long a client is asked to keep its task: as long as we keep ours.
const TTL: u64 = 7 * 24 * 3_600_000;

/// However often a client wants to be asked, it is not asked more often than this.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// How long a client may take to say how far it is, before it is asked again: what it says later is heard
/// as well.
const PATIENCE: Duration = Duration::from_secs(5);

/// What of a client's task is kept in place of its status: its result was taken by another process,
const ANSWERED: &str = "answered";
/// or the client does not know it any more.
const LOST: &str = "lost";

impl Client {
    /// What a request of this method is to carry so that the client makes a task of it, if it has said
    /// that it can.
    pub(super) fn task_params(&self, method: &str) -> Option<Value> {
        let tasks = |path: &[&str]| {
            self.revision == Revision::V2025_11_25 && self.capabilities.has_task(path)
        };
        let can = match method {
            "elicitation/create" => tasks(&["requests", "elicitation", "create"]),
            "sampling/createMessage" => tasks(&["requests", "sampling", "createMessage"]),
            _ => false,
        };
        can.then(|| json!({ "ttl": TTL }))
    }
}

impl Capabilities {
    fn has_task(&self, path: &[&str]) -> bool {
        self.has(&[&["tasks"], path].concat())
    }
}

/// A client's task, as far as it matters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Theirs {
    task_id: String,
    status: String,
    #[serde(default)]
    poll_interval: Option<f64>,
}

impl Theirs {
    /// The task that a client has made of a request, if that is its answer.
    pub(super) fn created(result: &Value) -> Option<Theirs> {
        Theirs::deserialize(result.get("task")?).ok()
    }
}

impl Front {
    /// A question is answered by a client's task. When this returns that is durable: the client counts on
    /// it, and is not asked again.
    pub(super) async fn answered_by_theirs(
        self: &Arc<Self>,
        session: &Arc<Session>,
        task: &TaskId,
        key: &str,
        theirs: Theirs,
    ) -> Result<(), CallError> {
        if session.answers_by_task(task.as_str(), key, &theirs.task_id) {
            self.sessions.keep(session).await.map_err(CallError::Store)?;
            self.follow_theirs(session, task.clone(), key.into(), theirs);
            return Ok(());
        }
        // One is enough.
        let follower = Follower::new(self, session, task.clone(), key.into(), theirs);
        self.background.spawn(async move { follower.cancel().await });
        Ok(())
    }

    /// Follows a client's task until it has answered, or the question is no longer open.
    fn follow_theirs(
        self: &Arc<Self>,
        session: &Arc<Session>,
        task: TaskId,
        key: String,
        theirs: Theirs,
    ) {
        if session.begin_following(task.as_str(), &key) {
            let follower = Follower::new(self, session, task, key, theirs);
            self.background.spawn(follower.run());
        }
    }

    /// What a client says of a task of its own, to a process that did not ask for it or no longer waits: how it
    /// is, which is written down for who asked; or what came of it, which is the answer.
    pub(crate) async fn hear_of_theirs(
        &self,
        session: &Arc<Session>,
        about: &About<'_>,
        outcome: Result<Value, Value>,
    ) -> Result<(), CallError> {
        let About { method, task, key } = *about;
        let Ok(id) = TaskId::new(task) else { return Ok(()) };
        if !session.is_answered_by_task(task, key) {
            return Ok(());
        }
        let status = match (method, &outcome) {
            ("tasks/result", _) => ANSWERED.to_owned(),
            ("tasks/get", Err(_)) => LOST.to_owned(),
            ("tasks/get", Ok(seen)) => match Theirs::deserialize(seen) {
                Ok(theirs) if theirs.status != "working" => theirs.status,
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        session.tell_of_theirs(task, key, &status);
        self.sessions.keep(session).await.map_err(CallError::Store)?;
        if method == "tasks/result" {
            let to = Routed { task: id, key: key.into() };
            self.take_answer(&session.client, &to, outcome).await?;
            session.is_done_by_task(task, key);
            self.sessions.keep(session).await.map_err(CallError::Store)?;
        }
        Ok(())
    }

    /// Follows the tasks by which a client answers questions that another process has asked, or has heard
    /// of: it may be gone, or have no stream to the client.
    pub(crate) fn follow_again(self: &Arc<Self>, session: &Arc<Session>) {
        for (task, key, theirs) in session.unfollowed() {
            let theirs = Theirs { task_id: theirs, status: "working".into(), poll_interval: None };
            match TaskId::new(&task) {
                Ok(task) => self.follow_theirs(session, task, key, theirs),
                Err(error) => tracing::error!(%error, "a question is of no task"),
            }
        }
    }
}

/// How long to wait when the store is away.
const PAUSE: Duration = Duration::from_millis(500);

/// Hands over the answer of a client's task, when the store is there. False if that has to be done by
/// another process.
async fn take(
    front: &Front,
    session: &Session,
    to: &Routed,
    outcome: Result<Value, Value>,
) -> bool {
    loop {
        match front.take_answer(&session.client, to, outcome.clone()).await {
            Ok(()) => return true,
            Err(CallError::ShuttingDown) => return false,
            Err(CallError::Store(error)) if !front.draining.is_cancelled() => {
                tracing::warn!(%error, "the answer of a client's task can't be taken; trying again");
                tokio::time::sleep(PAUSE).await;
            }
            Err(CallError::Store(_)) => return false,
            Err(error) => {
                tracing::error!(%error, "the answer of a client's task could not be taken");
                return true;
            }
        }
    }
}

/// Ends when a question is no longer open.
async fn is_closed(front: &Front, session: &Session, to: &Routed) {
    let closed = |info: &TaskInfo| info.questions.iter().all(|open| open.key != to.key);
    let tasks = front.tasks(&session.client);
    while let Err(CallError::Store(error)) = tasks.wait_for(&to.task, closed).await {
        tracing::warn!(%error, "a task can't be read; trying again");
        tokio::time::sleep(PAUSE).await;
    }
}

struct Follower {
    front: Arc<Front>,
    session: Arc<Session>,
    /// Our task and its question.
    task: TaskId,
    key: String,
    theirs: Theirs,
}

impl Follower {
    fn new(
        front: &Arc<Front>,
        session: &Arc<Session>,
        task: TaskId,
        key: String,
        theirs: Theirs,
    ) -> Follower {
        Follower { front: front.clone(), session: session.clone(), task, key, theirs }
    }

    async fn run(mut self) {
        let (front, session) = (self.front.clone(), self.session.clone());
        let (task, key) = (self.task.clone(), self.key.clone());
        tracing::debug!(%task, key, theirs = self.theirs.task_id, "answered by a client's task");
        let to = Routed { task: task.clone(), key: key.clone() };
        // Otherwise no other process knows of it.
        let shared = session.is_answered_by_task(task.as_str(), &key);
        let done = tokio::select! {
            outcome = self.outcome() => take(&front, &session, &to, outcome).await,
            () = is_closed(&front, &session, &to) => {
                if !(shared && self.is_answered_elsewhere().await) {
                    self.cancel().await;
                }
                true
            }
            // It is followed by whoever takes the session up.
            () = session.over.cancelled() => false,
            () = front.draining.cancelled() => false,
        };
        if done {
            session.is_done_by_task(task.as_str(), &key);
        }
        session.end_following(task.as_str(), &key);
        if done && let Err(error) = front.sessions.keep(&session).await {
            tracing::warn!(%error, "a session could not be written; trying again later");
        }
    }

    /// What the client's task comes to. It is asked for as often as the client wants, whatever the client
    /// says by itself meanwhile: it need not.
    async fn outcome(&mut self) -> Result<Value, Value> {
        loop {
            if self.theirs.status != "working" {
                // It is over; or it needs something first, and then this is where it says so.
                if let Some(outcome) = self.ask("tasks/result", None).await {
                    return outcome;
                }
            }
            tokio::time::sleep(self.interval()).await;
            match self.ask("tasks/get", Some(PATIENCE)).await {
                Some(Ok(seen)) => {
                    if let Ok(Theirs { status, poll_interval, .. }) = Theirs::deserialize(seen) {
                        (self.theirs.status, self.theirs.poll_interval) = (status, poll_interval);
                    }
                }
                // It has lost it, or let it expire.
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
    }

    fn interval(&self) -> Duration {
        let wanted = self.theirs.poll_interval.map(|millis| millis / 1_000.0);
        let wanted = wanted.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        wanted.unwrap_or(self.front.settings.poll_interval).max(LEAST_INTERVAL)
    }

    fn request(&self, id: &str, method: &str) -> String {
        let params = json!({ "taskId": self.theirs.task_id }).to_string();
        request(id, method, Some(&params))
    }

    /// Asks for the client's task. Nothing if the client could not be reached, or did not answer in time.
    async fn ask(&self, method: &str, patience: Option<Duration>) -> Option<Result<Value, Value>> {
        let (task, key) = (self.task.as_str(), self.key.as_str());
        let stream = self.session.stream_of(task, key)?;
        let mut expected = self.session.expect(method, task, key);
        if !stream.send(self.request(&expected.id, method)).await {
            return None;
        }
        let late = async {
            match patience {
                Some(patience) => tokio::time::sleep(patience).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            outcome = &mut expected.response => outcome.ok(),
            status = self.told(), if patience.is_some() => {
                Some(Ok(json!({ "taskId": self.theirs.task_id, "status": status })))
            }
            () = stream.closed() => None,
            () = late => None,
        }
    }

    /// How the client's task is, as the client says to another process.
    async fn told(&self) -> String {
        let mut news = self.front.engine.news();
        loop {
            news.mark_unchanged();
            if let Err(error) = self.front.sessions.check(&self.session).await {
                tracing::debug!(%error, "a session can't be read; looking again later");
            }
            if let Some(status) = self.session.told_of_theirs(self.task.as_str(), &self.key) {
                return status;
            }
            if news.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Whether another process has the answer from this very task.
    async fn is_answered_elsewhere(&self) -> bool {
        let (task, key) = (self.task.as_str(), self.key.as_str());
        let known = self.front.sessions.check(&self.session).await;
        let told = self.session.told_of_theirs(task, key);
        let over = !self.session.is_answered_by_task(task, key);
        known.is_ok() && (over || told.as_deref() == Some(ANSWERED))
    }

    /// Tells the client that its task is no longer needed, if that is something it understands.
    async fn cancel(&self) {
        if !self.session.client.capabilities.has_task(&["cancel"]) {
            return;
        }
        // Nobody waits for the answer.
        let (task, key, method) = (self.task.as_str(), self.key.as_str(), "tasks/cancel");
        let message = self.request(&self.session.expect(method, task, key).id, method);
        if let Some(stream) = self.session.stream_of(task, key) {
            stream.send(message).await;
        }
    }
}
