//! Whatever comes in at the door: never a panic, never a hang, always an answer that the protocol knows,
//! and the next request is served as if nothing had been.
//!
//! `FUZZ_CASES` says how many cases there are (10,000 if it is not set), `FUZZ_SEED` where they begin:
//! `cargo xtask fuzz` tries more.

#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Method, Request, Response},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use steadfast_engine::{Engine, Error, Principal};
use steadfast_mcp::{
    Context, NoInput, Prompt, Resource, Running, Server, Settings, Structured, Template, Tool,
};
use steadfast_store::Disk;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tower::ServiceExt;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pair {
    a: i64,
    b: Option<i64>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Name {
    name: String,
}

fn server() -> Running {
    let settings = Settings {
        stream_after: Duration::from_millis(1),
        max_sessions: 100,
        anonymous_list: true,
        companions: true,
        outlives: Duration::from_millis(5),
        ..Settings::default()
    };
    let server = Server::new("fuzz")
        .settings(settings)
        .tool(Tool::plain("add", |pair: Pair| async move {
            Ok(Structured(pair.a.wrapping_add(pair.b.unwrap_or(0))))
        }))
        .tool(Tool::new("ask", |ctx: Context, _: NoInput| async move {
            ctx.log("info", "asking");
            let name = ctx.ask::<Name>("Who?").key("who").await?.accepted();
            Ok(name.map_or(String::new(), |name| name.name))
        }))
        .tool(Tool::new("fails", |_: Context, _: NoInput| async { Err::<(), _>(Error::new("no")) }))
        .prompt(Prompt::new("greet", |name: Name| async move { Ok(name.name) }))
        .resource(Resource::new("test://one", "one", || async { Ok("one") }))
        .template(Template::new(
            "test://{id}/x",
            "x",
            |uri: String, _: Value| async move { Ok(uri) },
        ));
    server.start(Engine::builder(Arc::new(Disk::new().open()))).unwrap()
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }

    /// Text that others have stumbled over.
    fn text(&mut self) -> String {
        let texts = [
            "",
            "0",
            "-1",
            "null",
            "\u{0}",
            "\r\n",
            "../..",
            "%00",
            "💥",
            "a\"b",
            "ask:x:0:y",
            "r1.x.0",
            "=?base64?!?=",
            "2026-07-28",
            "2025-11-25",
            "test://one",
            "who",
            "accept",
            "notifications/cancelled",
            "\u{202e}",
            "{}",
            "[[[[",
            "x.1.2",
        ];
        match self.roll(8) {
            0 => "x".repeat(self.roll(5_000)),
            _ => (*self.pick(&texts)).to_owned(),
        }
    }

    fn value(&mut self) -> Value {
        match self.roll(10) {
            0 => Value::Null,
            1 => json!(self.one_in(2)),
            2 => json!(self.roll(1_000)),
            3 => json!(-1.5e300),
            4 => json!(u64::MAX),
            5 => json!([]),
            6 => json!({}),
            7 => json!([self.text(), { "a": [self.text()] }]),
            _ => json!(self.text()),
        }
    }

    /// Changes something somewhere in it.
    fn bend(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) if !fields.is_empty() && !self.one_in(6) => {
                let keys: Vec<String> = fields.keys().cloned().collect();
                let key = self.pick(&keys).clone();
                match self.roll(5) {
                    0 => {
                        fields.remove(&key);
                    }
                    1 => {
                        let (name, value) = (self.text(), self.value());
                        fields.insert(name, value);
                    }
                    _ => self.bend(fields.get_mut(&key).unwrap()),
                }
            }
            Value::Array(items) if !items.is_empty() && !self.one_in(6) => {
                let at = self.roll(items.len());
                self.bend(&mut items[at]);
            }
            other => *other = self.value(),
        }
    }

    fn corrupt(&mut self, bytes: &mut Vec<u8>) {
        match self.roll(3) {
            0 => bytes.truncate(self.roll(bytes.len() + 1)),
            1 if !bytes.is_empty() => {
                let at = self.roll(bytes.len());
                bytes[at] = self.roll(256) as u8;
            }
            _ => {
                let at = self.roll(bytes.len() + 1);
                let more = self.text().into_bytes();
                bytes.splice(at..at, more);
            }
        }
    }
}

/// What a client could really send.
fn seeds() -> Vec<Value> {
    let task = json!({ "taskId": "x", "inputResponses": { "who": { "action": "accept", "content": { "name": "x" } } } });
    let all = [
        ("server/discover", json!({})),
        (
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "x", "version": "1" } }),
        ),
        ("ping", json!({})),
        ("tools/list", json!({ "cursor": "YQ" })),
        ("tools/call", json!({ "name": "add", "arguments": { "a": 1, "b": 2 } })),
        ("tools/call", json!({ "name": "ask", "arguments": {}, "task": { "ttl": 1000 } })),
        (
            "tools/call",
            json!({ "name": "ask", "arguments": {}, "requestState": "r1.x.1", "inputResponses": { "who": { "action": "accept", "content": { "name": "x" } } } }),
        ),
        (
            "tools/call",
            json!({ "name": "task_input", "arguments": { "task_id": "x", "answer": {} } }),
        ),
        ("prompts/get", json!({ "name": "greet", "arguments": { "name": "x" } })),
        ("resources/read", json!({ "uri": "test://a%20b/x" })),
        ("resources/subscribe", json!({ "uri": "test://one" })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "name", "value": "" } }),
        ),
        (
            "subscriptions/listen",
            json!({ "notifications": { "toolsListChanged": true, "taskIds": ["x"], "resourceSubscriptions": ["test://one"] } }),
        ),
        ("tasks/get", task.clone()),
        ("tasks/update", task.clone()),
        ("tasks/cancel", task.clone()),
        ("tasks/list", json!({ "cursor": "t1.0" })),
        ("logging/setLevel", json!({ "level": "info" })),
    ];
    let mut seeds: Vec<Value> = all
        .into_iter()
        .map(|(method, params)| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
        .collect();
    seeds.push(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }));
    seeds.push(json!({ "jsonrpc": "2.0", "id": "ask:x:0:who", "result": { "action": "accept" } }));
    seeds.push(json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }]));
    seeds
}

