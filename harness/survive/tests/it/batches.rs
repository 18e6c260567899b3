//! Several requests at once, as 2025-03-26 has it, that are made again.

use std::{net::SocketAddr, sync::mpsc, thread, time::Duration};

use serde_json::{Value, json};

use crate::{client::Client, server::Server};

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

/// One that is soon done, and one that waits for a gate.
fn both() -> Value {
    json!([call(1, "short", json!({ "number": 1 })), call(2, "work", json!({ "number": 2 }))])
}

/// Sends the batch and never looks back.
fn send_and_break(client: &Client, to: SocketAddr) {
    let (session, version, token) = (client.session.clone(), client.version, client.token);
    let lost = Client { session, version, token };
    // Its response has no head before all are answered, so that this ends with the server, or unheard.
    thread::spawn(move || {
        let _ = std::panic::catch_unwind(|| lost.batch(to, &both()).last());
    });
}

fn texts(answered: &Value) -> Vec<&str> {
    let all = answered.as_array().unwrap().iter();
    all.map(|one| one["result"]["content"][0]["text"].as_str().unwrap_or_default()).collect()
}

/// The first of its requests is done when the second is killed, but nobody was told.
#[test]
fn what_was_done_of_a_batch_is_not_done_again() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-03-26");
    send_and_break(&client, server.address());
    server.until("second", 1);
    server.kill_and_restart();
    server.open("second");
    let again = client.batch(server.address(), &both()).last();
    assert_eq!(texts(&again), ["1", "2"], "{again}");
    assert_eq!([server.count("short"), server.count("first"), server.count("last")], [1, 1, 1]);
}

/// A connection that nobody is at may look open for long. What is asked is asked again when the second has
/// come to it, on the session's own stream.
#[test]
fn a_batch_is_the_same_while_the_first_is_at_work() {
    let server = Server::start();
    let client = Client::connect(server.address(), "2025-03-26");
    let mut stream = client.listen(server.address());
    let (tell, said) = mpsc::channel();
    thread::spawn(move || {
        while let Some((id, message)) = stream.message() {
            assert_eq!(id, None, "the session's stream can't be taken up from there: {message}");
            let _ = tell.send(message);
        }
    });
    let both = json!([call(1, "short", json!({ "number": 1 })), call(2, "approve", json!({}))]);
    thread::scope(|scope| {
        let send = || client.batch(server.address(), &both).last();
        let asked = || said.recv_timeout(Duration::from_secs(10)).unwrap();
        let first = scope.spawn(send);
        let lost = asked();
        let again = scope.spawn(send);
        let asked = asked();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        assert_ne!(asked["id"], lost["id"], "{asked}");
        let content = json!({ "action": "accept", "content": { "approve": true } });
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": content });
        client.say(server.address(), &answer);
        for answered in [first, again] {
            let answered = answered.join().unwrap();
            assert_eq!(texts(&answered), ["1", "done"], "{answered}");
        }
    });
    assert_eq!([server.count("short"), server.count("before"), server.count("after")], [1, 1, 1]);
}
