//! Where two JSON values differ.

use serde_json::Value;
use steadfast_core::Json;

/// The first place where two values differ.
pub(super) struct Other {
    /// In words, without the values.
    pub(super) place: String,
    /// The values.
    pub(super) detail: String,
}

/// Compares values, not texts: the order of an object's members means nothing.
pub(super) fn values(first: &Json, second: &Json) -> Option<Other> {
    if first == second {
        return None;
    }
    let (Ok(a), Ok(b)) = (first.read::<Value>(), second.read::<Value>()) else {
        // Nested too deeply to be read: the texts must do.
        let detail = format!("{}, then {}", clipped(first.text()), clipped(second.text()));
        return Some(Other { place: "different somewhere".into(), detail });
    };
    let pointer = differ(&a, &b)?;
    let show = |value: &Value| match value.pointer(&pointer) {
        Some(value) => clipped(&value.to_string()),
        None => "nothing".into(),
    };
    let place = match pointer.as_str() {
        "" => "different as a whole".into(),
        pointer => format!("different at {}", clipped(pointer)),
    };
    Some(Other { place, detail: format!("{}, then {}", show(&a), show(&b)) })
}

/// A JSON pointer to the first difference.
fn differ(a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.find_map(|key| {
                let within = match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => differ(a, b)?,
                    _ => String::new(),
                };
                Some(format!("/{}{within}", key.replace('~', "~0").replace('/', "~1")))
            })
        }
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).find_map(|index| {
            let within = match (a.get(index), b.get(index)) {
                (Some(a), Some(b)) => differ(a, b)?,
                _ => String::new(),
            };
            Some(format!("/{index}{within}"))
        }),
        _ => (a != b).then(String::new),
    }
}

/// As much of a text as a message needs.
pub(super) fn clipped(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(a: &str, b: &str) -> Option<String> {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
        values(&json(a), &json(b)).map(|other| format!("{}: {}", other.place, other.detail))
    }

    #[test]
    fn the_first_difference_is_named_by_its_place() {
        assert_eq!(place(r#"{"a":1,"b":[2]}"#, r#"{ "b": [2], "a": 1 }"#), None);
        assert_eq!(place("1", "2").unwrap(), "different as a whole: 1, then 2");
        let nested = place(r#"{"a/b":[{"c":1}]}"#, r#"{"a/b":[{"c":"x"}]}"#).unwrap();
        assert_eq!(nested, "different at /a~1b/0/c: 1, then \"x\"");
        assert_eq!(place("[1]", "[1,2]").unwrap(), "different at /1: nothing, then 2");
        assert_eq!(place(r#"{"a":1}"#, "{}").unwrap(), "different at /a: 1, then nothing");
        let long = place(&format!("{:?}", "ä".repeat(500)), "1").unwrap();
        assert!(long.chars().count() < 250, "{long}");
    }
}
