//! Several messages at once, as only 2025-03-26 has it.

use std::{sync::Arc, time::Instant};

use axum::{
    http::{HeaderMap, StatusCode},
    response::Response,
};

use super::{
    empty, json,
    post::{legacy, lives_on, read_error},
    refusal,
    resume::sent,
    said::hear,
};
use crate::{
    Identity,
    front::{Answered, Front, Holds, Request},
    method,
    outlet::Outlet,
    pulse::WAITED,
    repeat::RequestText,
    session::Session,
    wire::{BadMessage, Id, Message, Revision, error_response, response},
};

/// Takes them one after the other.
pub(super) async fn batch(
    front: &Arc<Front>,
    caller: &Identity,
    headers: &HeaderMap,
    messages: Vec<Result<Message<'_>, BadMessage>>,
    asked: Instant,
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
    let (mut replies, mut held) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            Err(bad) => {
                let (id, error) = read_error(bad);
                replies.push(error_response(id.as_ref(), &error));
            }
            Ok(Message::Request { id, method, params }) => {
                let params = params.map_or("{}", |params| params.get());
                let holds = Holds::default();
                // Those before it may take long, for a copy of the batch as well.
                let asked = front.pulse.asked_within(asked, WAITED);
                let work = in_batch(front, caller, &session, (&id, asked), &method, params, &holds);
                replies.extend(work.await);
                held.push(holds);
            }
            // There is one status for all of them.
            Ok(message) => drop(hear(front, &session, message, asked).await),
        }
    }
    // None is answered before all are: if this breaks off, the client makes the whole batch again.
    held.iter().for_each(|holds| sent(front, holds)());
    match replies.is_empty() {
        true => empty(StatusCode::ACCEPTED),
        false => json(StatusCode::OK, format!("[{}]", replies.join(","))),
    }
}

/// A request of a batch, and its response; nothing if the client took it back. What it says on its way
/// goes to the session's own stream.
async fn in_batch(
    front: &Arc<Front>,
    caller: &Identity,
    session: &Arc<Session>,
    (id, asked): (&Id, Instant),
    method: &str,
    params: &str,
    holds: &Holds,
) -> Option<String> {
    let mut taken_back = None;
    let answered = async {
        let meta = method::read_meta(params)?.meta;
        let text = RequestText { method: method.to_owned(), params: params.to_owned() };
        let in_flight = session.begin(id, lives_on(method).then(|| Arc::new(text)))?;
        taken_back = Some(in_flight.cancel.clone());
        // On that stream the point of a call would be taken for one of its own.
        let outlet = session.stream().unwrap_or_else(|| Outlet::new().0).unnumbered();
        let request = Request {
            answered: Answered::default(),
            starting: in_flight.starting.clone(),
            asked,
            holds: holds.clone(),
            again: in_flight.again,
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
    if taken_back.is_some_and(|cancel| cancel.is_cancelled()) {
        return None;
    }
    Some(match answered {
        Ok(result) => response(id, &result),
        Err(error) => error_response(Some(id), &error),
    })
}
