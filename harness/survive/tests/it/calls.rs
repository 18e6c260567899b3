//! A call in the middle of which the server is killed.

use serde_json::{Value, json};

use crate::{client::Client, server::Server};

/// What was said, without what differs from message to message by itself.
fn said(messages: &[Value]) -> Vec<String> {
    let word = |message: &Value| match message["method"].as_str() {
        Some("notifications/progress") => format!("progress {}", message["params"]["progress"]),
        Some("notifications/message") => format!("log {}", message["params"]["data"]),
        Some(method) => method.to_owned(),
        None => "response".into(),
    };
    messages.iter().map(word).collect()
}

/// Calls `work`, kills the server in its second step, and takes the stream up again.
fn over_a_kill(version: &'static str, id: &Value, number: u64) {
    let mut server = Server::start();
    let client = Client::connect(server.address(), version);
    let mut stream = client.call(server.address(), id.clone(), "work", json!({ "number": number }));
    let mut before = Vec::new();
    let mut last = None;
    while before.len() < 3 {
        let (event, message) = stream.message().unwrap();
        last = event;
        before.push(message);
    }
    server.until("second", 1);
    server.kill();
    assert!(stream.next().is_none(), "the connection is gone");
    server.up();
    server.until("second", 2);
    let resumed = client.resume(server.address(), &last.unwrap());
    assert_eq!(resumed.status, 200);
    server.open("second");
    let after = resumed.rest();

    assert_eq!(said(&before), ["progress 1", "log \"the same\"", "log \"the same\""], "{version}");
    assert_eq!(said(&after), ["progress 2", "response"], "{version}");
    let response = after.last().unwrap();
    assert_eq!(response["id"], *id, "{version}");
    assert_eq!(response["result"]["content"][0]["text"], number.to_string(), "{response}");
    assert_eq!([server.count("first"), server.count("second"), server.count("last")], [1, 2, 1]);
}

#[test]
fn it_goes_on_and_is_answered_once() {
    for (version, id) in [
        ("2025-11-25", json!(7)),
        ("2025-11-25", json!("a/b c\"d.1.2")),
        ("2025-11-25", json!(-9_007_199_254_740_993_i64)),
        ("2025-06-18", json!("x")),
        ("2025-03-26", json!(0)),
    ] {
        // More than a float can hold.
        over_a_kill(version, &id, 9_007_199_254_740_993);
    }
}

/// Killed before anything was said: the first event of a stream says from where it can be taken up.
#[test]
fn what_was_missed_comes_first() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let mut stream = client.call(server.address(), json!(1), "work", json!({ "number": 5 }));
    let first = stream.next().unwrap();
    assert!(first.message.is_none(), "{first:?}");
    server.until("second", 1);
    server.kill_and_restart();
    server.open("second");
    // Twice: it can break again, and the second time everything is over.
    for _ in 0..2 {
        let all = client.resume(server.address(), first.id.as_ref().unwrap()).rest();
        let expected =
            ["progress 1", "log \"the same\"", "log \"the same\"", "progress 2", "response"];
        assert_eq!(said(&all), expected);
    }
    assert_eq!(server.count("last"), 1);
}

#[test]
fn a_prompt_goes_on_as_well() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let get = json!({ "name": "interview", "arguments": { "topic": "ships" } });
    let mut stream = client.request(server.address(), json!("p"), "prompts/get", get);
    let event = stream.next().unwrap().id.unwrap();
    server.until("second", 1);
    server.kill_and_restart();
    server.open("second");
    let response = client.resume(server.address(), &event).last();
    assert_eq!(response["id"], "p");
    let text = &response["result"]["messages"][0]["content"]["text"];
    assert_eq!(text, "Ask about ships.", "{response}");
    assert_eq!(server.count("look up"), 1);
}

#[test]
fn a_resource_goes_on_as_well() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let read = json!({ "uri": "test://report" });
    let mut stream = client.request(server.address(), json!("r"), "resources/read", read);
    let event = stream.next().unwrap().id.unwrap();
    server.until("second", 1);
    server.kill_and_restart();
    server.open("second");
    let response = client.resume(server.address(), &event).last();
    assert_eq!(response["id"], "r");
    let text = &response["result"]["contents"][0]["text"];
    assert_eq!(text, "all is well", "{response}");
    assert_eq!(server.count("look up"), 1);
}

