//! A session's own stream, over a server that is killed.

use serde_json::{Value, json};

use crate::{
    client::{Client, Event, Response},
    server::Server,
};

const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

fn subscribe(client: &Client, server: &Server) {
    let params = json!({ "uri": "test://board" });
    let done = client.request(server.address(), json!(1), "resources/subscribe", params).last();
    assert_eq!(done["result"], json!({}), "{done}");
}

/// Another client changes what is watched.
fn publish(server: &Server) {
    let client = Client::connect(server.address(), "2025-11-25");
    let done = client.call(server.address(), json!(1), "publish", json!({})).last();
    assert!(done["result"].is_object(), "{done}");
}

fn next(stream: &mut Response) -> (Option<String>, Value) {
    stream.message().expect("a message")
}

fn is_update(message: &Value) {
    assert_eq!(message["method"], "notifications/resources/updated", "{message}");
    assert_eq!(message["params"]["uri"], "test://board", "{message}");
}

#[test]
fn what_was_missed_comes_once_and_what_was_heard_does_not_come_again() {
    for version in VERSIONS {
        let mut server = Server::start();
        let client = Client::connect(server.address(), version);
        subscribe(&client, &server);
        let mut stream = client.listen(server.address());
        publish(&server);
        let (heard, first) = next(&mut stream);
        is_update(&first);
        server.kill_and_restart();
        publish(&server);
        publish(&server);
        server.kill_and_restart();
        let mut stream = client.resume(server.address(), &heard.unwrap());
        assert_eq!(stream.status, 200);
        is_update(&next(&mut stream).1);
        let (heard, third) = next(&mut stream);
        is_update(&third);
        // And then live: nothing comes in between.
        drop(stream);
        let mut stream = client.resume(server.address(), &heard.unwrap());
        publish(&server);
        let (last, fourth) = next(&mut stream);
        is_update(&fourth);
        let mut stream = client.resume(server.address(), &last.unwrap());
        publish(&server);
        is_update(&next(&mut stream).1);
        server.kill();
        assert_eq!(stream.rest().len(), 0, "{version}: one for each");
        server.up();
        assert_eq!(server.count("write"), 5);
    }
}

/// The call that told of it goes on after the kill, from its beginning.
#[test]
fn what_was_told_in_the_middle_of_a_call_is_not_told_again_by_its_replay() {
    for version in VERSIONS {
        let mut server = Server::start();
        let client = Client::connect(server.address(), version);
        subscribe(&client, &server);
        let mut stream = client.listen(server.address());
        let caller = Client::connect(server.address(), "2025-11-25");
        let mut call = caller.call(server.address(), json!(1), "rewrite", json!({}));
        let begun = call.next().unwrap().id.unwrap();
        let (heard, first) = next(&mut stream);
        is_update(&first);
        server.until("second", 1);
        server.kill_and_restart();
        let mut stream = client.resume(server.address(), &heard.unwrap());
        server.until("second", 2);
        server.open("second");
        let done = caller.resume(server.address(), &begun).last();
        assert!(done["result"].is_object(), "{done}");
        is_update(&next(&mut stream).1);
        assert_eq!(server.count("write"), 2);
        server.kill();
        assert_eq!(stream.rest().len(), 0, "{version}: one for each");
    }
}

/// 2025-11-25 says first of all from where a stream can be taken up.
#[test]
fn it_can_be_taken_up_before_anything_was_said() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    subscribe(&client, &server);
    let Event { id, message } = client.listen(server.address()).next().unwrap();
    assert!(message.is_none());
    server.kill_and_restart();
    publish(&server);
    is_update(&next(&mut client.resume(server.address(), &id.unwrap())).1);
}

#[test]
fn who_does_not_watch_hears_nothing() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    publish(&server);
    subscribe(&client, &server);
    let mut stream = client.listen(server.address());
    publish(&server);
    is_update(&next(&mut stream).1);
    let params = json!({ "uri": "test://board" });
    client.request(server.address(), json!(2), "resources/unsubscribe", params).last();
    publish(&server);
    server.deploy("--more");
    let mut stream = client.listen(server.address());
    let (_, message) = next(&mut stream);
    assert_eq!(message["method"], "notifications/tools/list_changed", "{message}");
}

/// Whether it was killed after that or not.
#[test]
fn a_session_is_told_once_that_the_offer_is_another() {
    for (version, killed) in
        VERSIONS.into_iter().flat_map(|version| [(version, true), (version, false)])
    {
        let mut server = Server::start();
        let client = Client::connect(server.address(), version);
        subscribe(&client, &server);
        server.deploy("--more");
        for told in [true, false] {
            if !told && killed {
                server.kill_and_restart();
            }
            let mut stream = client.listen(server.address());
            publish(&server);
            let (_, message) = next(&mut stream);
            if told {
                let method = "notifications/tools/list_changed";
                assert_eq!(message["method"], method, "{version}: {message}");
                is_update(&next(&mut stream).1);
            } else {
                is_update(&message);
            }
        }
    }
}

