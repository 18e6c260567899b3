//! What can go wrong before a handler's tools are served.

/// Why a handler could not be adapted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The handler did not take the connection.
    #[error("the rmcp handler did not start: {0}")]
    Start(String),
    /// The handler did not say what it offers.
    #[error("the rmcp handler did not list its {kind}: {reason}")]
    Listing {
        /// Of what.
        kind: &'static str,
        /// What the handler said.
        reason: String,
    },
    /// It offers no such tool.
    #[error("the rmcp handler has no tool named {0:?}, so it can't be made durable")]
    NoTool(String),
}
