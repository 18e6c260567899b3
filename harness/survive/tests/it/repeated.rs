//! Requests that are made again: they are the same call.

use serde_json::{Value, json};

use crate::{
    client::{Client, Response},
    server::Server,
};

/// Those with sessions.
const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

fn work(client: &Client, server: &Server, id: Value, number: u64) -> Response {
    client.call(server.address(), id, "work", json!({ "number": number }))
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn a_request_of_the_same_id_is_the_same_call_over_a_kill() {
    for version in VERSIONS {
        let mut server = Server::start();
        let client = Client::connect(server.address(), version);
        let first = work(&client, &server, json!(5), 7);
        server.until("second", 1);
        server.kill_and_restart();
        drop(first);
        let other = work(&client, &server, json!(5), 8).last();
        assert_eq!(other["error"]["code"], -32600, "{version}: {other}");
        let again = work(&client, &server, json!(5), 7);
        server.open("second");
        let again = again.last();
        assert_eq!((text(&again), &again["id"]), ("7", &json!(5)), "{version}: {again}");
        assert_eq!([server.count("first"), server.count("last")], [1, 1], "{version}");
    }
}

#[test]
fn a_request_of_the_same_id_takes_the_place_of_the_first() {
    for version in VERSIONS {
        let server = Server::start();
        let client = Client::connect(server.address(), version);
        let first = work(&client, &server, json!("a"), 7);
        server.until("second", 1);
        let again = work(&client, &server, json!("a"), 7);
        let said = first.rest();
        assert!(said.iter().all(|message| message["id"].is_null()), "{version}: {said:?}");
        server.open("second");
        assert_eq!(text(&again.last()), "7", "{version}");
        let counts = ["first", "second", "last"].map(|effect| server.count(effect));
        assert_eq!(counts, [1, 1, 1], "{version}");
    }
}

/// The same for who takes up its stream while the first is still open.
#[test]
fn a_stream_that_is_taken_up_takes_the_place_of_the_first() {
    for version in VERSIONS {
        let server = Server::start();
        let client = Client::connect(server.address(), version);
        let mut first = work(&client, &server, json!("a"), 7);
        let (event, _) = first.message().unwrap();
        server.until("second", 1);
        let resumed = client.resume(server.address(), &event.unwrap());
        let said = first.rest();
        assert!(said.iter().all(|message| message["id"].is_null()), "{version}: {said:?}");
        server.open("second");
        assert_eq!(text(&resumed.last()), "7", "{version}");
    }
}

/// Nothing has been said yet, and its answer may still become JSON.
#[test]
fn a_request_that_waits_without_a_stream_is_replaced_as_well() {
    let server = Server::start();
    let client = Client::connect(server.address(), "2025-06-18");
    let book = || client.call(server.address(), json!(1), "book", json!({ "guest": "ada" }));
    std::thread::scope(|scope| {
        let first = scope.spawn(book);
        server.until("second", 1);
        let again = scope.spawn(book);
        let first = first.join().unwrap().rest();
        assert!(first.is_empty(), "{first:?}");
        server.open("second");
        assert_eq!(text(&again.join().unwrap().last()), "booked for ada");
    });
    assert_eq!([server.count("room"), server.count("paid")], [1, 1]);
}

/// Also when its stream was taken up in between, and broke again. (Another request may have its id then:
/// see `calls::its_id_is_free_for_who_takes_it_up`.)
#[test]
fn a_request_whose_stream_was_taken_up_is_still_the_same_call() {
    for killed in [true, false] {
        let mut server = Server::start();
        let client = Client::connect(server.address(), "2025-11-25");
        let mut first = work(&client, &server, json!(5), 7);
        let event = first.next().unwrap().id.unwrap();
        server.until("second", 1);
        drop(first);
        if killed {
            server.kill_and_restart();
        }
        let resumed = client.resume(server.address(), &event);
        assert_eq!(resumed.status, 200);
        drop(resumed);
        let again = work(&client, &server, json!(5), 7);
        server.open("second");
        let again = again.last();
        assert_eq!((text(&again), &again["id"]), ("7", &json!(5)), "killed: {killed}: {again}");
        assert_eq!([server.count("first"), server.count("last")], [1, 1], "killed: {killed}");
    }
}

/// Its question is asked where the client is now.
#[test]
fn a_question_is_asked_on_the_stream_of_the_last() {
    for killed in [false, true] {
        let mut server = Server::start();
        let client = Client::connect(server.address(), "2025-11-25");
        let approve =
            |server: &Server| client.call(server.address(), json!(1), "approve", json!({}));
        let mut first = approve(&server);
        let (_, lost) = first.message().unwrap();
        if killed {
            server.kill_and_restart();
        }
        let mut again = approve(&server);
        let (_, asked) = again.message().unwrap();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        assert!(killed || asked["id"] != lost["id"], "{asked}");
        let content = json!({ "action": "accept", "content": { "approve": true } });
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": content });
        client.say(server.address(), &answer);
        let rest = again.rest();
        assert_eq!((rest.len(), text(&rest[0])), (1, "done"), "{rest:?}");
        assert_eq!([server.count("before"), server.count("after")], [1, 1]);
    }
}

/// Clients that take up a session in a new process count from 0 again. (What was sent in the moment
/// before a kill may not be known after it: then the request is taken for the same.)
#[test]
fn an_id_whose_answer_was_sent_is_free_again() {
    for (version, resumed) in [("2025-11-25", false), ("2025-11-25", true), ("2025-03-26", false)] {
        let mut server = Server::start();
        server.open("second");
        let client = Client::connect(server.address(), version);
        let mut first = work(&client, &server, json!(1), 7);
        if resumed {
            let event = first.next().unwrap().id.unwrap();
            drop(first);
            server.until("last", 1);
            first = client.resume(server.address(), &event);
        }
        assert_eq!(text(&first.last()), "7");
        for number in [7, 8] {
            let again = work(&client, &server, json!(1), number).last();
            assert_eq!(text(&again), number.to_string(), "{version}: {again}");
            server.terminate();
            server.up();
        }
        assert_eq!(text(&work(&client, &server, json!(1), 8).last()), "8", "{version}");
        assert_eq!(server.count("last"), 4, "{version}");
    }
}

#[test]
fn an_answer_that_was_not_sent_is_kept_for_who_asks_again() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let first = work(&client, &server, json!(1), 7);
    server.until("second", 1);
    // It ends while nobody waits for it.
    server.kill_and_restart();
    drop(first);
    server.open("second");
    server.until("last", 1);
    let other = work(&client, &server, json!(1), 8).last();
    assert_eq!(other["error"]["code"], -32600, "{other}");
    assert_eq!(text(&work(&client, &server, json!(1), 7).last()), "7");
    assert_eq!([server.count("first"), server.count("last")], [1, 1]);
}

