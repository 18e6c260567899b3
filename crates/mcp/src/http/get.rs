//! The streams of a session that a client opens without a request, up to 2025-11-25: for what belongs to
//! no request, and for what is missing of one that broke.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use steadfast_core::Principal;

use super::{
    SESSION, busy, refusal,
    resume::take_up,
    session,
    stream::{Events, respond},
    text,
};
use crate::{
    front::Front,
    outlet::Outlet,
    session::{Session, StreamPoint},
    wire::Revision,
};

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
        Some(event) => match StreamPoint::read(event, &session.id) {
            Some(point) => open_from(front, session, point).await,
            None => take_up(front, session, event).await,
        },
        None => open(front, session, None),
    }
}

/// Goes on after the event that the client had last.
async fn open_from(front: &Arc<Front>, session: Arc<Session>, point: StreamPoint) -> Response {
    match front.notices.last().await {
        Ok(last) if point.heard <= last => open(front, session, Some(point)),
        Ok(_) => refusal(StatusCode::BAD_REQUEST, "there is no stream with such an event"),
        Err(error) => {
            tracing::error!(%error, "the notices can't be read");
            busy("the store is not available")
        }
    }
}

fn open(front: &Arc<Front>, session: Arc<Session>, from: Option<StreamPoint>) -> Response {
    let (outlet, messages) = Outlet::replaceable();
    let begin = session.open_stream(outlet.clone(), from);
    // Clients of earlier revisions fail on an event without a message.
    let primes = session.client.revision >= Revision::V2025_11_25;
    let (draining, over) = (front.draining.clone(), session.over.clone());
    front.background.spawn(front.clone().tell_of_notices(session.clone(), outlet.clone()));
    front.background.spawn(front.clone().tell_of_tasks(session.clone(), outlet.clone()));
    front.background.spawn(front.clone().ask_on_stream(session, outlet.clone()));
    let mut events = Events::endless(messages, front.settings.keep_alive);
    if primes {
        events = events.begin(&begin);
    }
    respond(events.until(Box::pin(async move {
        // When another has taken its place it is silent, but it does not end: a client that has both
        // would open it again at once, in place of the other.
        let _open = outlet;
        tokio::select! {
            () = draining.cancelled() => {}
            () = over.cancelled() => {}
        }
    })))
}
