//! Messages from a client, each in a request of its own.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use steadfast_core::Principal;
use steadfast_engine::CallError;
use tokio_util::sync::CancellationToken;

use super::{
    SESSION, VERSION, busy, empty, headers as repeated, json, no_store, refusal,
    resume::{resumable, sent},
    session,
    stream::{Events, Work, respond},
    text,
};
use crate::{
    Identity,
    client::Client,
    front::{Answered, Front, Meta, Request},
    method::{self, Opening, Routed, initialize},
    outlet::Outlet,
    repeat::{fingerprint, request_key},
    session::Session,
    wire::{
        BadMessage, Id, Message, Received, Revision, RpcError, code, error_response, parse,
        response,
    },
};

pub(super) async fn post(
    front: &Arc<Front>,
    caller: Identity,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    if !super::is_json(headers) {
        let message = "the Content-Type must be application/json";
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    }
    if !accepts(headers) {
        let message = "accept both application/json and text/event-stream";
        return refusal(StatusCode::NOT_ACCEPTABLE, message);
    }
    let limit = front.settings.max_body;
    let body = match Limited::new(body, limit).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {limit} bytes");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, &message);
        }
        Err(_) => return refusal(StatusCode::BAD_REQUEST, "the body could not be read"),
    };
    match parse(&body) {
        Err(bad) => bad_message(bad),
        Ok(Received::One(Message::Request { id, method, params })) => {
            let params = params.map_or("{}", |params| params.get());
            one_request(front, caller, headers, id, &method, params).await
        }
        Ok(Received::One(message)) => {
            match said(front, &caller.principal, headers, message).await {
                Ok(()) => empty(StatusCode::ACCEPTED),
                Err(refused) => *refused,
            }
        }
        Ok(Received::Batch(messages)) => batch(front, &caller, headers, messages).await,
    }
}

fn accepts(headers: &HeaderMap) -> bool {
    let Some(accept) = text(headers, header::ACCEPT.as_str()) else { return true };
    let has = |kinds: [&str; 3]| kinds.iter().any(|kind| accept.contains(kind));
    has(["application/json", "application/*", "*/*"]) && has(["text/event-stream", "text/*", "*/*"])
}

fn bad_message(bad: BadMessage) -> Response {
    let (id, error) = read_error(bad);
    json(StatusCode::BAD_REQUEST, error_response(id.as_ref(), &error))
}

fn read_error(bad: BadMessage) -> (Option<Id>, RpcError) {
    match bad {
        BadMessage::NotJson(reason) => {
            (None, RpcError::new(code::PARSE, format!("this is not JSON: {reason}")))
        }
        BadMessage::NotRpc(id, reason) => (id, RpcError::new(code::INVALID_REQUEST, reason)),
    }
}

fn failed(id: &Id, error: &RpcError) -> Response {
    answered(error.status, error_response(Some(id), error))
}

