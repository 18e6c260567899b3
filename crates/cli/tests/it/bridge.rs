//! `steadfast connect`, as a client of stdio sees it.

use std::time::Duration;

use serde_json::json;

use crate::{
    server::{Server, until},
    stdio::Client,
};

#[test]
fn a_call_of_a_session_goes_on_over_a_kill_and_is_answered_once() {
    for revision in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let mut server = Server::start();
        let mut client = Client::legacy(&server, revision);
        // More than a float can hold, and an id that is none of ours.
        let (id, number) = (json!("a/b \"c\""), 9_007_199_254_740_993_u64);
        client.call(&id, "work", json!({ "number": number }));
        client.find(|message| message["params"]["data"] == "it begins");
        server.until("second", 1);
        server.kill_and_restart();
        server.open("second");
        assert_eq!(client.text(&id), number.to_string(), "{revision}");
        let ended = client.program.end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let answers =
            ended.out.lines().filter(|line| line.contains("a/b") && line.contains("result"));
        assert_eq!(answers.count(), 1, "{ended:?}");
        assert_eq!([server.count("first"), server.count("last")], [1, 1]);
    }
}

#[test]
fn questions_and_answers_go_through_also_over_a_kill() {
    let mut server = Server::start();
    let mut client = Client::legacy(&server, "2025-11-25");
    client.call(&json!(1), "approve", json!({}));
    let asked = client.find(|message| message["method"] == "elicitation/create");
    server.kill_and_restart();
    let answer = json!({ "action": "accept", "content": { "approve": true } });
    client.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
    assert_eq!(client.text(&json!(1)), "done");
    assert_eq!([server.count("before"), server.count("after")], [1, 1]);
}

/// A task of 2025-11-25 asks on the session's own stream, when the client has looked at it.
#[test]
fn the_sessions_own_stream_comes_through_also_after_a_kill() {
    let mut server = Server::start();
    let mut client = Client::legacy(&server, "2025-11-25");
    let call = json!({ "name": "approve", "arguments": {}, "task": {} });
    client.request(&json!(1), "tools/call", call);
    let task = client.answer(&json!(1))["result"]["task"]["taskId"].clone();
    server.until("before", 1);
    server.kill_and_restart();
    let mut id = 10;
    let mut asked = None;
    until("it is asked", || {
        id += 1;
        client.request(&json!(id), "tasks/get", json!({ "taskId": task }));
        client.answer(&json!(id));
        asked = client.heard().into_iter().find(|one| one["method"] == "elicitation/create");
        asked.is_some()
    });
    let answer = json!({ "action": "decline" });
    client.say(&json!({ "jsonrpc": "2.0", "id": asked.unwrap()["id"], "result": answer }));
    client.request(&json!(2), "tasks/result", json!({ "taskId": task }));
    assert_eq!(client.text(&json!(2)), "declined");
}

#[test]
fn a_client_of_2026_07_28_has_its_headers_its_rounds_and_its_tasks() {
    let mut server = Server::start();
    let mut client = Client::modern(&server, &[], false);
    client.request(&json!(1), "server/discover", json!({}));
    assert!(client.answer(&json!(1))["result"]["supportedVersions"].is_array());
    client.call(&json!(2), "route", json!({ "region": "Zürich" }));
    assert_eq!(client.text(&json!(2)), "to Zürich");
    client.call(&json!(3), "approve", json!({}));
    let asked = client.answer(&json!(3))["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    server.kill_and_restart();
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answer = json!({ "action": "accept", "content": { "approve": true } });
    client.request(
        &json!(4),
        "tools/call",
        json!({ "name": "approve", "arguments": {},
        "inputResponses": { key: answer }, "requestState": asked["requestState"] }),
    );
    assert_eq!(client.text(&json!(4)), "done");

    let mut client = Client::modern(&server, &[], true);
    client.call(&json!("t"), "work", json!({ "number": 3 }));
    let task = client.answer(&json!("t"))["result"]["taskId"].clone();
    server.until("second", 1);
    server.kill_and_restart();
    client.request(&json!("g"), "tasks/get", json!({ "taskId": task }));
    assert_eq!(client.answer(&json!("g"))["result"]["status"], "working");
}

/// Nobody knows how far it came, so it is not made again; a subscription is, and the client does not
/// notice.
#[test]
fn of_2026_07_28_a_call_that_broke_is_an_error_and_a_subscription_goes_on() {
    let mut server = Server::start();
    let mut client = Client::modern(&server, &[], true);
    client.call(&json!("t"), "work", json!({ "number": 3 }));
    let task = client.answer(&json!("t"))["result"]["taskId"].clone();
    let wanted = json!({ "notifications": { "taskIds": [task] } });
    client.request(&json!("l"), "subscriptions/listen", wanted);
    const BEGUN: &str = "notifications/subscriptions/acknowledged";
    client.find(|message| message["method"] == BEGUN);
    let mut plain = Client::modern(&server, &[], false);
    plain.call(&json!("p"), "work", json!({ "number": 4 }));
    server.until("second", 2);
    server.kill_and_restart();
    let broken = plain.answer(&json!("p"));
    assert_eq!(broken["error"]["code"], -32000, "{broken}");
    // The end of the task is told whenever the subscription is begun anew.
    server.open("second");
    client.find(|message| {
        message["method"] == "notifications/tasks" && message["params"]["status"] == "completed"
    });
    let begun = client.heard().into_iter().filter(|message| message["method"] == BEGUN);
    assert_eq!(begun.count(), 1);
}

#[test]
fn requests_while_the_server_is_down_wait_for_it_or_fail_in_time() {
    let mut server = Server::start();
    let mut client = Client::legacy(&server, "2025-11-25");
    server.kill();
    client.request(&json!(1), "ping", json!({}));
    client.request(&json!(2), "tools/list", json!({}));
    server.up();
    assert_eq!(client.answer(&json!(1))["result"], json!({}));
    assert!(client.answer(&json!(2))["result"]["tools"].is_array());

    let down = Server::down();
    let mut client = Client::modern(&down, &["--wait", "1"], false);
    client.request(&json!("x"), "tools/list", json!({}));
    let answer = client.answer(&json!("x"));
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("can't be reached"), "{answer}");
}

