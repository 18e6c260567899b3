//! The form of a question.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use steadfast_core::Json;
use steadfast_engine::{Error, Result};

/// The form for a type: a flat object of what the protocol lets a client show.
pub(super) fn form<T: JsonSchema>() -> Result<Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let unfit = |why: &str| {
        let name = T::schema_name();
        Error::new(format!(
            "{name} can't be asked for: {why}. Use a struct whose fields are texts, numbers, \
             booleans, enums without fields, or lists of such enums, or give a schema of your own"
        ))
        .permanent()
    };
    if schema.get("type").is_none_or(|kind| kind != "object") {
        return Err(unfit("it is no struct"));
    }
    let mut fields = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).cloned();
    for (name, field) in properties.unwrap_or_default() {
        match clean(&field) {
            Some(field) => fields.insert(name, field),
            None => return Err(unfit(&format!("the field {name:?} is no simple value"))),
        };
    }
    let mut form = json!({ "type": "object", "properties": fields });
    if let (Some(required), Some(form)) = (schema.get("required"), form.as_object_mut()) {
        form.insert("required".into(), required.clone());
    }
    Ok(form)
}

/// A field as the protocol has it, or nothing if it has no such fields.
fn clean(field: &Value) -> Option<Value> {
    let field = field.as_object()?;
    let mut out = Map::new();
    for name in ["title", "description", "default"] {
        if let Some(value) = field.get(name).filter(|value| !value.is_null()) {
            out.insert(name.into(), value.clone());
        }
    }
    if let Some(choices) = choices(field) {
        out.insert("type".into(), "string".into());
        out.extend(choices);
        return Some(Value::Object(out));
    }
    let kind = kind(field)?;
    let kept: &[&str] = match kind {
        "string" => &["minLength", "maxLength", "pattern"],
        "integer" | "number" => &["minimum", "maximum"],
        "array" => &["minItems", "maxItems"],
        "boolean" => &[],
        _ => return None,
    };
    for name in kept {
        if let Some(value) = field.get(*name) {
            out.insert((*name).into(), value.clone());
        }
    }
    if let Some(format) = field.get("format").and_then(Value::as_str)
        && matches!(format, "email" | "uri" | "date" | "date-time")
    {
        out.insert("format".into(), format.into());
    }
    if kind == "array" {
        let mut items = Map::new();
        let of = choices(field.get("items")?.as_object()?)?;
        match of.get("oneOf") {
            Some(titled) => items.insert("anyOf".into(), titled.clone()),
            None => {
                items.insert("type".into(), "string".into());
                items.insert("enum".into(), of.get("enum")?.clone())
            }
        };
        out.insert("items".into(), Value::Object(items));
    }
    out.insert("type".into(), kind.into());
    Some(Value::Object(out))
}

/// The type of a field, where an optional one is of its own type or null.
fn kind(field: &Map<String, Value>) -> Option<&str> {
    match field.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut named = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            named.next().filter(|_| named.next().is_none())
        }
        _ => None,
    }
}

/// What an enum lets choose from: plain names, or names with a title each.
fn choices(field: &Map<String, Value>) -> Option<Map<String, Value>> {
    if let Some(names) = field.get("enum").and_then(Value::as_array) {
        let names: Vec<Value> = names.iter().filter(|name| name.is_string()).cloned().collect();
        return (!names.is_empty())
            .then(|| [("enum".to_owned(), names.into())].into_iter().collect());
    }
    // An optional enum is one of the enum and null.
    if let Some(either) = field.get("anyOf").and_then(Value::as_array) {
        let mut found = either.iter().filter_map(|part| choices(part.as_object()?));
        return found.next().filter(|_| found.next().is_none());
    }
    let mut titled = Vec::new();
    for choice in field.get("oneOf")?.as_array()? {
        let title = choice.get("title").or_else(|| choice.get("description"));
        let names = match (choice.get("const"), choice.get("enum").and_then(Value::as_array)) {
            (Some(name), _) => vec![name.clone()],
            (None, Some(names)) => names.clone(),
            (None, None) => return None,
        };
        for name in names {
            let name = name.as_str()?.to_owned();
            let title = title.and_then(Value::as_str).unwrap_or(&name).to_owned();
            titled.push(json!({ "const": name, "title": title }));
        }
    }
    Some([("oneOf".to_owned(), titled.into())].into_iter().collect())
}

/// Reads an answer, or says in a sentence what is wrong with it.
pub(super) fn read<T: DeserializeOwned>(
    form: &Value,
    content: Option<&Json>,
) -> std::result::Result<T, String> {
    let empty = || Value::Object(Map::new());
    let content: Value = content.and_then(|json| json.read().ok()).unwrap_or_else(empty);
    crate::catalog::check(form, &content)?;
    serde_json::from_value(content).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Colour {
        Red,
        Green,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    enum Speed {
        /// As fast as it goes
        Fast,
        /// With care
        Slow,
    }

    fn five() -> u32 {
        5
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Order {
        /// What to call it
        name: String,
        #[serde(default = "five")]
        count: u32,
        note: Option<String>,
        colour: Colour,
        speed: Option<Speed>,
        also: Vec<Colour>,
        price: f64,
        gift: bool,
    }

    #[test]
    fn a_struct_becomes_a_flat_form() {
        let form = form::<Order>().unwrap();
        let field = |name: &str| form["properties"][name].clone();
        assert_eq!(field("name"), json!({ "type": "string", "description": "What to call it" }));
        assert_eq!(
            field("count"),
            json!({ "type": "integer", "minimum": 0, "default": 5, "maximum": 4294967295u32 })
                .as_object()
                .map(|o| {
                    let mut o = o.clone();
                    if field("count").get("maximum").is_none() {
                        o.remove("maximum");
                    }
                    Value::Object(o)
                })
                .unwrap()
        );
        assert_eq!(field("note"), json!({ "type": "string" }));
        assert_eq!(field("colour"), json!({ "type": "string", "enum": ["red", "green"] }));
        let speeds = json!([
            { "const": "Fast", "title": "As fast as it goes" },
            { "const": "Slow", "title": "With care" },
        ]);
        assert_eq!(field("speed"), json!({ "type": "string", "oneOf": speeds }));
        let colours = json!({ "type": "string", "enum": ["red", "green"] });
        assert_eq!(field("also"), json!({ "type": "array", "items": colours }));
        assert_eq!(field("price"), json!({ "type": "number" }));
        assert_eq!(field("gift"), json!({ "type": "boolean" }));
        let required: Vec<&str> =
            form["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(required, ["name", "colour", "also", "price", "gift"]);
    }

    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Nested {
        order: Order,
    }

    #[test]
    fn what_a_client_cannot_show_is_an_error_that_names_it() {
        let error = form::<Nested>().unwrap_err().to_string();
        assert!(error.contains("\"order\""), "{error}");
        let error = form::<bool>().unwrap_err().to_string();
        assert!(error.contains("struct"), "{error}");
    }
}
