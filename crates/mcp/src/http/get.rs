//! The stream of a session for what belongs to no request, up to 2025-11-25.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use steadfast_core::Principal;

use super::{SESSION, refusal, stream, text};
use crate::{front::Front, outlet::Outlet};

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
    let Some(session) = front.sessions.get(id, principal) else {
        return refusal(StatusCode::NOT_FOUND, "there is no such session; begin a new one");
    };
    let (outlet, messages) = Outlet::new();
    session.open_stream(outlet.clone());
    front.background.spawn(front.clone().ask_on_stream(session, outlet));
    stream::respond(stream::Events::endless(messages, front.settings.keep_alive))
}
