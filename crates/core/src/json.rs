//! A payload: JSON text that is kept as it was written.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// A JSON value as text.
///
/// Kept raw, so that what a user stored comes back digit for digit (an integer never turns into a
/// float) and so that passing it through a history costs no parsing.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The JSON of a value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Json> {
        serde_json::value::to_raw_value(value).map(Json)
    }

    /// Takes text that must be one JSON value.
    pub fn parse(text: String) -> serde_json::Result<Json> {
        RawValue::from_string(text).map(Json)
    }

    /// `null`.
    #[must_use]
    pub fn null() -> Json {
        Json(RawValue::NULL.to_owned())
    }

    /// Reads it as a typed value.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.0.get())
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Json)
    }
}

/// Reads an optional field that is left out when absent: a `null` that is there is a value, so that
/// what was recorded comes back as it was.
pub(crate) fn present<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(reader).map(Some)
}
