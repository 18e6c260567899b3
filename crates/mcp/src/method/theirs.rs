//! Questions that a client of 2025-11-25 answers by a task of its own. It is followed here: so an answer
//! that takes a person days needs no request that waits for it.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::TaskId;
use steadfast_engine::TaskInfo;

use super::questions::Routed;
use crate::{
    client::{Capabilities, Client},
    front::Front,
    session::Session,
    wire::{Revision, request},
};

/// How long a client is asked to keep its task: as long as we keep ours.
const TTL: u64 = 7 * 24 * 3_600_000;

/// However often a client wants to be asked, it is not asked more often than this.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// How long a client may take to say how far it is.
const PATIENCE: Duration = Duration::from_secs(30);

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
    /// Follows a client's task until it has answered, or the question is no longer open.
    pub(super) fn follow_theirs(
        self: &Arc<Self>,
        session: &Arc<Session>,
        info: &TaskInfo,
        key: &str,
        theirs: Theirs,
    ) {
        // One is enough.
        let first = session.answers_by_task(info.id.as_str(), key);
        let (front, session) = (self.clone(), session.clone());
        let follower = Follower { front, session, task: info.id.clone(), key: key.into(), theirs };
        self.background.spawn(async move {
            match first {
                true => follower.run().await,
                false => follower.cancel().await,
            }
        });
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
    async fn run(mut self) {
        let (front, session) = (self.front.clone(), self.session.clone());
        let (task, key) = (self.task.clone(), self.key.clone());
        tracing::debug!(%task, key, theirs = self.theirs.task_id, "answered by a client's task");
        let tasks = front.tasks(&session.client);
        let closed = |info: &TaskInfo| info.questions.iter().all(|open| open.key != key);
        tokio::select! {
            outcome = self.outcome() => {
                let to = Routed { task: task.clone(), key: key.clone() };
                if let Err(error) = front.take_answer(&session.client, &to, outcome).await {
                    tracing::error!(%error, "the answer of a client's task could not be taken");
                }
            }
            _ = tasks.wait_for(&task, closed) => self.cancel().await,
            () = session.over.cancelled() => {}
            () = front.draining.cancelled() => {}
        }
        session.is_done_by_task(task.as_str(), &key);
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
        let stream = self.session.stream_of(self.task.as_str(), &self.key)?;
        let mut expected = self.session.expect();
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
            () = stream.closed() => None,
            () = late => None,
        }
    }

    /// Tells the client that its task is no longer needed, if that is something it understands.
    async fn cancel(&self) {
        if !self.session.client.capabilities.has_task(&["cancel"]) {
            return;
        }
        // Nobody waits for the answer.
        let message = self.request(&self.session.expect().id, "tasks/cancel");
        if let Some(stream) = self.session.stream_of(self.task.as_str(), &self.key) {
            stream.send(message).await;
        }
    }
}
