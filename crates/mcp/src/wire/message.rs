//! JSON-RPC messages as they come in.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, value::RawValue};

/// The id of a request: kept as it came, so that it goes back digit for digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number, which the protocol wants whole.
    Number(Number),
    /// Any text.
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(number) => number.fmt(f),
            Id::Text(text) => text.fmt(f),
        }
    }
}

/// A message as it came in.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Request { id: Id, method: Cow<'a, str>, params: Option<&'a RawValue> },
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    Response { id: Id, outcome: Result<&'a RawValue, &'a RawValue> },
}

/// What a body or a line can hold.
#[derive(Debug)]
pub(crate) enum Received<'a> {
    One(Message<'a>),
    /// 2025-03-26 only.
    Batch(Vec<Result<Message<'a>, BadMessage>>),
}

/// Why something is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadMessage {
    /// It is not JSON.
    NotJson(String),
    /// It is JSON and not JSON-RPC. The id, if it could be read.
    NotRpc(Option<Id>, &'static str),
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A `null` that is there is not the same as a field that is missing.
fn present<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(reader).map(Some)
}

/// Reads what came in.
pub(crate) fn parse(body: &[u8]) -> Result<Received<'_>, BadMessage> {
    let text = std::str::from_utf8(body).map_err(|e| BadMessage::NotJson(e.to_string()))?;
    if text.trim_start().starts_with('[') {
        let parts: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|e| BadMessage::NotJson(e.to_string()))?;
        return Ok(Received::Batch(parts.into_iter().map(|part| one(part.get())).collect()));
    }
    one(text).map(Received::One)
}

fn one(text: &str) -> Result<Message<'_>, BadMessage> {
    let raw: Raw<'_> = serde_json::from_str(text).map_err(|error| {
        if error.is_data() {
            BadMessage::NotRpc(None, "a message is an object with jsonrpc, method and params")
        } else {
            BadMessage::NotJson(error.to_string())
        }
    })?;
    let id = match raw.id.map(RawValue::get) {
        None => None,
        Some(id) => match serde_json::from_str::<Id>(id) {
            Ok(Id::Number(number)) if number.is_f64() => {
                return Err(BadMessage::NotRpc(None, "an id is a text or a whole number"));
            }
            Ok(id) => Some(id),
            Err(_) => return Err(BadMessage::NotRpc(None, "an id is a text or a whole number")),
        },
    };
    if raw.jsonrpc.as_deref() != Some("2.0") {
        return Err(BadMessage::NotRpc(id, "jsonrpc must be \"2.0\""));
    }
    if raw.params.is_some_and(|params| !params.get().starts_with('{')) {
        return Err(BadMessage::NotRpc(id, "params must be an object"));
    }
    match (raw.method, id, raw.result, raw.error) {
        (Some(method), Some(id), None, None) => {
            Ok(Message::Request { id, method, params: raw.params })
        }
        (Some(method), None, None, None) => {
            Ok(Message::Notification { method, params: raw.params })
        }
        (None, Some(id), Some(result), None) => Ok(Message::Response { id, outcome: Ok(result) }),
        (None, Some(id), None, Some(error)) => Ok(Message::Response { id, outcome: Err(error) }),
        (_, id, ..) => Err(BadMessage::NotRpc(
            id,
            "a message has a method, or an id with a result or an error",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Message<'_>, BadMessage> {
        match parse(text.as_bytes())? {
            Received::One(message) => Ok(message),
            Received::Batch(_) => panic!("a batch"),
        }
    }

    #[test]
    fn the_three_kinds() {
        let request = r#"{"jsonrpc":"2.0","id":12345678901234567890,"method":"m","params":{}}"#;
        let Ok(Message::Request { id, method, params }) = read(request) else { panic!() };
        assert_eq!(serde_json::to_string(&id).unwrap(), "12345678901234567890");
        assert_eq!((method.as_ref(), params.map(RawValue::get)), ("m", Some("{}")));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","method":"m"}"#),
            Ok(Message::Notification { params: None, .. })
        ));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","id":"a/b","result":null}"#),
            Ok(Message::Response { outcome: Ok(_), .. })
        ));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":""}}"#),
            Ok(Message::Response { outcome: Err(_), .. })
        ));
    }

    #[test]
    fn what_is_no_message_says_why() {
        for text in ["", "{", "nonsense", "[1", "\u{feff}{}"] {
            assert!(matches!(parse(text.as_bytes()), Err(BadMessage::NotJson(_))), "{text}");
        }
        for text in [
            "1",
            "{}",
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
        ] {
            assert!(matches!(parse(text.as_bytes()), Err(BadMessage::NotRpc(..))), "{text}");
        }
        assert!(matches!(parse(b"\xff"), Err(BadMessage::NotJson(_))));
    }
}