fn answered(status: u16, message: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let mut reply = json(status, message);
    if status == StatusCode::TOO_MANY_REQUESTS {
        // Whole seconds; the message has it exactly.
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

async fn one_request(
    front: &Arc<Front>,
    caller: Identity,
    headers: &HeaderMap,
    id: Id,
    method: &str,
    params: &str,
) -> Response {
    // What is at work may still be answered and cancelled.
    if front.draining.is_cancelled() {
        return busy("the server is shutting down");
    }
    let Ok(place) = front.places.try_acquire() else {
        return busy("too many requests are at work");
    };
    // Given back when the response is on its way; streams are bounded by connections.
    let _place = place;
    let read = match method::read_meta(params) {
        Ok(read) => read,
        Err(error) => return failed(&id, &error),
    };
    let header = text(headers, VERSION);
    let stateless = |name: &str| Revision::named(name).is_some_and(Revision::is_stateless);
    let (client, session, meta) = if read.version.is_some() || header.is_some_and(stateless) {
        match modern(front, caller, headers, method, params, read) {
            Ok((client, meta)) => (client, None, meta),
            Err(error) => return failed(&id, &error),
        }
    } else if method == "initialize" {
        return begin(front, caller, &id, params).await;
    } else {
        match legacy(front, &caller.principal, headers).await {
            Ok(session) => (session.client.for_request(caller), Some(session), read.meta),
            Err(refused) => return *refused,
        }
    };
    let lives_on =
        session.is_some() && matches!(method, "tools/call" | "prompts/get" | "resources/read");
    let print = lives_on.then(|| fingerprint(method, params));
    let in_flight = match session.as_ref().map(|session| session.begin(&id, print)).transpose() {
        Ok(in_flight) => in_flight,
        Err(error) => return failed(&id, &error),
    };
    let cancel = in_flight.as_ref().map(|one| one.cancel.clone()).unwrap_or_default();
    let again = in_flight.as_ref().is_some_and(|one| one.again);
    let keyed = meta.key.is_some();
    let (outlet, messages) = Outlet::new();
    let on = outlet.clone();
    let owned = Owned {
        front: front.clone(),
        id,
        method: method.to_owned(),
        params: params.to_owned(),
        client,
        session,
        meta,
        outlet,
        cancel,
        again,
    };
    let of_session = owned.session.clone();
    let primes =
        of_session.as_ref().is_some_and(|session| session.client.revision >= Revision::V2025_11_25);
    let status = Arc::new(std::sync::atomic::AtomicU16::new(200));
    let seen = status.clone();
    let mut work: Work = Box::pin(async move {
        let _in_flight = in_flight;
        owned.run(&seen).await
    });
    let mut messages = messages;
    // Most are done at once.
    let at_once = std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    });
    let mut done = at_once.await;
    if done.is_none() && lives_on {
        // Up to 2025-11-25 a client that goes away has not taken its request back.
        let spawned = front.background.spawn(work);
        work = Box::pin(async move { spawned.await.ok().flatten() });
    }
    let (mut begin, mut first) = (None, None);
    let mut slow = std::pin::pin!(tokio::time::sleep(front.settings.stream_after));
    while done.is_none() && first.is_none() {
        tokio::select! {
            biased;
            finished = &mut work => done = Some(finished),
            Some(said) = messages.recv() => match said.message {
                Some(_) => first = Some(said),
                None => {
                    begin = said.point;
                    // Whatever happens to this connection from now on, the client can come back.
                    if primes {
                        break;
                    }
                }
            },
            // Who asks how a task stands has chosen not to wait on a stream.
            () = &mut slow, if method != "tasks/get" => break,
        }
    }
    while done.is_some() && first.is_none() {
        // Its last words may be in the channel.
        let Ok(said) = messages.try_recv() else { break };
        match said.message {
            Some(_) => first = Some(said),
            None => begin = said.point,
        }
    }
    let sent = sent(front, begin.as_deref(), keyed);
    let work = match done {
        Some(Some(message)) if first.is_none() => {
            sent();
            return answered(status.load(std::sync::atomic::Ordering::Relaxed), message);
        }
        Some(message) => Box::pin(std::future::ready(message)),
        None => work,
    };
    let events = Events::of_request(first, messages, work, front.settings.keep_alive).then(sent);
    respond(match (begin, of_session) {
        (Some(begin), Some(session)) => resumable(front, &session, events, &begin, on),
        _ => events,
    })
}

/// A request that owns all it needs.
struct Owned {
    front: Arc<Front>,
    id: Id,
    method: String,
    params: String,
    client: Client,
    session: Option<Arc<Session>>,
    meta: Meta,
    outlet: Outlet,
    cancel: CancellationToken,
    again: bool,
}

impl Owned {
    /// The response, or nothing if the client has taken the request back.
    async fn run(self, status: &std::sync::atomic::AtomicU16) -> Option<String> {
        let request = Request {
            answered: Answered::default(),
            again: self.again,
            id: &self.id,
            method: &self.method,
            params: &self.params,
            client: self.client,
            session: self.session,
            meta: self.meta,
            outlet: self.outlet,
            cancel: self.cancel,
        };
        let answered = self.front.answer(&request).await;
        if request.cancel.is_cancelled() {
            return None;
        }
        Some(match answered {
            Ok(result) => response(&self.id, &result),
            Err(error) => {
                status.store(error.status, std::sync::atomic::Ordering::Relaxed);
                error_response(Some(&self.id), &error)
            }
        })
    }
}

