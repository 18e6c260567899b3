//! A call that asks, over a kill.

use serde_json::{Value, json};

use crate::{client::Client, server::Server};

struct Asked {
    server: Server,
    client: Client,
    /// The event before the question, and that of the question.
    events: [String; 2],
    question: Value,
}

/// Calls `approve` and kills the server when it has asked.
fn asked() -> Asked {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let mut stream = client.call(server.address(), json!(1), "approve", json!({}));
    let begun = stream.next().unwrap().id.unwrap();
    let (event, question) = stream.message().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    server.kill_and_restart();
    Asked { server, client, events: [begun, event.unwrap()], question }
}

fn answer(asked: &Asked, id: &Value, outcome: Value) {
    let mut message = json!({ "jsonrpc": "2.0", "id": id });
    for (name, value) in outcome.as_object().unwrap() {
        message[name] = value.clone();
    }
    asked.client.say(asked.server.address(), &message);
}

/// The text of a response, which is all that comes.
fn only(messages: &[Value]) -> &Value {
    assert_eq!(messages.len(), 1, "{messages:?}");
    &messages[0]["result"]["content"][0]["text"]
}

#[test]
fn who_has_seen_it_is_not_asked_again() {
    let asked = asked();
    let stream = asked.client.resume(asked.server.address(), &asked.events[1]);
    let yes = json!({ "result": { "action": "accept", "content": { "approve": true } } });
    answer(&asked, &asked.question["id"], yes.clone());
    assert_eq!(only(&stream.rest()), "done");
    // A second answer changes nothing.
    answer(&asked, &asked.question["id"], yes);
    assert_eq!([asked.server.count("before"), asked.server.count("after")], [1, 1]);
}

#[test]
fn who_has_not_is_asked_once() {
    let asked = asked();
    let mut stream = asked.client.resume(asked.server.address(), &asked.events[0]);
    let (_, again) = stream.message().unwrap();
    assert_eq!(again["method"], "elicitation/create", "{again}");
    assert_eq!(again["params"]["message"], asked.question["params"]["message"]);
    let no = json!({ "result": { "action": "accept", "content": { "approve": false } } });
    answer(&asked, &again["id"], no);
    assert_eq!(only(&stream.rest()), "left");
    assert_eq!([asked.server.count("before"), asked.server.count("after")], [1, 1]);
}

/// The answer to the question of the dead server, before the stream is taken up, on a connection of its
/// own.
#[test]
fn the_answer_may_come_first() {
    for (outcome, text) in [
        (json!({ "result": { "action": "accept", "content": { "approve": true } } }), "done"),
        (json!({ "result": { "action": "decline" } }), "declined"),
        (json!({ "result": { "action": "cancel" } }), "dismissed"),
    ] {
        let asked = asked();
        answer(&asked, &asked.question["id"], outcome);
        asked.server.until("after", 1);
        let stream = asked.client.resume(asked.server.address(), &asked.events[0]);
        assert_eq!(only(&stream.rest()), text);
    }
}

/// Killed again and again while it is open.
#[test]
fn it_stays_open_over_any_number_of_kills() {
    let mut asked = asked();
    for _ in 0..3 {
        let mut stream = asked.client.resume(asked.server.address(), &asked.events[0]);
        let (_, question) = stream.message().unwrap();
        assert_eq!(question["method"], "elicitation/create");
        asked.server.kill_and_restart();
    }
    let yes = json!({ "result": { "action": "accept", "content": { "approve": true } } });
    answer(&asked, &asked.question["id"], yes);
    let stream = asked.client.resume(asked.server.address(), &asked.events[1]);
    assert_eq!(only(&stream.rest()), "done");
    assert_eq!([asked.server.count("before"), asked.server.count("after")], [1, 1]);
}