/// Who takes its stream up from before it was told did not hear it, whatever is written down; who does so
/// from there on did.
#[test]
fn a_session_that_missed_that_the_offer_is_another_is_told_again() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    subscribe(&client, &server);
    let begin = client.listen(server.address()).next().unwrap().id.unwrap();
    server.deploy("--more");
    let mut heard = begin.clone();
    for (from_begin, told) in [(true, true), (true, true), (false, false)] {
        let from = if from_begin { &begin } else { &heard };
        let mut stream = client.resume(server.address(), from);
        publish(&server);
        let (id, message) = next(&mut stream);
        match told {
            true => {
                let method = "notifications/tools/list_changed";
                assert_eq!(message["method"], method, "{message}");
                is_update(&next(&mut stream).1);
                heard = id.unwrap();
            }
            false => is_update(&message),
        }
        server.kill_and_restart();
    }
}

/// Also when it was said on the stream before.
#[test]
fn progress_of_a_task_rises_over_a_kill() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let mut stream = client.listen(server.address());
    let params = json!({ "name": "work", "arguments": { "number": 1 }, "task": {},
                         "_meta": { "progressToken": "p" } });
    client.request(server.address(), json!(1), "tools/call", params).last();
    let progress = |stream: &mut Response| loop {
        let (_, message) = next(stream);
        if message["method"] == "notifications/progress" {
            return message["params"]["progress"].clone();
        }
    };
    assert_eq!(progress(&mut stream), 1);
    server.until("second", 1);
    server.kill_and_restart();
    let mut stream = client.listen(server.address());
    server.until("second", 2);
    server.open("second");
    assert_eq!(progress(&mut stream), 2, "0.5 is less than before");
}

#[test]
fn an_event_of_another_session_or_of_no_stream_is_refused() {
    let server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let other = Client::connect(server.address(), "2025-11-25");
    let id = client.listen(server.address()).next().unwrap().id.unwrap();
    assert_eq!(client.resume(server.address(), &id).status, 200);
    assert_eq!(other.resume(server.address(), &id).status, 400);
    for bad in [format!("{id}9"), format!("{id}.x"), "s-0-0".into(), "s-".into()] {
        assert_eq!(client.resume(server.address(), &bad).status, 400, "{bad}");
    }
}

/// A question of a task of 2025-11-25 goes out on the session's own stream.
#[test]
fn a_question_that_was_asked_on_it_is_not_asked_again() {
    for has_it in [true, false] {
        let mut server = Server::start();
        let client = Client::connect(server.address(), "2025-11-25");
        let mut stream = client.listen(server.address());
        let begin = stream.next().unwrap().id.unwrap();
        let params = json!({ "name": "approve", "arguments": {}, "task": {} });
        let created = client.request(server.address(), json!(1), "tools/call", params).last();
        let task = json!({ "taskId": created["result"]["task"]["taskId"] });
        let get = |server: &Server| {
            client.request(server.address(), json!(2), "tasks/get", task.clone()).last()
        };
        get(&server);
        let (id, question) = loop {
            let (id, message) = next(&mut stream);
            if message["method"] == "elicitation/create" {
                break (id.unwrap(), message);
            }
        };
        server.kill_and_restart();
        let mut stream = client.resume(server.address(), if has_it { &id } else { &begin });
        get(&server);
        if !has_it {
            let (_, again) = next(&mut stream);
            assert_eq!(again["method"], "elicitation/create", "{again}");
        }
        let content = json!({ "action": "accept", "content": { "approve": true } });
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": content });
        client.say(server.address(), &answer);
        server.until("after", 1);
        let (_, message) = next(&mut stream);
        assert_eq!(message["method"], "notifications/tasks/status", "{message}");
        assert_eq!([server.count("before"), server.count("after")], [1, 1]);
    }
}

/// State of a session, and of its principal, over a kill; gone with the session.
#[test]
fn a_session_has_state_of_its_own() {
    let mut server = Server::start();
    let visit = |client: &Client, server: &Server| {
        let done = client.call(server.address(), json!(1), "visits", json!({})).last();
        done["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    let one = Client::connect(server.address(), "2025-11-25");
    let two = Client::connect(server.address(), "2025-03-26");
    assert_eq!(visit(&one, &server), "1 of 1");
    assert_eq!(visit(&two, &server), "1 of 2");
    server.kill_and_restart();
    assert_eq!(visit(&one, &server), "2 of 3");
    let stateless = Client::stateless(None);
    let to = server.address();
    let none = stateless.call_stateless(to, json!(1), "visits", json!({}), None, json!({})).last();
    assert_eq!(none["result"]["isError"], true, "{none}");
    let text = none["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("no session"), "{text}");
}
