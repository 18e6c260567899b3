//! HTTP with server-sent events, as clients of 2024-11-05 know it.

use serde_json::{Value, json};
use steadfast_mcp::Settings;

use crate::{
    http::{Events, send_to},
    site::{JSON, Site},
    tools::{Count, server},
};

struct Old {
    events: Events,
    path: String,
}

impl Old {
    async fn open(site: &Site) -> Old {
        let response =
            send_to(site.address, "GET", "/sse", &[("Accept", "text/event-stream")], "").await;
        assert_eq!(response.status, 200);
        let mut events = response.events();
        let path = events.raw().await.unwrap();
        let path = path.strip_prefix("event: endpoint\ndata: ").unwrap().to_owned();
        Old { events, path }
    }

    async fn say(&self, site: &Site, message: Value) -> u16 {
        let message = message.to_string();
        self.events.talk().client_says(&message);
        send_to(site.address, "POST", &self.path, &[JSON], &message).await.status
    }

    async fn ask(&mut self, site: &Site, id: u64, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        assert_eq!(self.say(site, message).await, 202);
        let reply = self.events.next().await.unwrap();
        assert_eq!(reply["id"], id, "{reply}");
        reply
    }
}

async fn site() -> Site {
    let settings = Settings { sse: true, ..Settings::default() };
    Site::start(server(&Count::default()).settings(settings)).await
}

#[tokio::test]
async fn it_is_off_unless_it_is_switched_on() {
    let site = Site::start(server(&Count::default())).await;
    assert_eq!(send_to(site.address, "GET", "/sse", &[], "").await.status, 404);
    assert_eq!(send_to(site.address, "POST", "/messages", &[JSON], "{}").await.status, 404);
}

#[tokio::test]
async fn an_old_client_calls_a_durable_tool() {
    let site = site().await;
    let mut old = Old::open(&site).await;
    let params = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "old", "version": "1" } });
    let opening = old.ask(&site, 1, "initialize", params).await;
    assert_eq!(opening["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(
        old.say(&site, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await,
        202
    );
    let call = json!({ "name": "add_durably", "arguments": { "a": 1, "b": 2 } });
    let reply = old.ask(&site, 2, "tools/call", call).await;
    assert_eq!(reply["result"]["content"][0]["text"], r#"{"total":3}"#);
    let reply = old.ask(&site, 3, "no/such", json!({})).await;
    assert_eq!(reply["error"]["code"], -32601);
    site.running.remove_tool("add");
    assert_eq!(old.events.next().await.unwrap()["method"], "notifications/tools/list_changed");
}

/// There is one stream, and none to take it up again.
#[tokio::test]
async fn no_event_has_an_id() {
    let site = site().await;
    let mut old = Old::open(&site).await;
    let params = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "old", "version": "1" } });
    old.ask(&site, 1, "initialize", params).await;
    site.running.remove_tool("add");
    let params = json!({ "name": "talks", "arguments": {}, "_meta": { "progressToken": "p" } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    assert_eq!(old.say(&site, call).await, 202);
    let (mut changed, mut said, mut answered) = (false, false, false);
    while !(changed && said && answered) {
        let event = old.events.raw().await.unwrap();
        assert!(!event.lines().any(|line| line.starts_with("id:")), "{event}");
        changed |= event.contains("list_changed");
        said |= event.contains("notifications/message");
        answered |= event.contains(r#""id":2"#);
    }
}

#[tokio::test]
async fn strangers_and_the_departed_are_turned_away() {
    let site = site().await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for path in ["/messages", "/messages?sessionId=", "/messages?sessionId=nobody"] {
        assert_eq!(
            send_to(site.address, "POST", path, &[JSON], &ping.to_string()).await.status,
            404
        );
    }
    let evil = [("Host", "evil.example")];
    assert_eq!(send_to(site.address, "GET", "/sse", &evil, "").await.status, 403);
    let old = Old::open(&site).await;
    let plain = [("Content-Type", "text/plain")];
    assert_eq!(send_to(site.address, "POST", &old.path, &plain, "{}").await.status, 415);
    let path = old.path.clone();
    drop(old);
    while send_to(site.address, "POST", &path, &[JSON], &ping.to_string()).await.status != 404 {}
    let other = Old::open(&site).await;
    assert_ne!(other.path, path);
}