#[test]
fn several_calls_each_have_their_own_stream() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let begun: Vec<String> = (0..5)
        .map(|n| {
            let arguments = json!({ "number": n });
            let mut stream = client.call(server.address(), json!(n), "work", arguments);
            stream.next().unwrap().id.unwrap()
        })
        .collect();
    server.until("second", 5);
    server.kill_and_restart();
    server.open("second");
    for (n, id) in begun.iter().enumerate() {
        let response = client.resume(server.address(), id).last();
        assert_eq!(response["id"], n, "{response}");
        assert_eq!(response["result"]["content"][0]["text"], n.to_string(), "{response}");
    }
    assert_eq!([server.count("first"), server.count("last")], [5, 5]);
}

/// A new process that takes up a call counts its requests from 0 again, and comes to the id of the call
/// while that is at work.
#[test]
fn its_id_is_free_for_who_takes_it_up() {
    for killed in [true, false] {
        let mut server = Server::start();
        let client = Client::connect(server.address(), "2025-11-25");
        let mut stream = client.call(server.address(), json!(1), "work", json!({ "number": 5 }));
        let event = stream.next().unwrap().id.unwrap();
        server.until("second", 1);
        drop(stream);
        if killed {
            server.kill_and_restart();
        }
        let resumed = client.resume(server.address(), &event);
        let other = client.call(server.address(), json!(1), "work", json!({ "number": 6 }));
        assert_eq!([resumed.status, other.status], [200, 200], "killed: {killed}");
        server.open("second");
        for (stream, number) in [(resumed, "5"), (other, "6")] {
            let response = stream.last();
            assert_eq!(response["id"], 1, "{response}");
            assert_eq!(response["result"]["content"][0]["text"], number, "{response}");
        }
        assert_eq!([server.count("first"), server.count("last")], [2, 2]);
    }
}

#[test]
fn unknown_and_foreign_events_are_refused_at_once() {
    let mut server = Server::for_two();
    let ada = Client::connect_as(server.address(), "2025-11-25", Some("the-secret-of-ada"));
    let mut stream = ada.call(server.address(), json!(1), "work", json!({ "number": 5 }));
    let event = stream.next().unwrap().id.unwrap();
    server.until("second", 1);
    server.kill_and_restart();
    let bob = Client::connect_as(server.address(), "2025-11-25", Some("the-secret-of-bob"));
    let other = Client::connect_as(server.address(), "2025-11-25", Some("the-secret-of-ada"));
    for (client, event) in [
        (&bob, event.as_str()),
        (&other, event.as_str()),
        (&ada, "0123456789abcdef0123456789abcdef.0.0."),
        (&ada, "nonsense"),
        (&ada, "a/b.1.2.3"),
    ] {
        assert_eq!(client.resume(server.address(), event).status, 400, "{event}");
    }
    server.open("second");
    assert_eq!(ada.resume(server.address(), &event).last()["id"], 1);
}

/// Taken back after the restart, or on a stream that was taken up again: its work stops, and nothing is
/// answered.
#[test]
fn it_can_be_cancelled_when_its_stream_broke() {
    for (killed, resumed) in [(true, false), (true, true), (false, true)] {
        let mut server = Server::start();
        let client = Client::connect(server.address(), "2025-11-25");
        let mut stream =
            client.call(server.address(), json!("c/1"), "work", json!({ "number": 5 }));
        let event = stream.next().unwrap().id.unwrap();
        server.until("second", 1);
        drop(stream);
        if killed {
            server.kill_and_restart();
            server.until("second", 2);
        }
        let stream = resumed.then(|| client.resume(server.address(), &event));
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                             "params": { "requestId": "c/1" } });
        client.say(server.address(), &cancel);
        if let Some(stream) = stream {
            assert!(!said(&stream.rest()).contains(&"response".to_owned()), "killed: {killed}");
        }
        server.open("second");
        // Another call of the same tool comes to its end, so this one has had the time to.
        client.call(server.address(), json!(2), "work", json!({ "number": 6 })).last();
        assert_eq!(server.count("last"), 1, "only that of the other");
        let again = client.resume(server.address(), &event).rest();
        assert!(!said(&again).contains(&"response".to_owned()), "nor later");
    }
}
