//! What goes over the wire, for those who pass messages on: one request and all that comes back for it,
//! over however many connections that takes.

mod events;
mod exchange;
pub mod headers;
mod link;
pub mod sse;
mod try_again;

pub use events::Events;
pub use exchange::{Exchange, Outgoing};
pub use link::{Answer, Body, Link};
pub use try_again::{Attempt, Message, attempt};

use serde::{Deserialize, de::IgnoredAny};

/// Headers by name.
pub type Headers = Vec<(String, String)>;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It asks for a response.
    Request,
    /// It asks for nothing.
    Notification,
    /// The result of a request, or its error; with the id of the request.
    Response,
    /// An error that belongs to no request.
    Refusal,
    /// Several messages, as only 2025-03-26 has it.
    Batch,
}

/// What a message is, if it is one.
#[must_use]
pub fn kind(message: &str) -> Option<Kind> {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(default)]
        id: Option<IgnoredAny>,
        #[serde(default)]
        method: Option<IgnoredAny>,
        #[serde(default)]
        result: Option<IgnoredAny>,
        #[serde(default)]
        error: Option<IgnoredAny>,
    }
    if message.trim_start().starts_with('[') {
        return serde_json::from_str::<Vec<IgnoredAny>>(message).ok().map(|_| Kind::Batch);
    }
    let shape: Shape = serde_json::from_str(message).ok()?;
    match (shape.method, shape.id, shape.result.or(shape.error)) {
        (Some(_), Some(_), _) => Some(Kind::Request),
        (Some(_), None, _) => Some(Kind::Notification),
        (None, Some(_), Some(_)) => Some(Kind::Response),
        (None, None, Some(_)) => Some(Kind::Refusal),
        (None, _, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_by_its_fields() {
        for (message, expected) in [
            (r#"{"id":1,"method":"ping"}"#, Some(Kind::Request)),
            (r#"{"method":"x","params":{"id":1}}"#, Some(Kind::Notification)),
            (r#"{"id":"a","result":{}}"#, Some(Kind::Response)),
            (r#"{"id":0,"error":{"code":1}}"#, Some(Kind::Response)),
            (r#"{"id":null,"error":{"code":1}}"#, Some(Kind::Refusal)),
            (r#" [{"id":1,"method":"ping"}]"#, Some(Kind::Batch)),
            (r#"{"id":1}"#, None),
            ("[", None),
            ("7", None),
            ("", None),
        ] {
            assert_eq!(kind(message), expected, "{message}");
        }
    }
}
