//! Taking a call back.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;

use crate::{Bookmark, Client, Error};

/// Takes a call back while somebody else awaits it: see [`Call::canceller`](crate::Call::canceller).
#[derive(Clone, Debug)]
pub struct Canceller {
    client: Client,
    bookmark: Bookmark,
    as_task: bool,
    keyed: bool,
    stop: Stop,
}

/// Fires once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    fn fire(&self) {
        self.0.send_replace(true);
    }

    pub(crate) async fn fired(&self) {
        // The sender is here, so that this can't fail.
        let _ = self.0.subscribe().wait_for(|fired| *fired).await;
    }
}

impl Canceller {
    pub(crate) fn new(
        client: Client,
        bookmark: Bookmark,
        as_task: bool,
        keyed: bool,
        stop: Stop,
    ) -> Canceller {
        Canceller { client, bookmark, as_task, keyed, stop }
    }

    /// Takes the call back in the way that its revision has: in a session by `notifications/cancelled`,
    /// in 2026-07-28 by closing its stream, a task by `tasks/cancel`. Who awaits the call gets
    /// [`Error::Cancelled`], also if the server could not be told. Before it was sent, it never is.
    ///
    /// It is an error, and the work goes on at the server, if it has an idempotency key in 2026-07-28:
    /// there a client has no way to take more back than the request.
    ///
    /// It is an error as well, and the call goes on as if nothing was, if it is to be a task that the
    /// server has not named yet.
    pub async fn cancel(&self) -> Result<(), Error> {
        let sent = self.bookmark.request_id();
        let told = match (self.bookmark.task_id(), sent) {
            (Some(task), _) => self.client.task(&task).cancel().await,
            (None, None) => Ok(()),
            (None, Some(_)) if self.as_task => {
                let wrong = "the task of the call is not known yet; cancel it when it is";
                return Err(Error::Setup(wrong.into()));
            }
            (None, Some(_)) if self.client.revision().is_stateless() => match self.keyed {
                true => Err(Error::Setup(
                    "only the request is taken back: with an idempotency key the work goes on"
                        .into(),
                )),
                false => Ok(()),
            },
            (None, Some(request)) => {
                let params = json!({ "requestId": request });
                self.client.notify("notifications/cancelled", params).await
            }
        };
        self.stop.fire();
        told
    }
}