#[test]
fn what_is_taken_back_is_cancelled_and_not_answered() {
    for modern in [false, true] {
        let server = Server::with(&["--anonymous-list"]);
        let mut client = match modern {
            true => Client::modern(&server, &[], false),
            false => Client::legacy(&server, "2025-11-25"),
        };
        client.call(&json!(7), "work", json!({ "number": 1 }));
        server.until("second", 1);
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                            "params": { "requestId": 7 } }));
        let mut other = Client::legacy(&server, "2025-11-25");
        let mut id = 10;
        until("the server has heard of it", || {
            id += 1;
            other.request(&json!(id), "tasks/list", json!({}));
            other.answer(&json!(id))["result"]["tasks"][0]["status"] == "cancelled"
        });
        server.open("second");
        client.call(&json!(8), "work", json!({ "number": 2 }));
        assert_eq!(client.text(&json!(8)), "2", "modern: {modern}");
        assert_eq!(server.count("last"), 1, "modern: {modern}");
        let ended = client.program.end();
        assert!(!ended.out.contains("\"id\":7"), "{ended:?}");
    }
}

#[test]
fn when_the_client_leaves_the_work_of_its_session_goes_on() {
    let server = Server::start();
    let mut client = Client::legacy(&server, "2025-11-25");
    client.call(&json!(1), "work", json!({ "number": 1 }));
    // At once: the call is still on its way.
    let ended = client.program.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    server.open("second");
    server.until("last", 1);
}

/// Idle for too long: over HTTP a client would hear of it, and begin anew.
#[test]
fn a_session_that_the_server_has_forgotten_is_begun_anew() {
    let mut server = Server::with(&["--session-idle-seconds", "1"]);
    let mut client = Client::legacy(&server, "2025-11-25");
    server.kill();
    std::thread::sleep(Duration::from_millis(1_400));
    server.up();
    client.call(&json!(1), "greet", json!({ "name": "Ada" }));
    assert_eq!(client.text(&json!(1)), "Hello, Ada!");
    assert_eq!(client.heard().iter().filter(|message| message["id"] == 0).count(), 1);
}

#[test]
fn a_session_that_is_begun_anew_has_what_the_client_had_set() {
    let mut server = Server::with(&["--session-idle-seconds", "1"]);
    let mut client = Client::legacy(&server, "2025-11-25");
    client.request(&json!(1), "resources/subscribe", json!({ "uri": "test://board" }));
    client.request(&json!(2), "logging/setLevel", json!({ "level": "error" }));
    for id in [1, 2] {
        assert_eq!(client.answer(&json!(id))["result"], json!({}));
    }
    server.kill();
    // Longer than it may be idle.
    std::thread::sleep(Duration::from_millis(1_400));
    server.up();
    server.open("second");
    client.call(&json!(3), "work", json!({ "number": 3 }));
    assert_eq!(client.text(&json!(3)), "3");
    let heard = client.heard();
    let logs = heard.iter().filter(|message| message["method"] == "notifications/message");
    assert_eq!(logs.count(), 0, "{heard:?}");
    let mut other = Client::legacy(&server, "2025-11-25");
    other.call(&json!(1), "publish", json!({}));
    client.find(|message| message["method"] == "notifications/resources/updated");
    let ended = client.program.end();
    assert!(!ended.out.contains("again:"), "none of the client's business: {ended:?}");
}

/// A client of 2026-07-28 has no way to take more back than its request.
#[test]
fn of_2026_07_28_what_is_taken_back_with_a_key_goes_on_under_it() {
    let server = Server::start();
    let mut client = Client::modern(&server, &[], false);
    client.key("k");
    client.call(&json!(7), "work", json!({ "number": 1 }));
    server.until("second", 1);
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": { "requestId": 7 } }));
    client.program.until_said("its work goes on under its key");
    server.open("second");
    server.until("last", 1);
    client.call(&json!(8), "work", json!({ "number": 1 }));
    assert_eq!(client.text(&json!(8)), "1");
    assert_eq!([server.count("first"), server.count("last")], [1, 1]);
    let ended = client.program.end();
    assert!(!ended.out.contains("\"id\":7"), "{ended:?}");
}

#[test]
fn nonsense_is_answered_and_does_no_harm() {
    let server = Server::start();
    let mut client = Client::modern(&server, &[], false);
    client.program.line("what?");
    client.program.line("{\"id\": 5}");
    client.program.line("");
    client.request(&json!(6), "no/such", json!({}));
    assert_eq!(client.find(|one| one["id"].is_null())["error"]["code"], -32700);
    assert_eq!(client.answer(&json!(5))["error"]["code"], -32600);
    assert_eq!(client.answer(&json!(6))["error"]["code"], -32601);
}
