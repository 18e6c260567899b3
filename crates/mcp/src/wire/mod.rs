//! The words of the protocol: messages, errors, content, revisions.

mod content;
mod error;
mod message;
mod object;
mod revision;
mod time;

pub use content::{Annotations, CallResult, Content, Contents, Icon, Role};
pub use error::RpcError;
pub(crate) use error::code;
pub use message::Id;
pub(crate) use message::{BadMessage, Message, Received, parse};
pub(crate) use object::{Object, error_response, notification, request, response};
pub use revision::Revision;
pub(crate) use time::iso8601;

/// Keys in `_meta`.
pub(crate) mod meta {
    pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
    pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    pub(crate) const IMMEDIATE: &str = "io.modelcontextprotocol/model-immediate-response";
    pub(crate) const PROGRESS: &str = "progressToken";
    /// Ours: requests of a principal with the same one are the same.
    pub(crate) const KEY: &str = "dev.steadfast/idempotency-key";
}

/// The extension of 2026-07-28 that has tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
