//! The headers of 2026-07-28 that repeat what is in the body.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;

use super::Headers;

/// The code of the error when they are not as they should be.
pub const MISMATCH: i64 = -32020;

/// A parameter of a tool that is repeated as a header (`x-mcp-header`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    header: String,
    /// Where the value is in the arguments.
    path: Vec<String>,
}

impl Param {
    /// Those that a tool's input schema marks.
    #[must_use]
    pub fn find(schema: &Value) -> Vec<Param> {
        let mut found = Vec::new();
        walk(schema, &mut Vec::new(), &mut found);
        found
    }

    /// The header, if there is a value for it.
    fn header(&self, arguments: &Value) -> Option<(String, String)> {
        let value = self.path.iter().try_fold(arguments, |value, name| value.get(name))?;
        let text = match value {
            Value::String(text) => encode(text),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return None,
        };
        Some((self.header.clone(), text))
    }
}

fn walk(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Param>) {
    if let (Some(name), false) = (schema["x-mcp-header"].as_str(), path.is_empty()) {
        found.push(Param { header: format!("Mcp-Param-{name}"), path: path.clone() });
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        walk(property, path, found);
        path.pop();
    }
}

/// The headers of a request of 2026-07-28. `marked` are the parameters that the called tool marks.
#[must_use]
pub fn stateless(version: &str, method: &str, params: &Value, marked: &[Param]) -> Headers {
    let mut headers = vec![
        ("MCP-Protocol-Version".to_owned(), version.to_owned()),
        ("Mcp-Method".to_owned(), encode(method)),
    ];
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ if method.starts_with("tasks/") => params["taskId"].as_str(),
        _ => None,
    };
    headers.extend(name.map(|name| ("Mcp-Name".to_owned(), encode(name))));
    headers.extend(marked.iter().filter_map(|param| param.header(&params["arguments"])));
    headers
}

/// The headers of a request of a session.
#[must_use]
pub fn of_session(version: &str, session: Option<&str>) -> Headers {
    let mut headers = vec![("MCP-Protocol-Version".to_owned(), version.to_owned())];
    headers.extend(session.map(|session| ("Mcp-Session-Id".to_owned(), session.to_owned())));
    headers
}

/// As it is if a header can have it so, else in base64.
fn encode(value: &str) -> String {
    let plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && value.trim() == value
        && !value.is_empty()
        && !value.starts_with("=?base64?");
    match plain {
        true => value.to_owned(),
        false => format!("=?base64?{}?=", BASE64.encode(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn they_repeat_the_name_and_the_marked_parameters() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "dry": { "type": "boolean", "x-mcp-header": "Dry" },
            "other": { "type": "string" },
        } });
        let marked = Param::find(&schema);
        assert_eq!(marked.len(), 3);
        let params = json!({ "name": "t", "arguments": {
            "region": "Zürich", "deep": { "n": 3 }, "dry": null, "other": "x",
        } });
        let headers = stateless("2026-07-28", "tools/call", &params, &marked);
        let value = |name: &str| {
            headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(value("Mcp-Method"), Some("tools/call"));
        assert_eq!(value("Mcp-Name"), Some("t"));
        assert_eq!(value("Mcp-Param-Region"), Some("=?base64?WsO8cmljaA==?="));
        assert_eq!(value("Mcp-Param-N"), Some("3"));
        assert_eq!(value("Mcp-Param-Dry"), None);
    }

    #[test]
    fn what_no_header_can_have_is_in_base64() {
        for plain in ["a", "a b", "file:///x?y=1"] {
            assert_eq!(encode(plain), plain);
        }
        for other in [" a", "a\n", "ü", "", "=?base64?YQ==?="] {
            assert!(encode(other).starts_with("=?base64?"), "{other:?}");
        }
    }
}