/// Nothing is ever answered to it, so that this frees it.
#[test]
fn an_id_whose_request_was_taken_back_is_free_again() {
    for killed in [false, true] {
        let mut server = Server::start();
        let client = Client::connect(server.address(), "2025-11-25");
        let first = work(&client, &server, json!(1), 7);
        server.until("second", 1);
        if killed {
            server.kill_and_restart();
        }
        let params = json!({ "requestId": 1 });
        let method = "notifications/cancelled";
        let taken_back = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        client.say(server.address(), &taken_back);
        drop(first);
        server.open("second");
        for number in [7, 8] {
            let again = work(&client, &server, json!(1), number).last();
            assert_eq!(text(&again), number.to_string(), "killed: {killed}: {again}");
        }
        assert_eq!(server.count("last"), 2, "killed: {killed}");
    }
}

/// Its client was told that it is taken back, and does not say so again.
#[test]
fn a_request_that_was_taken_back_stays_so_when_the_server_is_killed_at_once() {
    // More than once, because the moment between matters.
    for _ in 0..5 {
        let mut server = Server::start();
        let client = Client::connect(server.address(), "2025-11-25");
        let first = work(&client, &server, json!(1), 7);
        server.until("second", 1);
        let params = json!({ "requestId": 1 });
        let method = "notifications/cancelled";
        client.say(
            server.address(),
            &json!({ "jsonrpc": "2.0", "method": method, "params": params }),
        );
        server.kill_and_restart();
        drop(first);
        server.open("second");
        // Another call comes to its end, so this one has had the time to.
        assert_eq!(text(&work(&client, &server, json!(2), 8).last()), "8");
        assert_eq!(server.count("last"), 1, "only that of the other");
    }
}

