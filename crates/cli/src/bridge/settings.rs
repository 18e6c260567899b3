//! What the client has set for its session, so that a new one can be given the same.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// What was granted.
#[derive(Default)]
pub(super) struct Settings {
    /// The resources that it watches.
    watched: BTreeSet<String>,
    /// The least that it wants to hear of the log.
    level: Option<Value>,
}

impl Settings {
    /// Notes what a request has set, if it is one of those that do.
    pub(super) fn note(&mut self, request: &Value) {
        let params = &request["params"];
        let uri = || params["uri"].as_str().map(str::to_owned);
        match request["method"].as_str() {
            Some("resources/subscribe") => self.watched.extend(uri()),
            Some("resources/unsubscribe") => {
                self.watched.retain(|watched| Some(watched) != uri().as_ref());
            }
            Some("logging/setLevel") => self.level = Some(params["level"].clone()),
            _ => {}
        }
    }

    /// The requests that set the same again.
    pub(super) fn requests(&self) -> Vec<Value> {
        let watch = |uri| ("resources/subscribe", json!({ "uri": uri }));
        let level = self.level.iter().map(|level| ("logging/setLevel", json!({ "level": level })));
        let all = level.chain(self.watched.iter().map(watch)).enumerate();
        let request = |(n, (method, params))| {
            // The client never hears of the answer.
            json!({ "jsonrpc": "2.0", "id": format!("again:{n}"), "method": method,
                    "params": params })
        };
        all.map(request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(method: &str, params: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
    }

    #[test]
    fn what_was_set_last_is_set_again_and_nothing_else() {
        let mut settings = Settings::default();
        assert!(settings.requests().is_empty());
        for (method, params) in [
            ("resources/subscribe", json!({ "uri": "a:1" })),
            ("resources/subscribe", json!({ "uri": "a:2" })),
            ("resources/subscribe", json!({ "uri": "a:2" })),
            ("resources/unsubscribe", json!({ "uri": "a:1" })),
            ("logging/setLevel", json!({ "level": "debug" })),
            ("logging/setLevel", json!({ "level": "error" })),
            ("tools/call", json!({ "uri": "a:3" })),
        ] {
            settings.note(&said(method, params));
        }
        let set: Vec<(Value, Value)> = settings
            .requests()
            .iter()
            .map(|one| (one["method"].clone(), one["params"].clone()))
            .collect();
        assert_eq!(
            set,
            [
                (json!("logging/setLevel"), json!({ "level": "error" })),
                (json!("resources/subscribe"), json!({ "uri": "a:2" })),
            ]
        );
    }
}
