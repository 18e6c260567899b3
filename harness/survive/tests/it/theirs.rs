//! A question that a client of 2025-11-25 answers by a task of its own, over a kill of the server.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{
    client::{Client, Response},
    server::{Place, Server},
};

on_each_store!(
    the_process_that_has_a_stream_follows,
    what_is_said_to_another_process_than_asked_is_heard,
);

fn connect(to: SocketAddr) -> Client {
    let tasks = json!({ "cancel": {}, "requests": { "elicitation": { "create": {} } } });
    let able = json!({ "elicitation": {}, "tasks": tasks });
    Client::connect_with(to, "2025-11-25", None, able)
}

/// The client's task in this state.
fn theirs(status: &str) -> Value {
    let time = "2025-11-25T10:30:00Z";
    json!({ "taskId": "theirs", "status": status, "createdAt": time, "lastUpdatedAt": time,
            "ttl": 60_000, "pollInterval": 100 })
}

fn reply(client: &Client, to: SocketAddr, request: &Value, result: &Value) {
    let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
    client.say(to, &answer);
}

/// The next request on a stream, which is to be this, and the id of its event.
fn next(stream: &mut Response, method: &str) -> (Option<String>, Value) {
    loop {
        let (event, message) = stream.message().expect("a request");
        if !message["id"].is_null() {
            assert_eq!(message["method"], method, "{message}");
            return (event, message);
        }
    }
}

/// Answers all that is asked of the client's task, which has come to an end.
fn end(client: &Client, to: SocketAddr, stream: &mut Response) {
    let (_, poll) = next(stream, "tasks/get");
    assert_eq!(poll["params"], json!({ "taskId": "theirs" }));
    reply(client, to, &poll, &theirs("completed"));
    let (_, wanted) = next(stream, "tasks/result");
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    reply(client, to, &wanted, &yes);
}

#[test]
fn a_call_whose_question_is_answered_by_task_goes_on() {
    for kills in [1, 2] {
        let mut server = Server::start();
        let client = connect(server.address());
        let mut stream = client.call(server.address(), json!(1), "approve", json!({}));
        let (event, question) = next(&mut stream, "elicitation/create");
        let event = event.unwrap();
        reply(&client, server.address(), &question, &json!({ "task": theirs("working") }));
        for _ in 0..kills {
            next(&mut stream, "tasks/get");
            server.kill_and_restart();
            stream = client.resume(server.address(), &event);
        }
        end(&client, server.address(), &mut stream);
        let response = stream.rest().pop().unwrap();
        assert_eq!(response["result"]["content"][0]["text"], "done", "{response}");
        assert_eq!([server.count("before"), server.count("after")], [1, 1]);
    }
}

/// Nobody has asked for the client's task yet when the server is killed: that it is there was written before
/// the client was told that its answer was taken.
#[test]
fn a_task_whose_question_is_answered_by_task_goes_on() {
    let mut server = Server::start();
    let client = connect(server.address());
    let mut stream = client.listen(server.address());
    let params = json!({ "name": "approve", "arguments": {}, "task": {} });
    let created = client.request(server.address(), json!(1), "tools/call", params).last();
    let task = json!({ "taskId": created["result"]["task"]["taskId"] });
    client.request(server.address(), json!(2), "tasks/get", task.clone()).last();
    let (event, question) = next(&mut stream, "elicitation/create");
    reply(&client, server.address(), &question, &json!({ "task": theirs("working") }));
    server.kill_and_restart();
    let mut stream = client.resume(server.address(), &event.unwrap());
    end(&client, server.address(), &mut stream);
    let done = client.request(server.address(), json!(3), "tasks/result", task).last();
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
}

/// The answer comes to another process than the one that has the stream.
fn the_process_that_has_a_stream_follows(place: Place) {
    let server = Server::on(place, 10, &[]);
    let beside = server.beside();
    let client = connect(server.address());
    let mut stream = client.call(server.address(), json!(1), "approve", json!({}));
    let (_, question) = next(&mut stream, "elicitation/create");
    reply(&client, beside.address, &question, &json!({ "task": theirs("working") }));
    end(&client, server.address(), &mut stream);
    let response = stream.rest().pop().unwrap();
    assert_eq!(response["result"]["content"][0]["text"], "done", "{response}");
}

/// All that the client says goes to another process than the one that has the stream and asks.
fn what_is_said_to_another_process_than_asked_is_heard(place: Place) {
    let server = Server::on(place, 10, &[]);
    let beside = server.beside();
    let client = connect(server.address());
    let mut stream = client.call(server.address(), json!(1), "approve", json!({}));
    let (_, question) = next(&mut stream, "elicitation/create");
    reply(&client, beside.address, &question, &json!({ "task": theirs("working") }));
    end(&client, beside.address, &mut stream);
    let rest = stream.rest();
    assert_eq!(rest.len(), 1, "its task is not cancelled: {rest:?}");
    assert_eq!(rest[0]["result"]["content"][0]["text"], "done", "{rest:?}");
    assert_eq!([server.count("before"), server.count("after")], [1, 1]);
}
