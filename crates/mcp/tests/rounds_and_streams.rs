//! Calls that take several rounds (2026-07-28), and streams that break (2025-11-25), over HTTP as it is
//! on the wire.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_engine::{Engine, Reply, Result};
use steadfast_mcp::{Context, NoInput, Running, Sample, Server, TaskSupport, Tool};
use steadfast_store::Disk;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

#[path = "it/traffic.rs"]
mod traffic;

use traffic::Talk;

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(ctx: Context, _: NoInput) -> Result<String> {
    ctx.log("info", "before");
    let name = match ctx.ask::<Name>("Who is it?").key("name").await? {
        Reply::Accepted(answer) => answer.name,
        _ => "nobody".to_owned(),
    };
    ctx.log("info", "after");
    Ok(format!("Hello, {name}!"))
}

async fn sample(ctx: Context, _: NoInput) -> Result<String> {
    Ok(ctx.sample(Sample::new("Anything")).await?.text())
}

async fn wait(ctx: Context, _: NoInput) -> Result<String> {
    ctx.event::<Value>("go").await?;
    Ok("gone".to_owned())
}

/// A server, and where it is.
async fn server() -> (Running, SocketAddr) {
    let running = Server::new("test")
        .tool(Tool::new("greet", greet).task_support(TaskSupport::Forbidden))
        .tool(Tool::new("sample", sample).task_support(TaskSupport::Forbidden))
        .tool(Tool::new("wait", wait))
        .start(Engine::builder(Arc::new(Disk::new().open())))
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = running.clone();
    tokio::spawn(async move { serving.serve(listener, std::future::pending()).await });
    (running, address)
}

/// A response that is being read.
struct Response {
    head: String,
    body: BufReader<TcpStream>,
    talk: Talk,
}

/// An event of a stream.
#[derive(Debug)]
struct Event {
    id: Option<String>,
    /// Null if it has none.
    message: Value,
}

impl Response {
    fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    async fn json(mut self) -> Value {
        let mut body = String::new();
        self.body.read_to_string(&mut body).await.unwrap();
        let said = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{}{body}", self.head));
        self.talk.server_says(&said);
        said
    }

    /// The next event, or nothing if the stream is over.
    async fn event(&mut self) -> Option<Event> {
        let (mut id, mut line) = (None, String::new());
        loop {
            line.clear();
            let read = self.body.read_line(&mut line);
            let read = tokio::time::timeout(Duration::from_secs(10), read).await;
            if read.expect("an event in time").unwrap() == 0 {
                return None;
            }
            // The sizes of chunks are on lines of their own.
            let line = line.trim_end();
            if let Some(value) = line.strip_prefix("id: ") {
                id = Some(value.to_owned());
            } else if let Some(data) = line.strip_prefix("data:") {
                let message = serde_json::from_str(data).unwrap_or(Value::Null);
                if !message.is_null() {
                    self.talk.server_says(&message);
                }
                return Some(Event { id, message });
            }
        }
    }

    /// Reads on until a message of this method.
    async fn until(&mut self, method: &str) -> Event {
        loop {
            let event = self.event().await.expect("the stream goes on");
            if event.message["method"] == method {
                return event;
            }
        }
    }

    /// All methods until the response, and that.
    async fn rest(&mut self) -> (Vec<String>, Value) {
        let mut methods = Vec::new();
        loop {
            let Event { message, .. } = self.event().await.expect("the stream goes on");
            match message["method"].as_str() {
                Some(method) => methods.push(method.to_owned()),
                None if message.is_null() => {}
                None => return (methods, message),
            }
        }
    }
}

async fn http(address: SocketAddr, method: &str, headers: &str, body: &str) -> Response {
    let session = headers.lines().find_map(|line| line.strip_prefix("Mcp-Session-Id: "));
    let talk = Talk::of_session(session);
    talk.client_says(body);
    let mut tcp = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    tcp.write_all(request.as_bytes()).await.unwrap();
    let (mut head, mut body) = (String::new(), BufReader::new(tcp));
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(body.read_line(&mut head).await.unwrap(), 0, "{head}");
    }
    let response = Response { head, body, talk };
    if let Some(id) = response.header("mcp-session-id") {
        response.talk.is_session(id);
    }
    response
}

