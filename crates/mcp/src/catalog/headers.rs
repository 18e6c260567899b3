//! Parameters of a tool that a client repeats as HTTP headers (`x-mcp-header`).

use serde_json::Value;

/// A parameter that comes as a header as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderParam {
    /// The whole name of the header, in lower case.
    pub(crate) header: String,
    /// Where the value is in the arguments.
    pub(crate) path: Vec<String>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Integer,
    Boolean,
}

const MARK: &str = "x-mcp-header";

/// Finds them all, or says which is not as the protocol wants it.
pub(crate) fn find(schema: &Value) -> Result<Vec<HeaderParam>, String> {
    let mut found = Vec::new();
    walk(schema, &mut Vec::new(), true, &mut found)?;
    for (n, param) in found.iter().enumerate() {
        if found[..n].iter().any(|other: &HeaderParam| other.header == param.header) {
            return Err(format!("the header {} is there twice", param.header));
        }
    }
    Ok(found)
}

/// `reachable`: by names of properties alone.
fn walk(
    schema: &Value,
    path: &mut Vec<String>,
    reachable: bool,
    found: &mut Vec<HeaderParam>,
) -> Result<(), String> {
    match schema {
        Value::Object(object) => {
            if let Some(name) = object.get(MARK) {
                found.push(param(name, object, path, reachable)?);
            }
            for (keyword, inner) in object {
                match (keyword.as_str(), inner) {
                    ("properties", Value::Object(properties)) => {
                        for (name, property) in properties {
                            path.push(name.clone());
                            walk(property, path, reachable, found)?;
                            path.pop();
                        }
                    }
                    ("default" | "const" | "enum" | "examples", _) => {}
                    _ => walk(inner, path, false, found)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(|item| walk(item, path, false, found)),
        _ => Ok(()),
    }
}

fn param(
    name: &Value,
    schema: &serde_json::Map<String, Value>,
    path: &[String],
    reachable: bool,
) -> Result<HeaderParam, String> {
    let at = path.join(".");
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let name = name
        .as_str()
        .filter(|name| !name.is_empty() && name.bytes().all(token))
        .ok_or_else(|| format!("{MARK} of {at:?} must be a name that a header can have"))?;
    if !reachable || path.is_empty() {
        return Err(format!(
            "{MARK} of {at:?} must be on a property of an object, not in a list, a choice or a reference"
        ));
    }
    let kind = match schema.get("type").and_then(Value::as_str) {
        Some("string") => Kind::Text,
        Some("integer") => Kind::Integer,
        Some("boolean") => Kind::Boolean,
        _ => return Err(format!("{MARK} is for texts, integers and booleans, and {at:?} is none")),
    };
    let header = format!("mcp-param-{}", name.to_ascii_lowercase());
    Ok(HeaderParam { header, path: path.to_vec(), kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn they_are_found_by_names_of_properties_alone() {
        let region = json!({ "type": "string", "x-mcp-header": "Region" });
        let schema = json!({ "type": "object", "properties": {
            "region": region, "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "other": { "type": "number" },
        } });
        let found = find(&schema).unwrap();
        assert_eq!(found.len(), 2);
        assert!(found.iter().any(|p| p.header == "mcp-param-n" && p.path == ["deep", "n"]));
        for wrong in [
            json!({ "type": "string", "x-mcp-header": "" }),
            json!({ "type": "string", "x-mcp-header": "a b" }),
            json!({ "type": "number", "x-mcp-header": "N" }),
            json!({ "type": "array", "items": region }),
            json!({ "oneOf": [region] }),
        ] {
            let schema = json!({ "type": "object", "properties": { "x": wrong } });
            assert!(find(&schema).is_err(), "{schema}");
        }
        let twice = json!({ "type": "string", "x-mcp-header": "REGION" });
        let schema = json!({ "type": "object", "properties": { "a": region, "b": twice } });
        assert!(find(&schema).is_err());
    }
}
