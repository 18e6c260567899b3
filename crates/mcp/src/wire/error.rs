//! Errors of the protocol, apart from the errors that a tool returns.

use serde::Serialize;
use steadfast_core::Json;

/// Error codes.
pub(crate) mod code {
    pub(crate) const PARSE: i64 = -32700;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL: i64 = -32603;
    /// Up to 2025-11-25.
    pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// One sentence for people.
    pub message: String,
    /// More for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
    /// The HTTP status that it goes with.
    #[serde(skip)]
    pub(crate) status: u16,
}

impl RpcError {
    /// An error of any code, in an ordinary HTTP response.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None, status: 200 }
    }

    /// Adds something for programs.
    #[must_use]
    pub fn data(mut self, data: &impl Serialize) -> RpcError {
        self.data = Json::of(data).ok();
        self
    }

    pub(crate) fn status(mut self, status: u16) -> RpcError {
        self.status = status;
        self
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> RpcError {
        RpcError::new(code::INVALID_PARAMS, message)
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> RpcError {
        RpcError::new(code::INVALID_REQUEST, message).status(400)
    }

    /// The id or the key of another request. A response like any other: clients take a status of 400 for
    /// the end of their connection.
    pub(crate) fn taken(message: &str) -> RpcError {
        RpcError::new(code::INVALID_REQUEST, message)
    }

    /// Too much at a time: come back after a while.
    pub(crate) fn slow_down(message: &str, after: std::time::Duration) -> RpcError {
        let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX).max(1);
        let message = format!("{message}; try again in {after} ms");
        RpcError::invalid_request(message)
            .data(&serde_json::json!({ "retryAfterMs": after }))
            .status(429)
    }

    pub(crate) fn internal() -> RpcError {
        RpcError::new(code::INTERNAL, "internal error")
    }

    /// The server, or this revision, has no such method.
    pub(crate) fn no_method(method: &str) -> RpcError {
        let method: String = method.chars().take(100).collect();
        RpcError::new(code::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// The client must be able to do this, and has not said that it can.
    pub(crate) fn missing(capabilities: &serde_json::Value) -> RpcError {
        let data = serde_json::json!({ "requiredCapabilities": capabilities });
        RpcError::new(code::MISSING_CAPABILITY, "missing required client capability")
            .data(&data)
            .status(400)
    }

    pub(crate) fn missing_tasks() -> RpcError {
        RpcError::missing(&serde_json::json!({ "extensions": { super::TASKS: {} } }))
    }
}
