//! The arguments of a call, from the words of a command.

use serde_json::{Map, Value};

use crate::Result;

/// `name=value`, or `name:=JSON`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) value: Given,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    /// What it stands for depends on what is wanted.
    Text(String),
    Json(Value),
}

impl std::str::FromStr for Argument {
    type Err = String;

    fn from_str(words: &str) -> std::result::Result<Argument, String> {
        let (name, value) =
            words.split_once('=').ok_or("it must be name=value, or name:=JSON".to_owned())?;
        let (name, value) = match name.strip_suffix(':') {
            Some(name) => {
                let value = serde_json::from_str(value)
                    .map_err(|error| format!("the value of {name:?} is not JSON: {error}"))?;
                (name, Given::Json(value))
            }
            None => (name, Given::Text(value.to_owned())),
        };
        match name.is_empty() {
            true => Err("there is no name before the =".into()),
            false => Ok(Argument { name: name.to_owned(), value }),
        }
    }
}

/// All arguments of a call: an object as JSON, and on top of it one by one, as the tool's schema wants
/// them.
pub(crate) fn object(json: Option<&str>, given: &[Argument], schema: &Value) -> Result<Value> {
    let mut all = match json.map(serde_json::from_str).transpose() {
        Ok(None) => Map::new(),
        Ok(Some(Value::Object(object))) => object,
        Ok(Some(_)) => return Err("the value of --json must be an object".into()),
        Err(error) => return Err(format!("the value of --json is not JSON: {error}").into()),
    };
    for argument in given {
        let value = match &argument.value {
            Given::Json(value) => value.clone(),
            Given::Text(text) => as_wanted(text, &schema["properties"][&argument.name])
                .map_err(|kind| format!("--arg {}: {text:?} is no {kind}", argument.name))?,
        };
        all.insert(argument.name.clone(), value);
    }
    Ok(Value::Object(all))
}

/// A text as the type that a schema wants; the name of the type if it can't be.
fn as_wanted(text: &str, schema: &Value) -> std::result::Result<Value, String> {
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let read: Option<Value> = serde_json::from_str(text).ok();
    let fits = |kind: &str| match (kind, &read) {
        ("string", _) => Some(Value::from(text)),
        ("integer", Some(Value::Number(n))) if !n.is_f64() => read.clone(),
        ("number", Some(Value::Number(_)))
        | ("boolean", Some(Value::Bool(_)))
        | ("null", Some(Value::Null))
        | ("array", Some(Value::Array(_)))
        | ("object", Some(Value::Object(_))) => read.clone(),
        _ => None,
    };
    // A text last: everything is one.
    let others = kinds.iter().filter(|kind| **kind != "string");
    match others.chain(kinds.iter()).find_map(|kind| fits(kind)) {
        Some(value) => Ok(value),
        None if kinds.is_empty() => Ok(read.unwrap_or_else(|| text.into())),
        None => Err(kinds.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(words: &[&str], schema: &Value) -> Result<Value> {
        let given: Vec<Argument> = words.iter().map(|word| word.parse().unwrap()).collect();
        object(Some(r#"{"kept": 1, "n": 0}"#), &given, schema)
    }

    #[test]
    fn each_becomes_what_the_schema_wants() {
        let schema = json!({ "properties": {
            "n": { "type": "integer" }, "zip": { "type": "string" }, "yes": { "type": "boolean" },
            "list": { "type": "array" }, "maybe": { "type": ["number", "null"] },
        } });
        let words =
            ["n=7", "zip=0800", "yes=true", "list=[1]", "maybe=null", "other=x=y", "raw:={}"];
        let expected = json!({ "kept": 1, "n": 7, "zip": "0800", "yes": true, "list": [1],
                               "maybe": null, "other": "x=y", "raw": {} });
        assert_eq!(of(&words, &schema).unwrap(), expected);
        for wrong in ["n=1.5", "n=seven", "yes=1", "list=x"] {
            assert!(of(&[wrong], &schema).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_an_argument_says_why() {
        for wrong in ["name", "=x", "a:=x", ":=1"] {
            assert!(wrong.parse::<Argument>().is_err(), "{wrong}");
        }
    }
}
