//! Calls that can't be taken up again, of 2026-07-28 and over standard streams: they end with their
//! connection, and take back what they did.

use serde_json::{Value, json};

use crate::{
    client::{Client, stateless_call},
    server::{Piped, Server},
};

/// The step that was at work did not run again, what was done is taken back, and a call that is made
/// anew is all there is.
fn is_taken_back_and_made_anew(server: &Server) {
    server.until("cancel room", 1);
    server.open("second");
    let client = Client::stateless(None);
    let again = client.call_stateless(
        server.address(),
        json!(2),
        "book",
        json!({ "guest": "ada" }),
        None,
        json!({}),
    );
    assert_eq!(again.last()["result"]["content"][0]["text"], "booked for ada");
    let counts = ["room", "cancel room", "second", "paid"].map(|effect| server.count(effect));
    assert_eq!(counts, [2, 1, 2, 1]);
}

fn book(server: &Server, key: Option<&str>) -> crate::client::Response {
    let client = Client::stateless(None);
    let arguments = json!({ "guest": "ada" });
    client.call_stateless(server.address(), json!(1), "book", arguments, key, json!({}))
}

/// Calls in another thread, since nothing is answered until it is over. Dropping what comes back closes
/// the connection.
fn begin(server: &Server, key: Option<&'static str>) -> std::net::TcpStream {
    use std::io::Write;
    let body = stateless_call(&json!(1), "book", &json!({ "guest": "ada" }), key, json!({}));
    let body = body.to_string();
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: book\r\n\r\n",
        server.address(),
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    server.until("second", 1);
    stream
}

#[test]
fn a_call_ends_with_the_process() {
    let mut server = Server::start();
    let _stream = begin(&server, None);
    server.kill_and_restart();
    is_taken_back_and_made_anew(&server);
}

#[test]
fn a_call_ends_with_a_process_that_shuts_down() {
    let mut server = Server::with(&["--drain-seconds", "1"]);
    let _stream = begin(&server, None);
    server.terminate();
    server.up();
    is_taken_back_and_made_anew(&server);
}

#[test]
fn a_call_ends_with_its_connection() {
    let server = Server::start();
    drop(begin(&server, None));
    is_taken_back_and_made_anew(&server);
}

#[test]
fn with_a_key_only_the_request_ends() {
    for how in ["kill", "terminate", "hang up"] {
        let mut server = Server::with(&["--drain-seconds", "1"]);
        let stream = begin(&server, Some("booking-1"));
        match how {
            "kill" => server.kill_and_restart(),
            "terminate" => {
                server.terminate();
                server.up();
            }
            _ => {}
        }
        drop(stream);
        server.open("second");
        // It goes on by itself.
        server.until("paid", 1);
        for _ in 0..2 {
            let answer = book(&server, Some("booking-1")).last();
            assert_eq!(answer["result"]["content"][0]["text"], "booked for ada", "{how}: {answer}");
        }
        let counts = ["room", "cancel room", "paid"].map(|effect| server.count(effect));
        assert_eq!(counts, [1, 0, 1], "{how}");
    }
}

/// A client that was asked has a reference to its call, and comes back with it.
#[test]
fn a_call_that_has_asked_goes_on() {
    let mut server = Server::start();
    let client = Client::stateless(None);
    let call = |server: &Server, more| {
        let to = server.address();
        client.call_stateless(to, json!(1), "approve", json!({}), None, more).last()
    };
    let asked = call(&server, json!({}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    server.kill_and_restart();
    let requests = asked["result"]["inputRequests"].as_object().unwrap();
    let answer = json!({ "action": "accept", "content": { "approve": true } });
    let answers: serde_json::Map<String, Value> =
        requests.keys().map(|key| (key.clone(), answer.clone())).collect();
    let state = &asked["result"]["requestState"];
    let answered = json!({ "inputResponses": answers, "requestState": state });
    for _ in 0..2 {
        let done = call(&server, answered.clone());
        assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    }
    assert_eq!([server.count("before"), server.count("after")], [1, 1]);
}

/// The same for a resource that asks.
#[test]
fn a_resource_that_has_asked_goes_on() {
    for (approve, found) in [(true, true), (false, false)] {
        let mut server = Server::start();
        let client = Client::stateless(None);
        let read = |server: &Server, more: Value| {
            client.read_stateless(server.address(), json!(1), "test://files/plan", more).last()
        };
        let asked = read(&server, json!({}));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        server.kill_and_restart();
        let requests = asked["result"]["inputRequests"].as_object().unwrap();
        let answer = json!({ "action": "accept", "content": { "approve": approve } });
        let answers: serde_json::Map<String, Value> =
            requests.keys().map(|key| (key.clone(), answer.clone())).collect();
        let state = &asked["result"]["requestState"];
        let done = read(&server, json!({ "inputResponses": answers, "requestState": state }));
        match found {
            true => {
                let text = &done["result"]["contents"][0]["text"];
                assert_eq!(text, "the content of plan", "{done}");
                assert_eq!(done["result"]["ttlMs"], 0, "{done}");
            }
            false => assert_eq!(done["error"]["code"], -32602, "{done}"),
        }
        assert_eq!([server.count("before"), server.count("after")], [1, 1]);
    }
}

/// A process that speaks `version`, with a call in its second step.
fn piped(server: &Server, version: &str) -> Piped {
    let mut piped = server.over_stdio();
    if version == "2026-07-28" {
        let arguments = json!({ "guest": "ada" });
        piped.say(&stateless_call(&json!(1), "book", &arguments, None, json!({})));
    } else {
        let info = json!({ "name": "survive", "version": "1" });
        let params = json!({ "protocolVersion": version, "clientInfo": info, "capabilities": {} });
        piped.say(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        piped.response(&json!(0));
        let params = json!({ "name": "book", "arguments": { "guest": "ada" } });
        piped.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
    }
    server.until("second", 1);
    piped
}

#[test]
fn a_call_over_standard_streams_ends_with_the_process_or_the_client() {
    for version in ["2026-07-28", "2025-11-25", "2025-03-26"] {
        for killed in [true, false] {
            let server = Server::start();
            let piped = piped(&server, version);
            if killed {
                piped.kill()
            } else {
                piped.hang_up()
            }
            is_taken_back_and_made_anew(&server);
        }
    }
}
