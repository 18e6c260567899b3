//! Cancelling.

use steadfast_core::{
    Event, Failure, FailureKind, Record, TaskId, Timestamp, Ttl, View, encode,
};
use steadfast_store::Cancel;

use super::{CallError, Result, Tasks};
use crate::{
    blob::{self, End},
    runner::Nudge,
};

/// What the store writes for a cancel.
pub(crate) fn cancel_write(reason: Option<String>, at: Timestamp, retention: Ttl) -> Cancel {
    let told = match &reason {
        Some(reason) => format!("the task was cancelled: {reason}"),
        None => "the task was cancelled".into(),
    };
    let failure = Failure { code: Some("cancelled".into()), ..Failure::new(FailureKind::Child, told) };
    Cancel {
        at,
        event: encode(&Record { at, event: Event::Cancelled { reason: reason.clone() } }),
        view: blob::write(&View { reason: reason.clone(), ..View::default() }),
        end: blob::write(&End::Cancelled(reason)),
        tell: blob::tell_parent(Err(failure.permanently())),
        expires: retention.expiry(at),
    }
}

impl Tasks {
    /// Cancels a task, from the moment this returns: its future is dropped, its steps and
    /// activities get their token, its children are cancelled, and its undo functions run.
    pub async fn cancel(&self, id: &TaskId, reason: Option<String>) -> Result<()> {
        let row = self.row(id).await?;
        Self::check_status(&row, id)?;
        let about: blob::About = blob::read(&row.about).unwrap_or_default();
        let view = View { reason: reason.clone(), ..blob::read_view(&row.view) };
        let mut cancel = cancel_write(reason, self.core.world.now(), about.retention);
        // What it last said of itself stays to be seen.
        cancel.view = blob::write(&View { failure: None, retry_at: None, ..view });
        let touched = self.core.store.cancel(self.caller(), id.clone(), cancel).await;
        let touched = touched.map_err(|error| CallError::on(id, error))?;
        self.core.touched(&touched, Nudge::LOOK);
        self.core.watchers.changed(row.key);
        self.core.dispatch.notify_one();
        self.core.work.notify_one();
        Ok(())
    }

    /// Cancels a task that is older than its tool allows. It has expired, so that nobody else can.
    pub(crate) async fn cancel_expired(&self, id: &TaskId) -> Result<()> {
        let reason = "it was older than its tool allows";
        let now = self.core.world.now();
        let cancel = cancel_write(Some(reason.into()), now, self.core.settings.retention);
        let caller = steadfast_store::Caller { principal: None, now: Timestamp(i64::MIN) };
        let touched = self.core.store.cancel(caller, id.clone(), cancel).await;
        let touched = touched.map_err(|error| CallError::on(id, error))?;
        self.core.touched(&touched, Nudge::LOOK);
        self.core.dispatch.notify_one();
        Ok(())
    }
}
