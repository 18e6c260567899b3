//! Bytes as they stand in a line of JSON.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

/// Bytes that only the engine or the front can read. In a file they are `{"json":...}`, byte by byte as they
/// are, if they are JSON that fits on a line, and `{"base64":"..."}` otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form<J> {
    Json(J),
    Base64(String),
}

/// The bytes, if they come back the same as a part of a line.
fn as_json(bytes: &[u8]) -> Option<&RawValue> {
    if bytes.contains(&b'\n') || bytes.contains(&b'\r') {
        return None;
    }
    let raw: &RawValue = serde_json::from_slice(bytes).ok()?;
    // Space around it would be lost.
    (raw.get().len() == bytes.len()).then_some(raw)
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match as_json(&self.0) {
            Some(raw) => Form::Json(raw).serialize(serializer),
            None => Form::<&RawValue>::Base64(STANDARD.encode(&self.0)).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Body, D::Error> {
        Ok(Body(match Form::<Box<RawValue>>::deserialize(deserializer)? {
            Form::Json(raw) => String::from(Box::<str>::from(raw)).into_bytes(),
            Form::Base64(text) => STANDARD.decode(text).map_err(D::Error::custom)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [
            b"".as_slice(),
            b"{}",
            b" {} ",
            b"{ \"a\" :\t1.50, \"a\": 1e999 }",
            b"{\n}",
            b"\"\\ud800\"",
            b"\"a\x01\"",
            b"{\"json\":{}}",
            b"{\"base64\":\"e30=\"}",
            b"null",
            b"12345678901234567890123456789.0",
            "\"\u{2028}\u{e4}\"".as_bytes(),
            b"[1,",
            b"{} {}",
            &all,
            &[0xff, 0xfe],
            &[b'['; 300].iter().chain(&[b']'; 300]).copied().collect::<Vec<_>>(),
        ] {
            let line = serde_json::to_vec(&Body(bytes.to_vec())).unwrap();
            assert!(!line.contains(&b'\n'));
            let back: Body = serde_json::from_slice(&line).unwrap();
            assert_eq!(back.0, bytes, "{}", String::from_utf8_lossy(&line));
        }
    }

    #[test]
    fn json_can_be_read_in_the_file() {
        let line = serde_json::to_string(&Body(b"{\"n\": 1}".to_vec())).unwrap();
        assert_eq!(line, "{\"json\":{\"n\": 1}}");
        let line = serde_json::to_string(&Body(b"view".to_vec())).unwrap();
        assert_eq!(line, "{\"base64\":\"dmlldw==\"}");
    }
}
