//! Waiting for a task.

use std::{pin::pin, sync::Arc};

use steadfast_core::{Status, TaskId};

use steadfast_store::TaskRow;

use super::{Result, TaskInfo, Tasks};
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
            return self.show(TaskRow::clone(&row)).await;
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
            let mut changed = pin!(watch.notify.notified());
            let listening = changed.as_mut().enable();
            let seen = match row.take() {
                // The first look was before we watched.
                Some(early) if early.status.is_terminal() => early,
                _ => self.row(id).await?,
            };
            let info = self.show(seen).await?;
            if wanted(&info) {
                return Ok(info);
            }
            if !listening {
                changed.await;
            }
        }
    }
}
