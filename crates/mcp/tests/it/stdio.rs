//! The same over a pair of byte streams, for every generation.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_engine::{Principal, Status};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::{
    site::{Site, able, taskless},
    tools::{Count, server},
    traffic::Talk,
};

/// A client at the other end.
struct Peer {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
    talk: Talk,
}

impl Peer {
    fn connect(site: &Site) -> Peer {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(far);
        let running = site.running.clone();
        let served = tokio::spawn(async move {
            running.serve_io(Principal::new("me").unwrap(), input, output).await
        });
        let (reader, writer) = tokio::io::split(near);
        Peer { reader: BufReader::new(reader), writer, served, talk: Talk::default() }
    }

    async fn send_line(&mut self, line: &str) {
        self.talk.client_says(line);
        self.writer.write_all(line.as_bytes()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.send_line(&message.to_string()).await;
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        let reading = self.reader.read_line(&mut line);
        tokio::time::timeout(Duration::from_secs(20), reading).await.expect("in time").unwrap();
        let said = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        self.talk.server_says(&said);
        said
    }

    /// The next response, past what is told of tasks.
    async fn reply(&mut self) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] != "notifications/tasks/status" {
                return message;
            }
        }
    }

    async fn modern(&mut self, id: u64, capabilities: &Value, method: &str, mut params: Value) {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    async fn ask(&mut self, id: u64, capabilities: &Value, method: &str, params: Value) -> Value {
        self.modern(id, capabilities, method, params).await;
        let reply = self.next().await;
        assert_eq!(reply["id"], id, "{reply}");
        reply
    }

    async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" } });
        self.send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))
            .await;
        let reply = self.next().await;
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        reply["result"].clone()
    }
}

async fn site() -> Site {
    Site::start(server(&Count::default())).await
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

#[tokio::test]
async fn a_client_of_2026_07_28_from_discovery_to_a_task() {
    let site = site().await;
    let mut peer = Peer::connect(&site);
    let found = peer.ask(1, &able(), "server/discover", json!({})).await;
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    let sum = peer.ask(2, &able(), "tools/call", call("add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(sum["result"]["structuredContent"]["total"], 3);
    let task = peer.ask(3, &able(), "tools/call", call("approve", json!({ "item": "lamp" }))).await;
    assert_eq!(task["result"]["resultType"], "task");
    let id = task["result"]["taskId"].clone();
    let params = json!({ "notifications": { "taskIds": [id] } });
    peer.modern(4, &able(), "subscriptions/listen", params).await;
    loop {
        let event = peer.next().await;
        assert_eq!(event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 4);
        if event["params"]["status"] == "input_required" {
            break;
        }
    }
    let answer = json!({ "approval": { "action": "accept", "content": { "approved": true } } });
    peer.modern(5, &able(), "tasks/update", json!({ "taskId": id, "inputResponses": answer }))
        .await;
    loop {
        let event = peer.next().await;
        if event["params"]["status"] == "completed" {
            assert_eq!(event["params"]["result"]["content"][0]["text"], "approved: true");
            break;
        }
    }
    let who = peer.ask(6, &taskless(), "tools/call", call("who", json!({}))).await;
    assert_eq!(who["result"]["content"][0]["text"], "me  2026-07-28");
}

#[tokio::test]
async fn cancelled_ends_a_request_and_a_subscription() {
    let site = site().await;
    let mut peer = Peer::connect(&site);
    peer.modern(1, &taskless(), "tools/call", call("hang", json!({}))).await;
    peer.modern(
        2,
        &taskless(),
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    )
    .await;
    assert_eq!(peer.next().await["method"], "notifications/subscriptions/acknowledged");
    let operator = site.running.engine().operator();
    while operator.counts().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // An id that is at work is refused, and the first goes on.
    let again = peer.ask(1, &taskless(), "tools/list", json!({})).await;
    assert_eq!(again["error"]["code"], -32600);
    for id in [1, 2, 99] {
        peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })).await;
    }
    while operator.counts().await.unwrap().get(&Status::Cancelled) != Some(&1) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    site.running.remove_tool("add");
    // Nothing came for either of them.
    let next = peer.ask(3, &taskless(), "tools/list", json!({})).await;
    assert!(next["result"]["tools"].is_array());
}