/// A call that becomes a task is known by its id until its client knows the task.
#[test]
fn a_request_for_a_task_is_the_same_until_it_is_answered() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let prepare = |to, number: u64| {
        let arguments = json!({ "number": number });
        let params = json!({ "name": "prepare", "arguments": arguments, "task": {} });
        client.request(to, json!(1), "tools/call", params).last()
    };
    std::thread::scope(|scope| {
        let to = server.address();
        let first = scope.spawn(move || std::panic::catch_unwind(|| prepare(to, 7)));
        server.until("second", 1);
        server.kill_and_restart();
        assert!(first.join().unwrap().is_err(), "its connection is gone");
    });
    let other = prepare(server.address(), 8);
    assert_eq!(other["error"]["code"], -32600, "{other}");
    server.open("second");
    let again = prepare(server.address(), 7);
    assert!(again["result"]["task"]["taskId"].is_string(), "{again}");
    server.until("last", 1);
    assert_eq!(server.count("first"), 1);
    // It is answered, and its id is free.
    let other = prepare(server.address(), 8);
    assert!(other["result"]["task"]["taskId"].is_string(), "{other}");
    server.until("last", 2);
    assert_eq!(server.count("first"), 2);
}

/// In a batch of 2025-03-26 too; and a request that is refused frees nothing of the one that it resembles.
#[test]
fn a_batch_frees_the_ids_that_it_answers_and_no_others() {
    let server = Server::start();
    let client = Client::connect(server.address(), "2025-03-26");
    let first = work(&client, &server, json!(1), 7);
    server.until("second", 1);
    let call = |id: u64, number: u64| {
        let params = json!({ "name": "work", "arguments": { "number": number } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let other = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let refused = client.batch(server.address(), &json!([call(1, 8), other])).last();
    for one in refused.as_array().unwrap() {
        assert_eq!(one["error"]["code"], -32600, "{refused}");
    }
    server.open("second");
    assert_eq!(text(&first.last()), "7");
    for number in [5, 6] {
        let answered = client.batch(server.address(), &json!([call(1, number)])).last();
        assert_eq!(text(&answered[0]), number.to_string(), "{answered}");
    }
    assert_eq!(server.count("last"), 3);
}

#[test]
fn a_key_is_of_one_principal_and_of_one_request() {
    let server = Server::for_two();
    server.open("second");
    let call = |secret, id: u64, tool: &str, arguments: Value| {
        let client = Client::stateless(Some(secret));
        let to = server.address();
        client.call_stateless(to, json!(id), tool, arguments, Some("k"), json!({})).last()
    };
    let (ada, bob) = ("the-secret-of-ada", "the-secret-of-bob");
    let number = |number: u64| json!({ "number": number });
    assert_eq!(text(&call(ada, 1, "work", number(1))), "1");
    assert_eq!(text(&call(bob, 1, "work", number(2))), "2");
    assert_eq!(text(&call(ada, 2, "work", number(1))), "1");
    assert_eq!(call(ada, 3, "work", number(2))["error"]["code"], -32600);
    assert_eq!(call(ada, 4, "book", json!({ "guest": "ada" }))["error"]["code"], -32600);
    assert_eq!([server.count("last"), server.count("room")], [2, 0]);
}

/// Whatever the revision, and over different ones.
#[test]
fn a_key_is_known_in_every_revision() {
    let server = Server::start();
    server.open("second");
    let keyed = |version| {
        let client = Client::connect(server.address(), version);
        let key = json!({ "dev.steadfast/idempotency-key": "k" });
        let params = json!({ "name": "work", "arguments": { "number": 3 }, "_meta": key });
        client.request(server.address(), json!(1), "tools/call", params).last()
    };
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(text(&keyed(version)), "3", "{version}");
    }
    let client = Client::stateless(None);
    let to = server.address();
    let arguments = json!({ "number": 3 });
    let last = client.call_stateless(to, json!(9), "work", arguments, Some("k"), json!({}));
    assert_eq!(text(&last.last()), "3");
    assert_eq!([server.count("first"), server.count("last")], [1, 1]);
}

#[test]
fn a_key_that_is_none_is_refused() {
    let server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    for bad in [json!(1), json!(""), json!({}), json!("x".repeat(257))] {
        let key = json!({ "dev.steadfast/idempotency-key": bad });
        let params = json!({ "name": "work", "arguments": { "number": 3 }, "_meta": key });
        let refused = client.request(server.address(), json!(1), "tools/call", params).last();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    assert_eq!(server.count("first"), 0);
}
