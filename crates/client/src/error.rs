//! What can go wrong.

use serde::Deserialize;
use serde_json::Value;

use crate::wire::Body;

/// Why something came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server can't be reached: nothing was done.
    #[error("{url} can't be reached: {reason}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What the system says.
        reason: String,
    },
    /// The connection broke, and it is not known how far the request came.
    #[error(
        "the connection to {url} broke, and it is not known how far the request came: {reason}"
    )]
    Broken {
        /// Where it led.
        url: String,
        /// What the system says.
        reason: String,
    },
    /// The server refused the request before it looked at what it asks for.
    #[error("HTTP status {status}: {message}")]
    Status {
        /// The status of the response.
        status: u16,
        /// What the server says.
        message: String,
    },
    /// The server answered with an error.
    #[error("{0}")]
    Rpc(#[from] RpcError),
    /// The task was cancelled.
    #[error("the task was cancelled{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Cancelled(Option<String>),
    /// The server does not keep to the protocol, or not as far as this client knows it.
    #[error("the server's answer can't be understood: {0}")]
    Protocol(String),
    /// It can't be done so.
    #[error("{0}")]
    Setup(String),
}

/// An error of JSON-RPC.
#[derive(Clone, Debug, PartialEq, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// A sentence for people.
    #[serde(default)]
    pub message: String,
    /// More for programs.
    #[serde(default)]
    pub data: Option<Value>,
}

impl Error {
    pub(crate) fn broken(url: &str, error: &reqwest::Error) -> Error {
        Error::Broken { url: url.to_owned(), reason: reason(error) }
    }

    /// What a response says that is none to a request.
    pub(crate) fn refused(status: u16, body: &Body) -> Error {
        let text = match body {
            Body::Text(text) => text.as_str(),
            Body::Events(_) => "",
        };
        let said: Option<Value> = serde_json::from_str(text).ok();
        let said = said.as_ref().and_then(|said| said["error"]["message"].as_str());
        let message = said.unwrap_or(text).chars().take(500).collect();
        Error::Status { status, message }
    }

    /// Whether the server was not there, so that a later attempt may succeed.
    #[must_use]
    pub fn is_connection(&self) -> bool {
        matches!(self, Error::Unreachable { .. } | Error::Broken { .. })
    }
}

/// An error with what is behind it: the outermost says nothing that helps.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut source = std::error::Error::source(error);
    let mut innermost = None;
    while let Some(error) = source {
        innermost = Some(error.to_string());
        source = error.source();
    }
    innermost.unwrap_or_else(|| error.to_string())
}
