//! What a client says without asking: notifications, and responses to requests of ours.

use std::{sync::Arc, time::Instant};

use axum::{http::HeaderMap, response::Response};
use serde_json::Value;
use steadfast_core::Principal;
use steadfast_engine::CallError;

use super::{SESSION, busy, post::legacy, text};
use crate::{
    front::Front,
    method::Routed,
    session::{About, Session},
    wire::{Id, Message},
};

/// A notification, or a response to a request of ours.
pub(super) async fn said(
    front: &Arc<Front>,
    principal: &Principal,
    headers: &HeaderMap,
    message: Message<'_>,
    asked: Instant,
) -> Result<(), Box<Response>> {
    if text(headers, SESSION).is_none() && matches!(message, Message::Notification { .. }) {
        // 2026-07-28 has none that says anything to us over HTTP.
        return Ok(());
    }
    let session = legacy(front, principal, headers).await?;
    match hear(front, &session, message, asked).await {
        true => Ok(()),
        // Who is told that an answer was accepted does not send it again, and is not asked again.
        false => Err(Box::new(busy(
            "this can't be taken now: the store is not available, or too many requests were taken back that \
             never came; try again",
        ))),
    }
}

/// Takes what a client of a session says without asking, and that may have been on its way since `asked`. False
/// if that could not be written down, and is to be said again.
#[must_use]
pub(crate) async fn hear(
    front: &Arc<Front>,
    session: &Arc<Session>,
    message: Message<'_>,
    asked: Instant,
) -> bool {
    match message {
        Message::Notification { method, params } if method == "notifications/cancelled" => {
            #[derive(serde::Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Cancelled {
                request_id: Id,
            }
            let params = params.map_or("{}", |params| params.get());
            let Ok(Cancelled { request_id }) = serde_json::from_str(params) else { return true };
            let starting = session.cancel(&request_id);
            let begins_none = match &starting {
                Some(starting) => *starting.lock().await,
                None => false,
            };
            // Also if it is at work here, so that it is durable when the client is told so.
            match front.cancel(session, &request_id, begins_none, asked).await {
                Ok(taken) => return taken,
                Err(error) => {
                    tracing::error!(%error, "a request could not be cancelled");
                    return !may_pass(&error);
                }
            }
        }
        Message::Notification { method, params } if method == "notifications/progress" => {
            front.hear_progress(session, params.map_or("{}", |params| params.get())).await;
        }
        Message::Notification { method, .. } if method == "notifications/roots/list_changed" => {
            return front.hear_of_roots(session).await;
        }
        Message::Response { id: Id::Text(id), outcome } => {
            let read = |raw: &serde_json::value::RawValue| {
                serde_json::from_str::<Value>(raw.get()).unwrap_or(Value::Null)
            };
            let outcome = outcome.map(read).map_err(read);
            let taken = match (Routed::read(&id), About::read(&id)) {
                (Some(to), _) => front.take_response(session, &to, outcome).await,
                (None, Some(about)) => match session.respond(&id, outcome) {
                    // It was asked by another process, or it comes late.
                    Some(outcome) => front.hear_of_theirs(session, &about, outcome).await,
                    None => Ok(()),
                },
                (None, None) => Ok(()),
            };
            if let Err(error) = taken {
                tracing::error!(%error, "an answer could not be taken");
                return !may_pass(&error);
            }
        }
        _ => {}
    }
    true
}

/// Whether the same may succeed later.
fn may_pass(error: &CallError) -> bool {
    matches!(error, CallError::Store(_) | CallError::ShuttingDown)
}
