//! Ending activities from outside, by their token.

use serde::Serialize;
use steadfast_core::{Json, Message, Outcome};
use steadfast_store::{ActivityEnd, ActivityLease, ActivityRow, Error, Refusal};

use super::{CallError, Result, Tasks};
use crate::{
    Error as AuthorError,
    blob::{self, ActivityBody},
    finish::finish,
    runner::Nudge,
};

impl Tasks {
    /// Completes the activity with this token.
    pub async fn complete_activity<T: Serialize + ?Sized>(
        &self,
        token: &str,
        result: &T,
    ) -> Result<()> {
        let json = Json::of(result).map_err(|error| CallError::Payload(error.to_string()))?;
        let limit = self.core.settings.max_payload;
        if json.text().len() > limit {
            return Err(CallError::TooLarge { what: "the result", limit });
        }
        self.end_activity(token, Ok(json)).await
    }

    /// Fails the activity with this token, for good.
    pub async fn fail_activity(&self, token: &str, error: AuthorError) -> Result<()> {
        let failure = error.into_failure();
        let limit = self.core.settings.max_payload;
        if failure.data.as_ref().is_some_and(|data| data.text().len() > limit) {
            return Err(CallError::TooLarge { what: "the error's data", limit });
        }
        self.end_activity(token, Err(failure)).await
    }

    /// Says that the activity with this token is alive.
    pub async fn heartbeat_activity(&self, token: &str) -> Result<()> {
        let row = self.activity_row(token).await?;
        let body: ActivityBody = blob::read(&row.body).map_err(CallError::Store)?;
        let now = self.core.world.now();
        let until = body.heartbeat_ms.map(|ms| now.plus(std::time::Duration::from_millis(ms)));
        let lease = ActivityLease { key: row.key, epoch: row.epoch };
        self.core.store.beat_activity(lease, until, false).await.map_err(|error| self.gone(error))
    }

    async fn end_activity(&self, token: &str, outcome: Outcome) -> Result<()> {
        let (tasks, token) = (self.clone(), token.to_owned());
        finish(&self.core, async move { tasks.end_whole(&token, outcome).await }).await
    }

    async fn end_whole(&self, token: &str, outcome: Outcome) -> Result<()> {
        let row = self.activity_row(token).await?;
        let body = blob::write(&Message::ActivityEnded { op: row.op, outcome });
        let lease = ActivityLease { key: row.key, epoch: row.epoch };
        let end = ActivityEnd { lease, body };
        let touched = self.core.store.end_activity(end).await.map_err(|error| self.gone(error))?;
        crate::worker::cancel(&self.core, &[row.key]);
        self.core.touched(&[touched], Nudge::MAIL);
        Ok(())
    }

    async fn activity_row(&self, token: &str) -> Result<ActivityRow> {
        let row = self.core.store.activity(token.to_owned()).await.map_err(CallError::Store)?;
        row.ok_or(CallError::NoSuchActivity)
    }

    fn gone(&self, error: Error) -> CallError {
        self.core.doubt_after(&error);
        match error {
            Error::Refused(Refusal::Unknown | Refusal::Fenced) => CallError::NoSuchActivity,
            error => CallError::Store(error),
        }
    }
}