/// A request of 2026-07-28.
async fn ask(address: SocketAddr, method: &str, can: Value, mut params: Value) -> Response {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": can,
        "io.modelcontextprotocol/logLevel": "info",
    });
    let name = params["name"].as_str().map(|name| format!("Mcp-Name: {name}\r\n"));
    let headers = format!(
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{}",
        name.unwrap_or_default()
    );
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    http(address, "POST", &headers, &body.to_string()).await
}

/// A call of 2026-07-28.
async fn call(address: SocketAddr, tool: &str, can: Value, mut params: Value) -> Response {
    params["name"] = json!(tool);
    ask(address, "tools/call", can, params).await
}

fn accept(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

#[tokio::test]
async fn what_was_said_in_one_round_is_not_said_again_in_the_next() {
    let (_running, address) = server().await;
    let mut first = call(address, "greet", json!({ "elicitation": {} }), json!({})).await;
    let (said, asked) = first.rest().await;
    assert_eq!(said, ["notifications/message"]);
    assert_eq!(asked["result"]["resultType"], "input_required");
    let again = json!({
        "inputResponses": { "name": accept("Ada") },
        "requestState": asked["result"]["requestState"],
    });
    let mut second = call(address, "greet", json!({ "elicitation": {} }), again).await;
    let (said, done) = second.rest().await;
    assert_eq!(said, ["notifications/message"]);
    assert_eq!(done["result"]["content"][0]["text"], "Hello, Ada!");
}

#[tokio::test]
async fn an_answer_may_come_with_the_first_call() {
    let (_running, address) = server().await;
    let answers = json!({ "inputResponses": { "name": accept("Ada"), "other": accept("Bob") } });
    let mut done = call(address, "greet", json!({ "elicitation": {} }), answers).await;
    let (said, done) = done.rest().await;
    assert_eq!(said.len(), 2);
    assert_eq!(done["result"]["content"][0]["text"], "Hello, Ada!");
}

#[tokio::test]
async fn a_client_without_what_a_tool_needs_is_told_what_is_missing() {
    let (_running, address) = server().await;
    let refused = call(address, "sample", json!({}), json!({})).await;
    assert_eq!(refused.status(), "400");
    let error = refused.json().await["error"].clone();
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"]["requiredCapabilities"], json!({ "sampling": {} }));
}

#[tokio::test]
async fn a_listener_hears_of_its_tasks_and_of_the_end() {
    let (running, address) = server().await;
    let can = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let created = call(address, "wait", can.clone(), json!({})).await.json().await;
    let id = created["result"]["taskId"].as_str().unwrap().to_owned();
    let wanted = json!({ "notifications": { "taskIds": [id, "no-such-task"] } });
    let mut stream = ask(address, "subscriptions/listen", can, wanted).await;
    let mut next = async || stream.event().await.unwrap().message;

    let first = next().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"]["taskIds"], json!([id]));
    // How it stands now, without a change.
    let now = next().await;
    assert_eq!(
        (&now["method"], &now["params"]["status"]),
        (&json!("notifications/tasks"), &json!("working"))
    );

    let owner = steadfast_engine::Principal::new("anonymous").unwrap();
    let task = steadfast_engine::TaskId::new(id).unwrap();
    let go = steadfast_engine::Event::new("go", &Value::Null);
    running.engine().tasks(owner).signal(&task, go).await.unwrap();
    let last = loop {
        let message = next().await;
        if message["params"]["status"] != "working" {
            break message;
        }
    };
    assert_eq!(last["params"]["status"], "completed");
    assert_eq!(last["params"]["result"]["content"][0]["text"], "gone");
    let subscription = json!({ "io.modelcontextprotocol/subscriptionId": 1 });
    assert_eq!(last["params"]["_meta"], subscription);

    running.shutdown(Duration::from_secs(5)).await;
    let torn_down = next().await;
    assert_eq!(torn_down["method"], "notifications/cancelled");
    assert_eq!(torn_down["params"]["requestId"], 1);
    let end = next().await;
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(1), &json!("complete")));
}

