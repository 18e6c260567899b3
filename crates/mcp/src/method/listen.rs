//! `subscriptions/listen`: a stream of what changes, as 2026-07-28 has it.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast_core::TaskId;
use steadfast_engine::{CallError, TaskInfo};
use tokio::task::JoinSet;

use super::{Reply, params, task_error};
use crate::{
    catalog::Change,
    client::Client,
    front::{Front, Request},
    outlet::Outlet,
    wire::{Id, Object, RpcError, meta, notification},
};

/// The most tasks and the most resources that one stream can follow.
const MOST: usize = 1_000;

/// How long to wait when the store is away.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Deserialize)]
struct Listen {
    notifications: Wanted,
}

/// What a client wants to hear of, and what it will.
#[derive(Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_subscriptions: Option<HashSet<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_ids: Option<Vec<String>>,
}

impl Front {
    /// Listens until the client goes away or the server shuts down.
    pub(super) async fn listen(self: &Arc<Self>, request: &Request<'_>) -> Reply {
        let Listen { notifications: mut wanted } = params(request)?;
        let client = &request.client;
        if wanted.task_ids.is_some() && !client.capabilities.tasks() {
            return Err(RpcError::missing_tasks());
        }
        let resources = wanted.resource_subscriptions.as_ref().map_or(0, HashSet::len);
        let tasks = wanted.task_ids.as_ref().map_or(0, Vec::len);
        if resources > MOST || tasks > MOST {
            let message = format!("one stream follows at most {MOST} resources and {MOST} tasks");
            return Err(RpcError::invalid_params(message));
        }
        // Listening begins before the acknowledgement, so that nothing falls in between.
        let mut heard = self.notices.last().await.map_err(task_error)?;
        let mut news = self.notices.watch();
        let known = self.known_tasks(client, &wanted).await.map_err(task_error)?;
        if let Some(uris) = &mut wanted.resource_subscriptions {
            uris.retain(|uri| self.has_resource(uri));
        }
        wanted.task_ids =
            wanted.task_ids.map(|_| known.iter().map(|(id, _)| id.to_string()).collect());
        let listener = Listener {
            front: self.clone(),
            client: client.clone(),
            id: request.id.clone(),
            outlet: request.outlet.clone(),
        };
        listener
            .send("notifications/subscriptions/acknowledged", |params| {
                params.put("notifications", &wanted)
            })
            .await;
        let mut followers = JoinSet::new();
        for (id, info) in known {
            followers.spawn(listener.clone().follow(id, info));
        }
        loop {
            news.mark_unchanged();
            let (changes, away) = match self.notices.behind(heard).await {
                Ok(changes) => (changes, false),
                Err(error) => {
                    // It can't be taken up where it ended, so that it does not end for that.
                    tracing::warn!(%error, "the notices can't be read; trying again");
                    (Vec::new(), true)
                }
            };
            for (number, change) in &changes {
                heard = *number;
                listener.tell(&wanted, change).await;
            }
            if !changes.is_empty() {
                continue;
            }
            tokio::select! {
                _ = news.changed(), if !away => {}
                () = tokio::time::sleep(PAUSE), if away => {}
                () = request.cancel.cancelled() => return Err(super::tools::cancelled()),
                () = request.outlet.closed() => return Err(super::tools::cancelled()),
                () = self.draining.cancelled() => {
                    let reason = "the server is shutting down";
                    let say = |params: Object| params.put("requestId", request.id).put("reason", reason);
                    listener.send("notifications/cancelled", say).await;
                    let more = [(meta::SUBSCRIPTION.to_owned(), json!(request.id))];
                    let result = self.result(client);
                    return Ok(self.close_with(client, result, more.into_iter().collect()));
                }
            }
        }
    }

    /// Those of the wanted tasks that are there and are the client's.
    async fn known_tasks(
        &self,
        client: &Client,
        wanted: &Wanted,
    ) -> Result<Vec<(TaskId, TaskInfo)>, CallError> {
        let tasks = self.tasks(client);
        let mut known = Vec::new();
        for id in wanted.task_ids.iter().flatten().filter_map(|text| TaskId::new(text).ok()) {
            match tasks.get(&id).await {
                Ok(info) => known.push((id, info)),
                Err(CallError::Store(error)) => return Err(CallError::Store(error)),
                Err(_) => {}
            }
        }
        Ok(known)
    }
}

#[derive(Clone)]
struct Listener {
    front: Arc<Front>,
    client: Client,
    /// Of the request that opened the stream.
    id: Id,
    outlet: Outlet,
}

impl Listener {
    async fn send(&self, method: &str, fill: impl FnOnce(Object) -> Object) -> bool {
        let params = fill(Object::new()).put("_meta", &json!({ meta::SUBSCRIPTION: self.id }));
        self.outlet.send(notification(method, Some(&params.close()))).await
    }

    async fn tell(&self, wanted: &Wanted, change: &Change) {
        let nothing = |params| params;
        match change {
            Change::Tools if wanted.tools_list_changed => {
                self.send("notifications/tools/list_changed", nothing).await;
            }
            Change::Prompts if wanted.prompts_list_changed => {
                self.send("notifications/prompts/list_changed", nothing).await;
            }
            Change::Resources if wanted.resources_list_changed => {
                self.send("notifications/resources/list_changed", nothing).await;
            }
            Change::Resource(uri)
                if wanted.resource_subscriptions.as_ref().is_some_and(|all| all.contains(uri)) =>
            {
                self.send("notifications/resources/updated", |params| params.put("uri", uri)).await;
            }
            _ => {}
        }
    }

    /// A task's state now, and whenever it changes, until it has ended.
    async fn follow(self, id: TaskId, mut info: TaskInfo) {
        let tasks = self.front.tasks(&self.client);
        while self.show(&info).await && !info.status.is_terminal() {
            info = loop {
                match tasks.wait_for_change(&id, &info).await {
                    Ok(info) => break info,
                    Err(CallError::Store(error)) => {
                        // The stream stays, and its client counts on it.
                        tracing::warn!(%error, "a task can't be followed; trying again");
                        tokio::time::sleep(PAUSE).await;
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a task is no longer followed");
                        return;
                    }
                }
            };
        }
    }

    async fn show(&self, info: &TaskInfo) -> bool {
        match self.front.detailed_task(Object::new(), &self.client, info) {
            Ok(task) => self.send("notifications/tasks", |_| task).await,
            Err(_) => false,
        }
    }
}
