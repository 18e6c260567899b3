//! What clients up to 2025-11-25 say without being asked: how far they are with a question of ours, and
//! that their roots are others.

use std::time::Instant;

use serde::Deserialize;
use steadfast_core::Ttl;

use super::questions::Routed;
use crate::{
    ask::{AnswerProgress, ROOTS_CHANGED},
    client::InputKind,
    front::Front,
    session::Session,
};

/// The parameters of `notifications/progress`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    /// Ours are texts.
    progress_token: String,
    progress: f64,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default)]
    message: Option<String>,
}

impl Front {
    /// How far a client is with a question. Ignored if that is not open, or is none of this principal's.
    pub(crate) async fn hear_progress(&self, session: &Session, params: &str) {
        let client = &session.client;
        // Clients may say too much of it; nothing is lost then that anybody relies on.
        if !self.listener.listens() || self.polls.take(&client.principal, Instant::now()).is_err() {
            return;
        }
        let Ok(said) = serde_json::from_str::<Said>(params) else { return };
        let Some(to) = Routed::read(&said.progress_token) else { return };
        match self.asked(client, &to).await {
            Ok(Some((info, _))) => self.listener.tell(AnswerProgress {
                task: info.id,
                tool: info.tool,
                key: to.key,
                progress: said.progress,
                total: said.total,
                message: said.message,
            }),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "progress of a client is lost"),
        }
    }

    /// The roots of a client are others: durable when this returns, so that whoever waits for it hears of
    /// it. False if it is to be said again.
    pub(crate) async fn hear_of_roots(&self, session: &Session) -> bool {
        let client = &session.client;
        if !client.capabilities.can(InputKind::Roots) {
            return true;
        }
        if self.polls.take(&client.principal, Instant::now()).is_err() {
            return false;
        }
        let counted = self.engine.operator().start(ROOTS_CHANGED, &()).session(&session.id);
        // When it has counted, nobody wants to know of it.
        let counted = counted.ttl(Ttl::Millis(0)).await;
        counted
            .inspect_err(|error| tracing::error!(%error, "that roots changed is not written"))
            .is_ok()
    }
}
