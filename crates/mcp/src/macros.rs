//! What the code that `#[tool]`, `#[prompt]` and `#[resource]` write needs besides the builders.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use steadfast_engine::{Error, Result};

use crate::{Prompt, Resource, Template, Tool};

macro_rules! from_functions {
    ($($type:ident)*) => {$(
        /// A function that makes one stands for it, so that `#[tool] async fn order(..)` can be
        /// offered as `order`.
        impl<F: Fn() -> $type> From<F> for $type {
            fn from(make: F) -> $type {
                make()
            }
        }
    )*};
}

from_functions!(Tool Prompt Resource Template);

/// Whether values of this type are objects, by their schema: such a type can be the whole input of a
/// tool, and any other can only be a field of it. A macro sees names of types, not what they are, so
/// this is found out when a server is put together.
#[must_use]
pub fn is_object<T: JsonSchema>() -> bool {
    let schema = schemars::schema_for!(T).to_value();
    describes_object(&schema, &schema, 8)
}

/// `depth`: how many references and choices to follow, for they may go round in a circle.
fn describes_object(schema: &Value, root: &Value, depth: u8) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    if let Some(kind) = schema.get("type") {
        return kind == "object";
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let found = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.is_some_and(|schema| describes_object(schema, root, depth));
    }
    let choices = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    choices.is_some_and(|choices| {
        !choices.is_empty() && choices.iter().all(|one| describes_object(one, root, depth))
    })
}

/// The result of an author's function, whose error may be any that turns into ours.
pub fn result<T, E: Into<Error>>(result: Result<T, E>) -> Result<T> {
    result.map_err(Into::into)
}

/// A value that a template found in a URI, as what its parameter wants. It is a text; where the type
/// takes no text it is read as a number or a truth value.
pub fn value<T: DeserializeOwned>(values: &mut BTreeMap<String, String>, name: &str) -> Result<T> {
    let text = values.remove(name).unwrap_or_default();
    let scalar = serde_json::from_str(&text).ok().filter(|value: &Value| !value.is_string());
    let as_text = serde_json::from_value(Value::String(text));
    as_text.or_else(|error| scalar.map_or(Err(error), serde_json::from_value)).map_err(|error| {
        Error::new(format!("the value of {name:?} in the URI can't be read: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_an_object_by_its_schema() {
        #[derive(JsonSchema)]
        #[allow(dead_code)]
        struct Fields {
            name: String,
            next: Option<Box<Fields>>,
        }
        #[derive(JsonSchema)]
        #[allow(dead_code)]
        struct Wrapped(Fields);
        #[derive(JsonSchema)]
        #[serde(tag = "kind")]
        #[allow(dead_code)]
        enum Choice {
            One(Fields),
            Two { n: u32 },
        }
        #[derive(JsonSchema)]
        #[allow(dead_code)]
        enum Mixed {
            One(Fields),
            Two,
        }
        assert!(is_object::<Fields>());
        assert!(is_object::<Wrapped>());
        assert!(is_object::<Choice>());
        assert!(is_object::<BTreeMap<String, u32>>());
        assert!(!is_object::<Mixed>());
        assert!(!is_object::<Option<Fields>>());
        assert!(!is_object::<String>());
        assert!(!is_object::<Vec<Fields>>());
        assert!(!is_object::<Value>());
    }

    #[test]
    fn a_value_is_a_text_unless_its_type_takes_none() {
        let values = || BTreeMap::from([("n".to_owned(), "12".to_owned())]);
        assert_eq!(value::<String>(&mut values(), "n").unwrap(), "12");
        assert_eq!(value::<u64>(&mut values(), "n").unwrap(), 12);
        assert!(value::<bool>(&mut values(), "n").unwrap_err().to_string().contains("\"n\""));
    }
}
