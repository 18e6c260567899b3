//! Several messages at once, as only 2025-03-26 has it.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, StatusCode},
    response::Response,
};

use super::{
    empty, json,
    post::{legacy, read_error},
    refusal,
    resume::sent,
    said::hear,
};
use crate::{
    Identity,
    front::{Answered, Front, Holds, Request},
    method,
    outlet::Outlet,
    session::Session,
    wire::{BadMessage, Id, Message, Revision, error_response, response},
};

/// Takes them one after the other.
pub(super) async fn batch(
    front: &Arc<Front>,
    caller: &Identity,
    headers: &HeaderMap,
    messages: Vec<Result<Message<'_>, BadMessage>>,
) -> Response {
    let session = match legacy(front, &caller.principal, headers).await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    if session.client.revision != Revision::V2025_03_26 {
        return refusal(StatusCode::BAD_REQUEST, "this revision has no batches");
    }
    if messages.is_empty() {
        return refusal(StatusCode::BAD_REQUEST, "a batch has at least one message");
    }
    let mut replies = Vec::new();
    for message in messages {
        match message {
            Err(bad) => {
                let (id, error) = read_error(bad);
                replies.push(error_response(id.as_ref(), &error));
            }
            Ok(Message::Request { id, method, params }) => {
                let params = params.map_or("{}", |params| params.get());
                replies.push(in_batch(front, caller, &session, &id, &method, params).await);
            }
            // There is one status for all of them.
            Ok(message) => drop(hear(front, &session, message).await),
        }
    }
    match replies.is_empty() {
        true => empty(StatusCode::ACCEPTED),
        false => json(StatusCode::OK, format!("[{}]", replies.join(","))),
    }
}

/// A request of a batch. What it says on its way goes to the session's own stream.
async fn in_batch(
    front: &Arc<Front>,
    caller: &Identity,
    session: &Arc<Session>,
    id: &Id,
    method: &str,
    params: &str,
) -> String {
    let holds = Holds::default();
    let answered = async {
        let meta = method::read_meta(params)?.meta;
        let in_flight = session.begin(id, None)?;
        let outlet = session.stream().unwrap_or_else(|| Outlet::new().0);
        let request = Request {
            answered: Answered::default(),
            holds: holds.clone(),
            again: false,
            id,
            method,
            params,
            client: session.client.for_request(caller.clone()),
            session: Some(session.clone()),
            meta,
            outlet,
            cancel: in_flight.cancel.clone(),
        };
        front.answer(&request).await
    };
    let answered = answered.await;
    // It goes out with the others, on no stream of its own.
    sent(front, &holds)();
    match answered {
        Ok(result) => response(id, &result),
        Err(error) => error_response(Some(id), &error),
    }
}