/// A message of today's revision, or of one with sessions, bent here and there.
fn message(dice: &mut Dice, seeds: &[Value], modern: bool) -> (String, Vec<u8>) {
    let mut message = dice.pick(seeds).clone();
    if modern && message.is_object() {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } },
            "progressToken": 1,
        });
        message["params"]["_meta"] = meta;
    }
    let method = message["method"].as_str().unwrap_or("none").to_owned();
    for _ in 0..dice.roll(4) {
        dice.bend(&mut message);
    }
    let mut body = message.to_string().into_bytes();
    if dice.one_in(8) {
        dice.corrupt(&mut body);
    }
    (method, body)
}

fn request(dice: &mut Dice, seeds: &[Value], session: &str) -> Request<Body> {
    let modern = dice.one_in(2);
    let (method, body) = message(dice, seeds, modern);
    let name = String::from_utf8_lossy(&body).into_owned();
    let verb = match dice.roll(12) {
        0 => Method::GET,
        1 => Method::DELETE,
        2 => Method::PUT,
        _ => Method::POST,
    };
    let mut headers = vec![
        ("host", "localhost".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("accept", "application/json, text/event-stream".to_owned()),
    ];
    if modern {
        let named = ["add", "ask", "greet", "test://one"].into_iter().find(|n| name.contains(n));
        headers.push(("mcp-protocol-version", "2026-07-28".into()));
        headers.push(("mcp-method", method));
        headers.push(("mcp-name", named.unwrap_or("x").into()));
    } else {
        headers.push(("mcp-session-id", session.to_owned()));
    }
    if dice.one_in(10) {
        headers.push(("last-event-id", dice.text()));
    }
    if dice.one_in(6) {
        let at = dice.roll(headers.len());
        headers[at].1 = dice.text();
    }
    if dice.one_in(10) {
        headers.remove(dice.roll(headers.len()));
    }
    let mut request = Request::new(Body::from(body));
    (*request.method_mut(), *request.uri_mut()) = (verb, "/mcp".parse().unwrap());
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    request
}

async fn check(response: Response<Body>) {
    let status = response.status().as_u16();
    let known = [200, 202, 204, 400, 401, 403, 404, 405, 406, 409, 413, 415, 429, 503];
    assert!(known.contains(&status), "the status {status}");
    let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    if kind.as_deref() == Some("application/json") {
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let reply: Value = serde_json::from_slice(&body).expect("JSON");
        let well = |reply: &Value| {
            reply["jsonrpc"] == "2.0"
                && (reply.get("result").is_some_and(Value::is_object)
                    != reply.get("error").is_some())
        };
        match &reply {
            Value::Array(replies) => assert!(replies.iter().all(well), "{reply}"),
            reply => assert!(well(reply), "{reply}"),
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

const OPENING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_comes_over_http_is_answered() {
    let running = server();
    let (seeds, router) = (seeds(), running.router());
    let mut session = String::new();
    for case in 0..number("FUZZ_CASES", 10_000) {
        let seed = number("FUZZ_SEED", 1) << 32 | case;
        if case % 50 == 0 {
            // The one before may have been ended.
            let mut opening = Request::post("/mcp").body(Body::from(OPENING)).unwrap();
            for (name, value) in [("host", "localhost"), ("content-type", "application/json")] {
                opening.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            let opened = router.clone().oneshot(opening).await.unwrap();
            session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        }
        let request = request(&mut Dice(seed), &seeds, &session);
        let what = format!("case {case}: {request:?}");
        let answered = async { check(router.clone().oneshot(request).await.unwrap()).await };
        let answered = tokio::time::timeout(Duration::from_secs(20), answered).await;
        assert!(answered.is_ok(), "no answer to {what}");
    }
    running.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_comes_over_stdio_leaves_the_next_request_served() {
    let running = server();
    let seeds = seeds();
    let (near, far) = tokio::io::duplex(1 << 20);
    let (input, output) = tokio::io::split(far);
    let served = tokio::spawn({
        let running = running.clone();
        async move { running.serve_io(Principal::new("me").unwrap(), input, output).await }
    });
    let (reader, mut writer) = tokio::io::split(near);
    let mut lines = BufReader::new(reader).lines();
    for case in 0..number("FUZZ_CASES", 10_000) / 5 {
        let mut dice = Dice(number("FUZZ_SEED", 1) << 32 | 1 << 31 | case);
        let modern = dice.one_in(2);
        let (_, mut body) = message(&mut dice, &seeds, modern);
        body.retain(|byte| *byte != b'\n');
        let check = json!({ "jsonrpc": "2.0", "id": format!("check {case}"), "method": "server/discover", "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        } } });
        writer
            .write_all(&[body.as_slice(), b"\n", check.to_string().as_bytes(), b"\n"].concat())
            .await
            .unwrap();
        let answered = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("a line");
                let reply: Value = serde_json::from_str(&line).expect("JSON");
                if reply["id"] == check["id"] {
                    return;
                }
            }
        };
        let answered = tokio::time::timeout(Duration::from_secs(20), answered).await;
        assert!(answered.is_ok(), "nothing after case {case}: {}", String::from_utf8_lossy(&body));
    }
    writer.shutdown().await.unwrap();
    served.await.unwrap().unwrap();
    running.shutdown(Duration::from_secs(5)).await;
}
