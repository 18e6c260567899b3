//! HTTP with server-sent events as 2024-11-05 has it: one stream for all that goes to the client, which
//! begins with where the client is to post to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, Uri},
    response::Response,
};
use http_body_util::{BodyExt, Limited};
use steadfast_core::Principal;

use super::{Http, empty, enter, refusal, stream};
use crate::{Identity, connection::Connection, outlet::Outlet, session::random_id};

/// Where clients post to.
pub(super) const MESSAGES: &str = "/messages";

/// The connections of such clients, by their ids.
#[derive(Default)]
pub(crate) struct Connections(Mutex<HashMap<String, Arc<Connection>>>);

impl Connections {
    fn map(&self) -> MutexGuard<'_, HashMap<String, Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of this id, if it is this principal's.
    fn get(&self, id: &str, principal: &Principal) -> Option<Arc<Connection>> {
        self.map().get(id).filter(|connection| connection.principal == *principal).cloned()
    }
}

/// Opens the stream.
pub(super) async fn open(State(http): State<Arc<Http>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let caller = match enter(&http, &parts.uri, &mut parts.headers).await {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let front = &http.front;
    if front.draining.is_cancelled() || http.connections.map().len() >= front.settings.max_sessions
    {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "there are too many connections; come back",
        );
    }
    let (outlet, messages) = Outlet::new();
    // There is one stream, and no other to take it up again.
    let outlet = outlet.unnumbered();
    let (id, principal) = (random_id(), caller.principal);
    let connection = Connection::new(front.clone(), principal, outlet.clone());
    http.connections.map().insert(id.clone(), connection);
    let (ending, over) = (http.clone(), id.clone());
    front.background.spawn(async move {
        tokio::select! {
            () = outlet.closed() => {}
            () = ending.front.draining.cancelled() => {}
        }
        let gone = ending.connections.map().remove(&over);
        if let Some(connection) = gone {
            connection.abandon().await;
        }
    });
    let endpoint = format!("event: endpoint\ndata: {MESSAGES}?sessionId={id}\n\n");
    let events = stream::Events::endless(messages, front.settings.keep_alive);
    stream::respond(events.begin_with(endpoint))
}

/// Takes a message. What there is to say to it goes out on the stream.
pub(super) async fn post(State(http): State<Arc<Http>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let caller = match enter(&http, &parts.uri, &mut parts.headers).await {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    match take(&http, &caller, &parts.uri, &parts.headers, body).await {
        Ok(()) => empty(StatusCode::ACCEPTED),
        Err((status, message)) => refusal(status, &message),
    }
}

async fn take(
    http: &Http,
    caller: &Identity,
    uri: &Uri,
    headers: &HeaderMap,
    body: Body,
) -> Result<(), (StatusCode, String)> {
    if !super::is_json(headers) {
        let message = "the Content-Type must be application/json";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, message.into()));
    }
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let id = pairs.find_map(|pair| pair.strip_prefix("sessionId="));
    let connection = id.and_then(|id| http.connections.get(id, &caller.principal));
    let gone = || (StatusCode::NOT_FOUND, "there is no such connection; open /sse again".into());
    let connection = connection.ok_or_else(gone)?;
    let limit = http.front.settings.max_body;
    let body = Limited::new(body, limit).collect().await.map_err(|_| {
        (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {limit} bytes"))
    })?;
    connection.take(caller, &body.to_bytes()).await;
    Ok(())
}
