//! Servers that break off, refuse, or talk nonsense: each connection gets the next line of a script.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use steadfast_client::{Client, Error, IDEMPOTENCY_KEY, Revision};

/// A request as it came in.
struct Seen {
    at: Instant,
    head: String,
    body: Value,
}

struct Script {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Script {
    /// Each is a whole response, of which `$ID` is the id of the request; the connection is closed
    /// after it, whatever it promised.
    fn of(responses: &[&str]) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = seen.clone();
        let responses: Vec<String> = responses.iter().map(|line| (*line).to_owned()).collect();
        std::thread::spawn(move || {
            for response in responses {
                let Ok((stream, _)) = listener.accept() else { return };
                let request = read(&stream);
                let response = response.replace("$ID", &request.body["id"].to_string());
                keep.lock().unwrap().push(request);
                let _ = (&stream).write_all(response.as_bytes());
            }
        });
        Script { url, seen }
    }

    fn bodies(&self) -> Vec<Value> {
        self.seen.lock().unwrap().iter().map(|seen| seen.body.clone()).collect()
    }
}

fn read(stream: &TcpStream) -> Seen {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Seen { at: Instant::now(), head, body }
}

const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
/// A stream that never says how long it is, and one that breaks off in the middle of a chunk.
const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
const CUT: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                   Transfer-Encoding: chunked\r\n\r\n";

fn discovered() -> String {
    format!(r#"{JSON}{{"jsonrpc":"2.0","id":$ID,"result":{{}}}}"#)
}

fn session() -> [String; 2] {
    let head = JSON.replace("Connection", "Mcp-Session-Id: s1\r\nConnection");
    let begun = format!(
        r#"{head}{{"jsonrpc":"2.0","id":$ID,"result":{{"protocolVersion":"2025-11-25"}}}}"#
    );
    [begun, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()]
}

fn result(text: &str) -> String {
    json!({ "content": [{ "type": "text", "text": text }] }).to_string()
}

async fn in_session(rest: &[&str]) -> (Script, Client) {
    let [begun, noted] = session();
    let script = Script::of(&[&[begun.as_str(), noted.as_str()], rest].concat());
    let client = Client::connect(&script.url).revision(Revision::V2025_11_25).await.unwrap();
    (script, client)
}

#[tokio::test]
async fn a_call_with_a_key_is_made_again_under_the_same_key() {
    let done = format!(r#"{JSON}{{"jsonrpc":"2.0","id":$ID,"result":{}}}"#, result("once"));
    let cut = format!("{CUT}ff\r\n: nothing yet");
    let script = Script::of(&[&discovered(), &cut, "", &done]);
    let client = Client::connect(&script.url).await.unwrap();
    let call = client.call("pay", json!({ "amount": 5 })).idempotency_key("order 17");
    assert_eq!(call.await.unwrap().text(), "once");
    let bodies = script.bodies();
    let calls: Vec<&Value> = bodies.iter().filter(|body| body["method"] == "tools/call").collect();
    assert_eq!(calls.len(), 3, "{bodies:?}");
    for call in &calls {
        assert_eq!(call["params"]["_meta"][IDEMPOTENCY_KEY], "order 17");
        assert_eq!(call["params"]["arguments"], json!({ "amount": 5 }));
    }
    // The server may still be at work on the first.
    assert_ne!(calls[0]["id"], calls[1]["id"]);
}

#[tokio::test]
async fn a_stream_is_taken_up_after_the_time_the_server_wants_and_after_the_last_event() {
    let first =
        format!("{STREAM}id: e1\nretry: 300\ndata:\n\nid: e2\ndata: {{\"method\":\"n\"}}\n\n");
    let second = format!("{STREAM}id: e3\ndata:\n\n");
    let third = format!(
        "{STREAM}data: {{\"jsonrpc\":\"2.0\",\"id\":2,\ndata: \"result\":{}}}\n\n",
        result("there")
    );
    let (script, client) = in_session(&[&first, &second, &third]).await;
    assert_eq!(client.call("work", json!({})).await.unwrap().text(), "there");
    let seen = script.seen.lock().unwrap();
    assert!(seen[3].head.starts_with("get ") && seen[3].head.contains("last-event-id: e2"));
    assert!(seen[3].head.contains("mcp-session-id: s1"), "{}", seen[3].head);
    assert!(seen[4].head.contains("last-event-id: e3"), "{}", seen[4].head);
    assert!(seen[3].at.duration_since(seen[2].at) >= Duration::from_millis(300));
}

#[tokio::test]
async fn what_is_refused_for_now_is_sent_again_when_the_server_wants() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
                Content-Length: 0\r\n\r\n";
    let done = format!(r#"{JSON}{{"jsonrpc":"2.0","id":$ID,"result":{}}}"#, result("now"));
    let script = Script::of(&[&discovered(), busy, &done]);
    let client = Client::connect(&script.url).await.unwrap();
    assert_eq!(client.call("work", json!({})).await.unwrap().text(), "now");
    let seen = script.seen.lock().unwrap();
    assert!(seen[2].at.duration_since(seen[1].at) >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_call_that_broke_before_its_first_event_is_an_error_and_made_once() {
    let cut = format!("{CUT}ff\r\n: nothing yet");
    let (script, client) = in_session(&[&cut, "never sent"]).await;
    let error = client.call("work", json!({})).await.unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error}");
    assert_eq!(script.bodies().len(), 3);
}

#[tokio::test]
async fn nonsense_is_an_error_that_says_so() {
    let plain = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>";
    let empty = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (response, says) in [
        (plain, "something else than a message"),
        (empty, "with nothing"),
        ("HTTP/1.1 500 Oh\r\nConnection: close\r\n\r\nno disk", "HTTP status 500: no disk"),
        (
            "HTTP/1.1 403 No\r\nConnection: close\r\n\r\n{\"error\":{\"message\":\"not you\"},\"id\":null}",
            "HTTP status 403: not you",
        ),
    ] {
        let script = Script::of(&[&discovered(), response]);
        let client = Client::connect(&script.url).await.unwrap();
        let error = client.call("work", json!({})).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
