//! Waiting for a task.

use std::{pin::pin, sync::Arc};

use steadfast_core::{Status, TaskId};

use steadfast_store::{Order, TaskRow};

use super::{HistoryEntry, Result, TaskInfo, Tasks};
use crate::runner::Nudge;

impl Tasks {
    /// Waits until the task has ended, however long that takes.
    pub async fn wait(&self, id: &TaskId) -> Result<TaskInfo> {
        // One that runs here tells us itself, and nothing need be read.
        let live = self.core.live(id);
        let own = |live: &Arc<Nudge>| self.principal.is_none() || live.owner == self.principal;
        if let Some(live) = live.filter(own)
            && let Some(row) = live.left().await
        {
            // It asks nothing any more.
            return self.show(TaskRow::clone(&row), Vec::new());
        }
        self.wait_for(id, |info| info.status.is_terminal()).await
    }

    /// Waits until the task looks different from `seen`.
    pub async fn wait_for_change(&self, id: &TaskId, seen: &TaskInfo) -> Result<TaskInfo> {
        self.wait_for(id, |info| info != seen).await
    }

    /// Waits until the task has ended or asks something.
    pub async fn wait_for_question(&self, id: &TaskId) -> Result<TaskInfo> {
        self.wait_for(id, |info| info.status.is_terminal() || info.status == Status::InputRequired)
            .await
    }

    /// Waits until the history has events from number `seen` on, or the task has ended; the new
    /// events, oldest first, with the task as it was when they had been looked for.
    ///
    /// A task that [began anew](crate::Context::continue_as_new) counts its events from 0 again, with
    /// [`Event::Started`](steadfast_core::Event) in front: if there are fewer than `seen`, all are new.
    pub async fn wait_for_events(
        &self,
        id: &TaskId,
        seen: u64,
    ) -> Result<(TaskInfo, Vec<HistoryEntry>)> {
        let watch = self.core.watchers.watch(self.row(id).await?.key);
        loop {
            let mut changed = pin!(watch.feed.notify.notified());
            let listening = changed.as_mut().enable();
            let (info, events) = self.look(id, seen).await?;
            if !events.is_empty() || info.status.is_terminal() {
                return Ok((info, events));
            }
            if !listening {
                changed.await;
            }
        }
    }

    /// The events from number `seen` on, and the task as it was when they had been looked for.
    pub(super) async fn look(
        &self,
        id: &TaskId,
        seen: u64,
    ) -> Result<(TaskInfo, Vec<HistoryEntry>)> {
        // The state after the events, so that it shows no less than they tell; and the last events once
        // more, for there are no others behind an end.
        let mut events = self.events_from(id, seen).await?;
        let mut info = self.get(id).await?;
        // What was said before a question is told with it.
        while !info.questions.is_empty() {
            let all = self.events_from(id, seen).await?;
            let told = all.len() == events.len();
            events = all;
            if told {
                break;
            }
            info = self.get(id).await?;
        }
        if info.status.is_terminal() {
            events = self.events_from(id, seen).await?;
        }
        Ok((info, events))
    }

    /// Newest first in the store, so that the cost is that of what is new.
    async fn events_from(&self, id: &TaskId, seen: u64) -> Result<Vec<HistoryEntry>> {
        let (mut events, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.history(id, Order::NewestFirst, cursor.as_deref(), 100).await?;
            let known = page.entries.iter().any(|entry| entry.seq < seen);
            events.extend(page.entries);
            cursor = page.next;
            if known || cursor.is_none() {
                break;
            }
        }
        let anew = events.first().is_some_and(|last| last.seq + 1 < seen);
        if !anew {
            events.retain(|entry| entry.seq >= seen);
        }
        events.reverse();
        Ok(events)
    }

    /// Waits until the task is as wanted.
    pub async fn wait_for(
        &self,
        id: &TaskId,
        wanted: impl Fn(&TaskInfo) -> bool,
    ) -> Result<TaskInfo> {
        let row = self.row(id).await?;
        let watch = self.core.watchers.watch(row.key);
        let mut row = Some(row);
        loop {
            // Listening begins before the look, so that no change falls in between.
            let mut changed = pin!(watch.feed.notify.notified());
            let listening = changed.as_mut().enable();
            let info = match row.take() {
                // The first look was before we watched.
                Some(early) if early.status.is_terminal() => self.show(early, Vec::new())?,
                _ => self.get(id).await?,
            };
            if wanted(&info) {
                return Ok(info);
            }
            if !listening {
                changed.await;
            }
        }
    }
}