/// The headers of a session of 2025-11-25.
async fn session(address: SocketAddr) -> String {
    session_of(address, "2025-11-25").await
}

async fn session_of(address: SocketAddr, revision: &str) -> String {
    let params = json!({
        "protocolVersion": revision,
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "test", "version": "0" },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let opened = http(address, "POST", "", &body.to_string()).await;
    let id = opened.header("mcp-session-id").expect("a session").to_owned();
    opened.json().await;
    format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: {revision}\r\n")
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"greet"}}"#;

async fn answer(address: SocketAddr, session: &str, question: &Event) {
    let id = &question.message["id"];
    let body = json!({ "jsonrpc": "2.0", "id": id, "result": accept("Ada") });
    assert_eq!(http(address, "POST", session, &body.to_string()).await.status(), "202");
}

async fn resume(address: SocketAddr, session: &str, last: &Event) -> Response {
    let last = last.id.as_ref().expect("an event with an id");
    http(address, "GET", &format!("{session}Last-Event-ID: {last}\r\n"), "").await
}

#[tokio::test]
async fn a_stream_that_broke_goes_on_where_it_was() {
    let (_running, address) = server().await;
    let session = session(address).await;
    let mut stream = http(address, "POST", &session, CALL).await;
    let opening = stream.event().await.unwrap();
    assert!(opening.id.is_some() && opening.message.is_null(), "{opening:?}");
    let question = stream.until("elicitation/create").await;
    drop(stream);
    answer(address, &session, &question).await;
    let mut resumed = resume(address, &session, &question).await;
    let (said, done) = resumed.rest().await;
    assert_eq!(said, ["notifications/message"]);
    assert_eq!(
        (&done["id"], done["result"]["content"][0]["text"].as_str()),
        (&json!(7), Some("Hello, Ada!"))
    );
    assert!(resumed.event().await.is_none());
}

#[tokio::test]
async fn a_question_that_got_lost_is_asked_again_under_another_id() {
    let (_running, address) = server().await;
    let session = session(address).await;
    let mut stream = http(address, "POST", &session, CALL).await;
    let said = stream.until("notifications/message").await;
    let lost = stream.until("elicitation/create").await;
    // The older stream ends when another takes its place.
    let mut resumed = resume(address, &session, &said).await;
    assert!(stream.event().await.is_none());
    let question = resumed.until("elicitation/create").await;
    assert_ne!(question.message["id"], lost.message["id"]);
    answer(address, &session, &question).await;
    let (said, done) = resumed.rest().await;
    assert_eq!(said, ["notifications/message"]);
    assert_eq!(done["id"], 7);
}

#[tokio::test]
async fn a_stream_of_another_session_can_not_be_taken_up() {
    let (_running, address) = server().await;
    let mine = session(address).await;
    let mut stream = http(address, "POST", &mine, CALL).await;
    let question = stream.until("elicitation/create").await;
    let other = session(address).await;
    assert_eq!(resume(address, &other, &question).await.status(), "400");
    assert_eq!(resume(address, &mine, &question).await.status(), "200");
}

#[tokio::test]
async fn older_clients_get_no_event_without_a_message() {
    let (_running, address) = server().await;
    let session = session_of(address, "2025-06-18").await;
    let mut stream = http(address, "POST", &session, CALL).await;
    assert_eq!(stream.event().await.unwrap().message["method"], "notifications/message");
}

#[tokio::test]
async fn the_stream_of_a_session_ends_with_it() {
    let (_running, address) = server().await;
    let session = session(address).await;
    let mut stream = http(address, "GET", &session, "").await;
    assert_eq!(stream.event().await.unwrap().message, Value::Null, "where it begins");
    assert_eq!(http(address, "DELETE", &session, "").await.status(), "204");
    assert!(stream.event().await.is_none());
}

#[tokio::test]
async fn streams_end_when_the_server_shuts_down() {
    let (running, address) = server().await;
    let session = session(address).await;
    let mut stream = http(address, "GET", &session, "").await;
    assert_eq!(stream.event().await.unwrap().message, Value::Null, "where it begins");
    running.shutdown(Duration::from_secs(5)).await;
    assert!(stream.event().await.is_none());
}
