//! The streams of a session that a client opens without a request, up to 2025-11-25: for what belongs to
//! no request, and for what is missing of one that broke.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use steadfast_core::Principal;

use super::{
    SESSION, refusal,
    resume::take_up,
    session,
    stream::{Events, respond},
    text,
};
use crate::{front::Front, outlet::Outlet, session::Session};

pub(super) async fn get(
    front: &Arc<Front>,
    principal: &Principal,
    headers: &HeaderMap,
) -> Response {
    let accepts = text(headers, header::ACCEPT.as_str()).unwrap_or("*/*");
    if !["text/event-stream", "text/*", "*/*"].iter().any(|kind| accepts.contains(kind)) {
        return refusal(StatusCode::NOT_ACCEPTABLE, "accept text/event-stream");
    }
    let Some(id) = text(headers, SESSION) else {
        return refusal(StatusCode::METHOD_NOT_ALLOWED, "only a session has such a stream");
    };
    let session = match session(front, id, principal).await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    match text(headers, "last-event-id") {
        Some(event) => take_up(front, session, event).await,
        None => open(front, session),
    }
}

fn open(front: &Arc<Front>, session: Arc<Session>) -> Response {
    let (outlet, messages) = Outlet::new();
    session.open_stream(outlet.clone());
    let (draining, over) = (front.draining.clone(), session.over.clone());
    front.background.spawn(front.clone().tell_of_tasks(session.clone(), outlet.clone()));
    front.background.spawn(front.clone().ask_on_stream(session, outlet));
    let events = Events::endless(messages, front.settings.keep_alive);
    respond(events.until(Box::pin(async move {
        tokio::select! {
            () = draining.cancelled() => {}
            () = over.cancelled() => {}
        }
    })))
}