#[tokio::test]
async fn a_client_of_2025_11_25_asks_answers_and_follows_a_task() {
    let site = site().await;
    let mut peer = Peer::connect(&site);
    let opening = peer.initialize("2025-11-25", json!({ "elicitation": { "form": {} } })).await;
    assert_eq!(opening["protocolVersion"], "2025-11-25");
    // The user that runs the process is known, so there is a list.
    assert_eq!(opening["capabilities"]["tasks"]["list"], json!({}));
    let mut params = call("approve", json!({ "item": "lamp" }));
    params["task"] = json!({ "ttl": 60000 });
    peer.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    let (mut task, mut question, mut looked) = (Value::Null, Value::Null, false);
    while question.is_null() || !looked {
        let message = peer.next().await;
        match message["method"].as_str() {
            Some("elicitation/create") => question = message,
            Some("notifications/tasks/status") => {}
            _ if message["id"] == 1 => {
                task = message["result"]["task"].clone();
                // It is asked when it has shown to know the task.
                let params = json!({ "taskId": task["taskId"] });
                peer.send(
                    json!({ "jsonrpc": "2.0", "id": 4, "method": "tasks/get", "params": params }),
                )
                .await;
            }
            _ => looked = true,
        }
    }
    let related = &question["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], task["taskId"]);
    let answer = json!({ "action": "accept", "content": { "approved": true } });
    peer.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    peer.send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": { "taskId": task["taskId"] } })).await;
    let result = peer.reply().await;
    assert_eq!(
        (&result["id"], &result["result"]["content"][0]["text"]),
        (&json!(2), &json!("approved: true"))
    );
    peer.send(json!({ "jsonrpc": "2.0", "id": 3, "method": "tasks/list", "params": {} })).await;
    assert_eq!(peer.reply().await["result"]["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_plain_call_asks_live_and_changes_are_told() {
    let site = site().await;
    let mut peer = Peer::connect(&site);
    peer.initialize("2025-06-18", json!({ "elicitation": {} })).await;
    let params = call("approve", json!({ "item": "lamp" }));
    peer.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    let question = peer.next().await;
    peer.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } }))
        .await;
    assert_eq!(peer.next().await["result"]["content"][0]["text"], "declined");
    site.running.remove_tool("add");
    assert_eq!(peer.next().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_the_next_is_served() {
    let site = site().await;
    let mut peer = Peer::connect(&site);
    for (line, code) in [
        ("nonsense", -32700),
        ("{}", -32600),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#, -32602),
    ] {
        peer.send_line(line).await;
        assert_eq!(peer.next().await["error"]["code"], code, "{line}");
    }
    peer.send_line(&"x".repeat(5 << 20)).await;
    assert_eq!(peer.next().await["error"]["code"], -32600);
    peer.send_line("").await;
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "1999-01-01" });
    peer.send(
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": { "_meta": meta } }),
    )
    .await;
    assert_eq!(peer.next().await["error"]["code"], -32022);
    let listed = peer.ask(3, &json!({}), "tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array());
}

#[tokio::test]
async fn the_end_of_input_ends_it_and_takes_back_what_was_asked() {
    let site = site().await;
    let mut peer = Peer::connect(&site);
    peer.modern(1, &taskless(), "tools/call", call("hang", json!({}))).await;
    peer.modern(2, &able(), "tools/call", call("hang", json!({}))).await;
    assert_eq!(peer.next().await["result"]["resultType"], "task");
    peer.writer.shutdown().await.unwrap();
    peer.served.await.unwrap().unwrap();
    let operator = site.running.engine().operator();
    while operator.counts().await.unwrap().get(&Status::Cancelled) != Some(&1) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // The task is nobody's request: it goes on.
    let counts = operator.counts().await.unwrap();
    assert_eq!(counts.values().sum::<u64>(), 2);
}
