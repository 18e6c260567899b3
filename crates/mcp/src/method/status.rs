//! Telling a session how its tasks get on, on the session's own stream: as 2025-11-25 has it.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use steadfast_core::{Event, Note, TaskId};
use steadfast_engine::{CallError, ListTasks, Order, Status, TaskInfo};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{call::SESSION_TAG, follow::Rising};
use crate::{
    catalog::Change,
    client::CallRecord,
    front::Front,
    outlet::Outlet,
    session::Session,
    wire::{Object, Revision, meta, notification},
};

impl Front {
    /// Tells a session what has changed of the offer and of what it watches, on its own stream, as long as
    /// that is open and no other was opened in its place.
    pub(crate) async fn tell_of_notices(self: Arc<Self>, session: Arc<Session>, stream: Outlet) {
        let mut news = self.notices.watch();
        loop {
            news.mark_unchanged();
            if !self.tell_of_offer(&session, &stream).await {
                return;
            }
            let notices = match self.missed(&session).await {
                Ok(Some(notices)) => notices,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "the notices can't be read; trying again");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                }
            };
            for (number, change) in &notices {
                if let (Some(point), Some(message)) =
                    (session.point_behind(*number, change), change.message())
                    && !stream.send_at(point, message).await
                {
                    return;
                }
                session.hear(*number, &stream);
            }
            if !notices.is_empty() {
                continue;
            }
            tokio::select! {
                _ = news.changed() => {}
                () = stream.closed() => return,
                () = self.draining.cancelled() => return,
            }
        }
    }

    /// Tells a session that the offer is another than it knows, and writes down that it did: in this order,
    /// so that a kill in between tells it twice rather than never. False if nobody listens any more.
    async fn tell_of_offer(&self, session: &Arc<Session>, stream: &Outlet) -> bool {
        let mut told = false;
        while let Some((change, point)) = session.next_change() {
            if let Some(message) = change.message()
                && !stream.send_at(point, message).await
            {
                return false;
            }
            session.is_told(&change);
            told = true;
        }
        if told && let Err(error) = self.sessions.keep(session).await {
            tracing::warn!(%error, "what a session was told could not be written; trying again later");
        }
        true
    }

    /// The notices that a session has not heard, with what it watches as other processes may have changed
    /// it before they were put up. Nothing if it is over.
    async fn missed(
        &self,
        session: &Arc<Session>,
    ) -> Result<Option<Vec<(u64, Change)>>, CallError> {
        let notices = self.notices.behind(session.heard()).await?;
        let check = async || self.sessions.check(session).await.map_err(CallError::Store);
        let is_there = notices.is_empty() || check().await?;
        Ok(is_there.then_some(notices))
    }

    /// The store is away: waits for a moment. False if nobody listens any more.
    pub(super) async fn away(&self, stream: &Outlet) -> bool {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(200)) => true,
            () = stream.closed() => false,
            () = self.draining.cancelled() => false,
        }
    }

    /// Begins to tell of a task that the session has just started, if it listens: when the answer to
    /// its call is on the way, for before that the client doesn't know the task.
    pub(super) fn tell_of_new_task(
        self: &Arc<Self>,
        session: &Arc<Session>,
        id: &TaskId,
        answered: &CancellationToken,
    ) {
        if session.client.revision == Revision::V2025_11_25
            && let Some(stream) = session.stream()
        {
            let teller = Teller { front: self.clone(), session: session.clone(), stream };
            let (id, answered) = (id.clone(), answered.clone());
            self.background.spawn(async move {
                answered.cancelled().await;
                teller.tell(id, 0, "working").await;
            });
        }
    }

    /// Tells of the tasks that a session has running when its stream opens, until the stream ends.
    pub(crate) async fn tell_of_tasks(self: Arc<Self>, session: Arc<Session>, stream: Outlet) {
        if session.client.revision != Revision::V2025_11_25 {
            return;
        }
        let tasks = self.tasks(&session.client);
        let list = ListTasks {
            statuses: Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect(),
            tag: Some((SESSION_TAG.into(), session.id.clone())),
            limit: 1_000,
            ..ListTasks::default()
        };
        let page = loop {
            match tasks.list(list.clone()).await {
                Ok(page) => break page,
                Err(error) => {
                    tracing::warn!(%error, "the tasks of a session can't be listed; trying again");
                    if !self.away(&stream).await {
                        return;
                    }
                }
            }
        };
        let mut tellers = JoinSet::new();
        for info in page.tasks {
            // What was said before is over. The questions are not in a listing.
            let found = loop {
                match tasks.get(&info.id).await {
                    Err(CallError::Store(_)) => match self.away(&stream).await {
                        true => {}
                        false => return,
                    },
                    found => break found,
                }
            };
            let Ok(info) = found else { continue };
            let status = self.status_in(&session.client, &info);
            let last = tasks.history(&info.id, Order::NewestFirst, None, 1).await;
            let heard = last.ok().and_then(|page| page.entries.first().map(|last| last.seq + 1));
            let (front, session, stream) = (self.clone(), session.clone(), stream.clone());
            let teller = Teller { front, session, stream };
            tellers.spawn(teller.tell(info.id, heard.unwrap_or(0), status));
        }
        tokio::select! {
            _ = tellers.join_all() => {}
            () = stream.closed() => {}
            () = self.draining.cancelled() => {}
        }
    }
}

struct Teller {
    front: Arc<Front>,
    session: Arc<Session>,
    stream: Outlet,
}

impl Teller {
    /// Until the task has ended or the stream has.
    async fn tell(self, id: TaskId, mut heard: u64, mut told: &'static str) {
        let tasks = self.front.tasks(&self.session.client);
        // What was said before may have been heard, on whatever stream.
        let before = heard;
        let mut progress = None;
        loop {
            let followed = tokio::select! {
                followed = tasks.wait_for_events(&id, heard) => followed,
                () = self.stream.closed() => return,
                () = self.front.draining.cancelled() => return,
            };
            let (info, events) = match followed {
                Ok(followed) => followed,
                Err(CallError::Store(_)) => match self.front.away(&self.stream).await {
                    true => continue,
                    false => return,
                },
                Err(_) => return,
            };
            let token = info.call.as_ref().and_then(|call| call.read::<CallRecord>().ok());
            let token = token.and_then(|record| record.progress_token);
            for event in &events {
                heard = event.seq + 1;
                if let (Event::Noted { note: Note::Progress(now), .. }, Some(token)) =
                    (&event.event, &token)
                {
                    let progress = match &mut progress {
                        Some(progress) => progress,
                        None => {
                            let said = Rising::up_to(&tasks, &id, before).await;
                            progress.insert(said.unwrap_or_default())
                        }
                    };
                    let Some(params) = progress.params(token, now) else { continue };
                    let related = json!({ meta::RELATED_TASK: { "taskId": id } });
                    let params = params.put("_meta", &related).close();
                    self.stream.send(notification("notifications/progress", Some(&params))).await;
                }
            }
            let status = self.front.status_in(&self.session.client, &info);
            if status != told {
                told = status;
                self.show(&info).await;
            }
            if info.status.is_terminal() {
                return;
            }
        }
    }

    async fn show(&self, info: &TaskInfo) {
        let task = self.front.task_object(Object::new(), &self.session.client, info).close();
        self.stream.send(notification("notifications/tasks/status", Some(&task))).await;
    }
}
