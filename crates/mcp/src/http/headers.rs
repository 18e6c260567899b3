//! The headers of 2026-07-28 that repeat what is in the body.

use std::borrow::Cow;

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::text;
use crate::{
    catalog::{HeaderKind, HeaderParam},
    front::Front,
    wire::{RpcError, code},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    task_id: Option<Cow<'a, str>>,
    /// Looked into only if the tool has such headers.
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

fn mismatch(message: String) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, format!("header mismatch: {message}")).status(400)
}

/// Checks that they are there and agree with the body.
pub(super) fn check(
    front: &Front,
    headers: &HeaderMap,
    method: &str,
    params: &str,
) -> Result<(), RpcError> {
    match text(headers, "mcp-method") {
        None => return Err(mismatch("Mcp-Method is missing".into())),
        Some(given) if given != method => {
            return Err(mismatch(format!("Mcp-Method is {given:?}, the body's method {method:?}")));
        }
        Some(_) => {}
    }
    let named = matches!(method, "tools/call" | "prompts/get" | "resources/read");
    if !named && !method.starts_with("tasks/") {
        return Ok(());
    }
    // Parameters of a wrong shape get the method's own error.
    let Ok(names) = serde_json::from_str::<Names<'_>>(params) else { return Ok(()) };
    let (name, needed) = match method {
        "tools/call" | "prompts/get" => (names.name.as_deref(), true),
        "resources/read" => (names.uri.as_deref(), true),
        // Some clients leave it out on these.
        _ => (names.task_id.as_deref(), false),
    };
    match headers.get("mcp-name") {
        None if needed => return Err(mismatch("Mcp-Name is missing".into())),
        None => {}
        Some(given) => {
            let given = given.to_str().ok().and_then(decode);
            if given.is_none() || given.as_deref() != name {
                return Err(mismatch("Mcp-Name is not what the body says".into()));
            }
        }
    }
    if method == "tools/call" {
        let offer = front.catalog.offer();
        let tool = names.name.as_deref().and_then(|name| offer.tools.get(name));
        let params = tool.map_or(&[][..], |tool| &tool.headers);
        if !params.is_empty() {
            let arguments: Option<Value> =
                names.arguments.and_then(|raw| serde_json::from_str(raw.get()).ok());
            for param in params {
                check_param(headers, param, arguments.as_ref())?;
            }
        }
    }
    Ok(())
}

/// A value in a header, which is in base64 if it could not be written as it is.
fn decode(value: &str) -> Option<String> {
    if value.bytes().any(|byte| !(byte == b'\t' || (0x20..0x7f).contains(&byte))) {
        return None;
    }
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(BASE64.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn check_param(
    headers: &HeaderMap,
    param: &HeaderParam,
    arguments: Option<&Value>,
) -> Result<(), RpcError> {
    let value = arguments
        .and_then(|all| param.path.iter().try_fold(all, |value, name| value.get(name)))
        .filter(|value| !value.is_null());
    compare(headers, param, value)
}

fn compare(
    headers: &HeaderMap,
    param: &HeaderParam,
    value: Option<&Value>,
) -> Result<(), RpcError> {
    let name = &param.header;
    let given = match headers.get(name.as_str()) {
        None if value.is_none() => return Ok(()),
        None => return Err(mismatch(format!("{name} is missing"))),
        Some(given) => given,
    };
    let Some(given) = given.to_str().ok().and_then(decode) else {
        return Err(mismatch(format!("{name} has characters that it may not have")));
    };
    let same = match (value, param.kind) {
        (Some(Value::String(value)), HeaderKind::Text) => *value == given,
        (Some(Value::Bool(value)), HeaderKind::Boolean) => value.to_string() == given,
        (Some(Value::Number(value)), HeaderKind::Integer) => {
            value.to_string() == given
                || value.as_f64().is_some_and(|value| given.parse::<f64>() == Ok(value))
        }
        // A value of a wrong type gets the schema's own error.
        (Some(_), _) => true,
        (None, _) => false,
    };
    match same {
        true => Ok(()),
        false => Err(mismatch(format!("{name} is not what the body says"))),
    }
}
