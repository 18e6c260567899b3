//! Messages from a client, each in a request of its own.

use std::{sync::Arc, time::Instant};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use steadfast_core::Principal;
use tokio_util::sync::CancellationToken;

use super::{
    SESSION, VERSION,
    batch::batch,
    busy, empty, headers as repeated, json, no_store, refusal,
    resume::{Resumable, sent},
    said::said,
    session,
    stream::{Events, Work, respond},
    text,
};
use crate::{
    Identity,
    client::Client,
    front::{Answered, Front, Holds, Meta, Request, Starting},
    method::{self, Opening, initialize},
    outlet::Outlet,
    pulse::WAITED,
    repeat::RequestText,
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
    asked: Instant,
) -> Response {
    if !super::is_json(headers) {
        let message = "the Content-Type must be application/json";
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    }
    if !accepts(headers) {
        let message = "accept both application/json and text/event-stream";
        return refusal(StatusCode::NOT_ACCEPTABLE, message);
    }
    let (limit, begun) = (front.settings.max_body, Instant::now());
    let body = match Limited::new(body, limit).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {limit} bytes");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, &message);
        }
        Err(_) => return refusal(StatusCode::BAD_REQUEST, "the body could not be read"),
    };
    // One that takes its time was not all here before.
    let asked = match begun.elapsed() > WAITED {
        true => front.pulse.asked_within(asked, WAITED),
        false => asked,
    };
    match parse(&body) {
        Err(bad) => bad_message(bad),
        Ok(Received::One(Message::Request { id, method, params })) => {
            let params = params.map_or("{}", |params| params.get());
            one_request(front, caller, headers, (id, asked), &method, params).await
        }
        Ok(Received::One(message)) => {
            match said(front, &caller.principal, headers, message, asked).await {
                Ok(()) => empty(StatusCode::ACCEPTED),
                Err(refused) => *refused,
            }
        }
        Ok(Received::Batch(messages)) => batch(front, &caller, headers, messages, asked).await,
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

pub(super) fn read_error(bad: BadMessage) -> (Option<Id>, RpcError) {
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
    (id, came): (Id, Instant),
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
    let lives_on = session.is_some() && lives_on(method);
    let asked = Arc::new(RequestText { method: method.to_owned(), params: params.to_owned() });
    let repeats = lives_on.then(|| asked.clone());
    let in_flight = match session.as_ref().map(|session| session.begin(&id, repeats)).transpose() {
        Ok(in_flight) => in_flight,
        Err(error) => return failed(&id, &error),
    };
    let cancel = in_flight.as_ref().map(|one| one.cancel.clone()).unwrap_or_default();
    let starting = in_flight.as_ref().map(|one| one.starting.clone()).unwrap_or_default();
    let again = in_flight.as_ref().is_some_and(|one| one.again);
    let holds = Holds::default();
    let (outlet, messages) = Outlet::new();
    // Since 2026-07-28 nobody comes back to a stream.
    let outlet = if session.is_some() { outlet } else { outlet.unnumbered() };
    let on = outlet.clone();
    let owned = Owned {
        front: front.clone(),
        id,
        asked,
        client,
        session,
        meta,
        outlet,
        cancel,
        starting,
        came,
        holds: holds.clone(),
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
    let (mut place, mut first) = (None, None);
    // From the moment that it is durable the client can come back for it, whatever happens to this
    // connection.
    let take_place = |begin: Option<String>| {
        of_session
            .as_ref()
            .zip(begin)
            .and_then(|(session, begin)| Resumable::open(session, begin, on.clone()))
    };
    let mut slow = std::pin::pin!(tokio::time::sleep(front.settings.stream_after));
    while done.is_none() && first.is_none() {
        tokio::select! {
            biased;
            finished = &mut work => done = Some(finished),
            Some(said) = messages.recv() => match said.message {
                Some(_) => first = Some(said),
                None => {
                    place = take_place(said.point);
                    if primes {
                        break;
                    }
                }
            },
            // Its client waits elsewhere now.
            () = replaced(place.as_ref()) => break,
            // Who asks how a task stands has chosen not to wait on a stream.
            () = &mut slow, if method != "tasks/get" => break,
        }
    }
    while done.is_some() && first.is_none() {
        // Its last words may be in the channel.
        let Ok(said) = messages.try_recv() else { break };
        match said.message {
            Some(_) => first = Some(said),
            None => place = take_place(said.point),
        }
    }
    let sent = sent(front, &holds);
    let work = match done {
        Some(Some(message)) if first.is_none() => {
            sent();
            return answered(status.load(std::sync::atomic::Ordering::Relaxed), message);
        }
        Some(message) => Box::pin(std::future::ready(message)),
        None => work,
    };
    let events = Events::of_request(first, messages, work, front.settings.keep_alive).then(sent);
    respond(match place {
        Some(place) => place.stream(front, events),
        None => events,
    })
}

async fn replaced(place: Option<&Resumable>) {
    match place {
        Some(place) => place.replaced().await,
        None => std::future::pending().await,
    }
}

/// Whether a request of a session goes on without its client, and may be made again.
pub(super) fn lives_on(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// A request that owns all it needs.
struct Owned {
    front: Arc<Front>,
    id: Id,
    asked: Arc<RequestText>,
    client: Client,
    session: Option<Arc<Session>>,
    meta: Meta,
    outlet: Outlet,
    cancel: CancellationToken,
    starting: Starting,
    came: Instant,
    holds: Holds,
    again: bool,
}

impl Owned {
    /// The response, or nothing if the client has taken the request back.
    async fn run(self, status: &std::sync::atomic::AtomicU16) -> Option<String> {
        let request = Request {
            answered: Answered::default(),
            starting: self.starting,
            asked: self.came,
            holds: self.holds,
            again: self.again,
            id: &self.id,
            method: &self.asked.method,
            params: &self.asked.params,
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
pub(super) async fn legacy(
    front: &Arc<Front>,
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
