//! Streamable HTTP, of every revision that has it.

mod auth;
mod batch;
mod get;
mod guard;
mod headers;
mod post;
mod resume;
mod said;
mod serve;
mod sse;
mod stream;

use std::sync::Arc;

pub use auth::{Auth, Bearer};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::Response,
    routing::{any, get as get_route, post as post_route},
};
pub(crate) use said::hear;
pub(crate) use serve::serve;
pub(crate) use sse::Connections;
use steadfast_core::Principal;

use crate::{
    Identity,
    front::Front,
    session::Session,
    wire::{RpcError, code, error_response},
};

/// What every request over HTTP needs.
pub(crate) struct Http {
    pub(crate) front: Arc<Front>,
    pub(crate) auth: Auth,
    /// Of clients of 2024-11-05.
    pub(crate) connections: Connections,
}

/// The endpoint at `path`, with `/health` and `/ready` beside it.
pub(crate) fn router(http: Arc<Http>, path: &str) -> Router {
    let mut router = Router::new()
        .route(path, any(endpoint))
        .route("/health", get_route(|| async { "ok\n" }))
        .route("/ready", get_route(ready));
    if http.front.settings.sse {
        router =
            router.route("/sse", get_route(sse::open)).route(sse::MESSAGES, post_route(sse::post));
    }
    router.with_state(http)
}

async fn ready(State(http): State<Arc<Http>>) -> (StatusCode, &'static str) {
    if http.front.draining.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n");
    }
    match http.front.engine.check().await {
        Ok(()) => (StatusCode::OK, "ok\n"),
        Err(error) => {
            // What it says of the database is not for whoever asks.
            tracing::warn!(%error, "not ready: the store is not available");
            (StatusCode::SERVICE_UNAVAILABLE, "the store is not available\n")
        }
    }
}

async fn endpoint(State(http): State<Arc<Http>>, request: Request) -> Response {
    // Before anything is waited for: an author's check of who comes in, the body, the store.
    let asked = http.front.pulse.asked();
    let (mut parts, body) = request.into_parts();
    let caller = match enter(&http, &parts.uri, &mut parts.headers).await {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let headers = &parts.headers;
    match parts.method {
        Method::POST => post::post(&http.front, caller, headers, body, asked).await,
        Method::GET => get::get(&http.front, &caller.principal, headers).await,
        Method::DELETE => delete(&http.front, &caller.principal, headers).await,
        _ => {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE");
            refused
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
            refused
        }
    }
}

/// Who comes in, if it may.
async fn enter(http: &Http, uri: &Uri, headers: &mut HeaderMap) -> Result<Identity, Box<Response>> {
    guard::check(&http.front.settings, uri, headers)?;
    http.auth.identify(&http.front, headers).await.map_err(Box::new)
}

/// Whether a body says that it is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// The header that names a session, up to 2025-11-25.
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The session of this id, if it is the principal's and not over.
async fn session(
    front: &Arc<Front>,
    id: &str,
    principal: &Principal,
) -> Result<Arc<Session>, Box<Response>> {
    match front.sessions.get(id, principal).await {
        Ok(Some(session)) => {
            front.follow_again(&session);
            Ok(session)
        }
        Ok(None) => Err(Box::new(refusal(
            StatusCode::NOT_FOUND,
            "there is no such session; begin a new one",
        ))),
        Err(error) => Err(Box::new(no_store(&error))),
    }
}

/// What is said when sessions can't be read or written.
fn no_store(error: &steadfast_store::Error) -> Response {
    tracing::error!(%error, "sessions can't be read or written");
    busy("the store can't be reached; try again")
}

fn busy(message: &str) -> Response {
    let mut refused = refusal(StatusCode::SERVICE_UNAVAILABLE, message);
    refused.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    refused
}

async fn delete(front: &Arc<Front>, principal: &Principal, headers: &HeaderMap) -> Response {
    let Some(id) = text(headers, SESSION) else {
        return refusal(StatusCode::BAD_REQUEST, "the header Mcp-Session-Id is missing");
    };
    let session = match session(front, id, principal).await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    match front.sessions.end(&session.id).await {
        Ok(()) => empty(StatusCode::NO_CONTENT),
        Err(error) => no_store(&error),
    }
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

fn json(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A refusal that belongs to no request.
fn refusal(status: StatusCode, message: &str) -> Response {
    json(status, error_response(None, &RpcError::new(code::INVALID_REQUEST, message)))
}
