//! Requests that come twice: how they are known.

use serde_json::Value;

use crate::{
    session::Session,
    wire::{Id, meta},
};

/// FNV-1a, which is the same in every build: it outlives the process. Whoever makes two things alike on
/// purpose deceives only itself.
pub(crate) fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What tells a request from another with the same id or key: its method and its parameters, but for what
/// may differ when it is made again. One with a key may be made as a task, and be waited for another time.
pub(crate) fn fingerprint(method: &str, params: &str) -> u64 {
    let mut params: Value = serde_json::from_str(params).unwrap_or_default();
    if let Some(fields) = params.as_object_mut() {
        let said = fields.remove("_meta");
        if said.is_some_and(|said| said.get(meta::KEY).is_some_and(Value::is_string)) {
            fields.remove("task");
        }
        for differs in ["inputResponses", "requestState"] {
            fields.remove(differs);
        }
    }
    // A map of serde_json is in order of its keys.
    digest(&format!("{method} {params}"))
}

/// A request as it came, for as long as it is at work.
pub(crate) struct RequestText {
    pub(crate) method: String,
    pub(crate) params: String,
}

impl RequestText {
    /// Whether it is the same request, made again. Only asked of two with one id, which is seldom.
    pub(crate) fn is_same(&self, other: &RequestText) -> bool {
        fingerprint(&self.method, &self.params) == fingerprint(&other.method, &other.params)
    }
}

/// By what the task of a request is found while its session's client waits for the answer. Ids can be
/// long.
pub(crate) fn request_key(session: &Session, id: &Id) -> String {
    let id = serde_json::to_string(id).unwrap_or_default();
    format!("request:{}:{:016x}", session.id, digest(&id))
}

/// The same for a request with an idempotency key.
pub(crate) fn idempotency_key(key: &str) -> String {
    format!("key:{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_stays_what_it_is() {
        assert_eq!(digest(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_request_is_known_by_what_it_asks_for() {
        let one = fingerprint("tools/call", r#"{"name":"a","arguments":{"x":1,"y":2}}"#);
        let same = r#"{"arguments":{"y":2,"x":1},"name":"a","_meta":{"progressToken":7}}"#;
        assert_eq!(fingerprint("tools/call", same), one);
        for other in [
            r#"{"name":"a","arguments":{"x":1,"y":3}}"#,
            r#"{"name":"a","arguments":{"x":1,"y":2.0}}"#,
            r#"{"name":"b","arguments":{"x":1,"y":2}}"#,
            r#"{"name":"a"}"#,
        ] {
            assert_ne!(fingerprint("tools/call", other), one, "{other}");
        }
        assert_ne!(fingerprint("prompts/get", same), one);
        let task = |meta: &str| {
            let rest = r#""task":{},"name":"a","arguments":{"x":1,"y":2}"#;
            fingerprint("tools/call", &format!("{{{rest}{meta}}}"))
        };
        assert_ne!(task(""), one);
        assert_eq!(task(r#","_meta":{"dev.steadfast/idempotency-key":"k"}"#), one);
    }
}
