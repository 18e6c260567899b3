//! Cancelling.

use std::time::Instant;

use steadfast_core::{Event, Failure, FailureKind, Record, TaskId, Timestamp, Ttl, View, encode};
use steadfast_store::{Caller, Cancel, TaskRow};

use super::{CallError, Result, Tasks};
use crate::{
    blob::{self, End},
    finish::finish,
    limits::clip,
    runner::Nudge,
};

/// What the store writes for a cancel.
pub(crate) fn cancel_write(reason: Option<String>, at: Timestamp, retention: Ttl) -> Cancel {
    let told = match &reason {
        Some(reason) => format!("the task was cancelled: {reason}"),
        None => "the task was cancelled".into(),
    };
    let failure =
        Failure { code: Some("cancelled".into()), ..Failure::new(FailureKind::Child, told) };
    Cancel {
        at,
        event: encode(&Record { at, event: Event::Cancelled { reason: reason.clone() } }),
        view: blob::write(&View { reason: reason.clone(), ..View::default() }),
        end: blob::write(&End::Cancelled(reason)),
        tell: blob::tell_parent(Err(failure.permanently())),
        expires: retention.expiry(at),
        frees: None,
    }
}

impl Tasks {
    /// Cancels a task, from the moment this returns: its future is dropped, its steps and
    /// activities get their token, its children are cancelled, and its undo functions run. Of the
    /// reason 64 KiB are kept.
    pub async fn cancel(&self, id: &TaskId, reason: Option<String>) -> Result<()> {
        self.cancel_and(id, reason, false).await
    }

    /// The same, and frees its [request key](super::Start::request_key) by the same commit: who asked for the
    /// task before that finds it cancelled, and who asks for it from then on asks for another.
    pub async fn take_back(&self, id: &TaskId, reason: Option<String>) -> Result<()> {
        self.cancel_and(id, reason, true).await
    }

    async fn cancel_and(&self, id: &TaskId, reason: Option<String>, frees: bool) -> Result<()> {
        let (tasks, id, reason) = (self.clone(), id.clone(), reason.map(clip));
        let whole = async move {
            let row = tasks.row(&id).await?;
            Self::check_status(&row, &id)?;
            tasks.cancel_row(tasks.caller(), &row, reason, frees).await
        };
        finish(&self.core, whole).await
    }

    /// Cancels a task that is older than its tool allows. It has expired, so that nobody else can.
    pub(crate) async fn cancel_expired(&self, id: &TaskId) -> Result<()> {
        let reason = "it was older than its tool allows";
        let caller = Caller { principal: None, now: Timestamp(i64::MIN) };
        let row = self.core.store.get(caller.clone(), id.clone()).await;
        let row = row.map_err(|error| self.failed(id, error))?;
        self.cancel_row(caller, &row, Some(reason.into()), false).await
    }

    /// Cancels a task whose process is gone, if it is still bound to that. Whether it did.
    pub(crate) async fn cancel_abandoned(&self, id: &TaskId) -> Result<bool> {
        let row = self.row(id).await?;
        let Some(desk) = row.bound else { return Ok(false) };
        Self::check_status(&row, id)?;
        let lives = self.core.store.is_alive(desk).await.map_err(CallError::Store)?;
        // Its own process, on its way out, is as good as gone.
        let leaves = desk == self.core.store.desk() && self.core.draining.is_cancelled();
        match lives && !leaves {
            true => Ok(false),
            false => {
                let reason = "the process that it was started for is gone";
                self.cancel_row(self.caller(), &row, Some(reason.into()), false).await?;
                Ok(true)
            }
        }
    }

    async fn cancel_row(
        &self,
        caller: Caller,
        row: &TaskRow,
        reason: Option<String>,
        frees: bool,
    ) -> Result<()> {
        let about: blob::About = blob::read(&row.about).unwrap_or_default();
        let view = View { reason: reason.clone(), ..blob::read_view(&row.view) };
        let mut cancel = cancel_write(reason, self.core.world.now(), about.retention);
        cancel.frees = frees.then(|| self.core.since(Instant::now()));
        // What it last said of itself stays to be seen.
        cancel.view = blob::write(&View { failure: None, retry_at: None, ..view });
        let touched = self.core.store.cancel(caller, row.id.clone(), cancel).await;
        let touched = touched.map_err(|error| self.failed(&row.id, error))?;
        self.core.touched(&touched, Nudge::LOOK);
        self.core.watchers.changed(row.key);
        self.core.dispatch.notify_one();
        self.core.work.notify_one();
        Ok(())
    }
}