/// A request of 2026-07-28: it says itself who the client is.
fn modern(
    front: &Front,
    caller: Identity,
    headers: &HeaderMap,
    method: &str,
    params: &str,
    read: method::ReadMeta,
) -> Result<(Client, Meta), RpcError> {
    let missing = |what: &str| {
        RpcError::invalid_params(format!("_meta has no io.modelcontextprotocol/{what}")).status(400)
    };
    let mismatch = |what: String| {
        RpcError::new(code::HEADER_MISMATCH, format!("header mismatch: {what}")).status(400)
    };
    let version = read.version.ok_or_else(|| missing("protocolVersion"))?;
    match text(headers, VERSION) {
        None => return Err(mismatch("MCP-Protocol-Version is missing".into())),
        Some(header) if header != version => {
            return Err(mismatch(format!(
                "MCP-Protocol-Version is {header:?}, the body's version {version:?}"
            )));
        }
        Some(_) => {}
    }
    let revision = method::stateless_revision(&version)?;
    repeated::check(front, headers, method, params)?;
    let capabilities = read.capabilities.ok_or_else(|| missing("clientCapabilities"))?;
    Ok((Client::new(caller, revision, capabilities, read.info), read.meta))
}

/// The session of a request up to 2025-11-25.
async fn legacy(
    front: &Front,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Arc<Session>, Box<Response>> {
    if let Some(version) = text(headers, VERSION)
        && Revision::named(version).is_none()
    {
        let error = method::unsupported(version);
        return Err(Box::new(json(StatusCode::BAD_REQUEST, error_response(None, &error))));
    }
    let Some(id) = text(headers, SESSION) else {
        let message = "the header Mcp-Session-Id is missing; begin with initialize, or send the \
                       _meta of 2026-07-28";
        return Err(Box::new(refusal(StatusCode::BAD_REQUEST, message)));
    };
    session(front, id, principal).await
}

async fn begin(front: &Arc<Front>, caller: Identity, id: &Id, params: &str) -> Response {
    let opening = match Opening::read(params) {
        Ok(opening) => opening,
        Err(error) => return failed(id, &error),
    };
    let client = match opening.client(caller).within_limits() {
        Ok(client) => client,
        Err(error) => return failed(id, &error),
    };
    let session = match front.sessions.begin(client).await {
        Ok(session) => session,
        Err(error) => return no_store(&error),
    };
    let mut reply = json(StatusCode::OK, response(id, &initialize(front, &session)));
    if let Ok(value) = HeaderValue::from_str(&session.id) {
        reply.headers_mut().insert(SESSION, value);
    }
    reply
}

/// A notification, or a response to a request of ours.
async fn said(
    front: &Arc<Front>,
    principal: &Principal,
    headers: &HeaderMap,
    message: Message<'_>,
) -> Result<(), Box<Response>> {
    if text(headers, SESSION).is_none() && matches!(message, Message::Notification { .. }) {
        // 2026-07-28 has none that says anything to us over HTTP.
        return Ok(());
    }
    let session = legacy(front, principal, headers).await?;
    match hear(front, &session, message).await {
        true => Ok(()),
        // Who is told that an answer was accepted does not send it again, and is not asked again.
        false => Err(Box::new(busy("the store is not available; try again"))),
    }
}

/// Takes what a client of a session says without asking. False if that could not be written
/// down, and is to be said again.
#[must_use]
pub(crate) async fn hear(front: &Arc<Front>, session: &Arc<Session>, message: Message<'_>) -> bool {
    match message {
        Message::Notification { method, params } if method == "notifications/cancelled" => {
            #[derive(serde::Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Cancelled {
                request_id: Id,
            }
            let params = params.map_or("{}", |params| params.get());
            if let Ok(Cancelled { request_id }) = serde_json::from_str(params)
                && !session.cancel(&request_id)
                && let Err(error) = front.cancel_lost(session, &request_id).await
            {
                tracing::error!(%error, "a request could not be cancelled");
                return !may_pass(&error);
            }
        }
        Message::Response { id: Id::Text(id), outcome } => {
            let read = |raw: &serde_json::value::RawValue| {
                serde_json::from_str::<Value>(raw.get()).unwrap_or(Value::Null)
            };
            let outcome = outcome.map(read).map_err(read);
            let Some(to) = Routed::read(&id) else {
                session.respond(&id, outcome);
                return true;
            };
            if let Err(error) = front.take_response(session, &to, outcome).await {
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

/// Several messages at once, as only 2025-03-26 has it.
async fn batch(
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
    let answered = async {
        let meta = method::read_meta(params)?.meta;
        let in_flight = session.begin(id, None)?;
        let outlet = session.stream().unwrap_or_else(|| Outlet::new().0);
        let request = Request {
            answered: Answered::default(),
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
    if let Ok(Some(task)) = front.tasks(&session.client).keyed(&request_key(session, id)).await {
        front.sent.add(task);
    }
    match answered {
        Ok(result) => response(id, &result),
        Err(error) => error_response(Some(id), &error),
    }
}
