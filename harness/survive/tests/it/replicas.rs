//! Any request to any of two processes that share a store: what was begun in one is seen, answered, cancelled
//! and taken up in the other.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    client::{Client, Response},
    server::{Beside, Place, Server},
};

on_each_store!(
    a_task_is_seen_and_answered_in_the_other,
    a_task_of_2025_is_asked_for_in_the_other_and_answered_in_the_first,
    a_cancel_reaches_a_step_that_runs_in_the_other,
    a_cancel_that_overtakes_its_call_in_the_other_wins,
    a_copy_of_a_request_that_waited_in_a_process_that_stood_still_does_nothing,
    nor_does_one_of_a_request_that_was_taken_back_meanwhile,
    a_call_whose_process_is_killed_is_taken_up_in_the_other,
    who_listens_in_the_other_hears_of_it,
    the_same_key_is_the_same_call_in_both,
    a_process_that_is_told_to_stop_hands_over_at_once,
    two_clocks_that_are_minutes_apart,
);

/// So long that nothing here can wait for it.
const LONG: u64 = 600;

/// Two processes.
fn pair(place: Place, lease: u64) -> (Server, Beside) {
    let one = Server::on(place, lease, &[]);
    let two = one.beside();
    (one, two)
}

/// A request of 2026-07-28, by a client that knows tasks.
pub(crate) fn modern(to: SocketAddr, method: &str, name: &str, mut params: Value) -> Response {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": { "form": {} },
            "extensions": { "io.modelcontextprotocol/tasks": {} },
        },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    Client::stateless(None).send_stateless(to, name, &body)
}

/// Makes a task.
pub(crate) fn task(to: SocketAddr, tool: &str, arguments: Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    let made = modern(to, "tools/call", tool, params).last();
    made["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

/// Looks at a task until it is so.
pub(crate) fn until(to: SocketAddr, task: &str, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let got = modern(to, "tasks/get", task, json!({ "taskId": task })).last();
        if got["result"]["status"] == status {
            return got["result"].clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "not {status}: {got}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

fn accept() -> Value {
    json!({ "action": "accept", "content": { "approve": true } })
}

fn a_task_is_seen_and_answered_in_the_other(place: Place) {
    let (one, two) = pair(place, LONG);
    let made = task(one.address(), "approve", json!({}));
    let asks = until(two.address, &made, "input_required");
    let asked = asks["inputRequests"].as_object().unwrap();
    let answers: Value = asked.keys().map(|key| (key.clone(), accept())).collect();
    let update = json!({ "taskId": made, "inputResponses": answers });
    let heard = modern(two.address, "tasks/update", &made, update).last();
    assert!(heard["result"].is_object(), "{heard}");
    let done = until(one.address(), &made, "completed");
    assert_eq!(text(&done["result"]), "done");
    assert_eq!([one.count("before"), one.count("after")], [1, 1]);
}

fn a_task_of_2025_is_asked_for_in_the_other_and_answered_in_the_first(place: Place) {
    let (one, two) = pair(place, LONG);
    let client = Client::connect(one.address(), "2025-11-25");
    let params = json!({ "name": "approve", "arguments": {}, "task": {} });
    let made = client.request(one.address(), json!(1), "tools/call", params).last();
    let named = json!({ "taskId": made["result"]["task"]["taskId"] });
    let mut stream = client.request(two.address, json!(2), "tasks/result", named);
    let (_, question) = stream.message().expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": accept() });
    client.say(one.address(), &answer);
    let response = stream.rest().pop().unwrap();
    assert_eq!(text(&response["result"]), "done");
    assert_eq!([one.count("before"), one.count("after")], [1, 1]);
}

/// It has no way to end by itself, and its process lives.
fn a_cancel_reaches_a_step_that_runs_in_the_other(place: Place) {
    let (one, two) = pair(place, LONG);
    let made = task(one.address(), "hang", json!({}));
    one.until("hangs", 1);
    let cancelled = modern(two.address, "tasks/cancel", &made, json!({ "taskId": made })).last();
    assert!(cancelled["result"].is_object(), "{cancelled}");
    until(one.address(), &made, "cancelled");
    one.until("unhung", 1);
    assert_eq!(one.effects(), ["hangs", "let go", "unhung"]);
}

/// Also if who heard of it is killed before the call is there, and nobody else has.
fn a_cancel_that_overtakes_its_call_in_the_other_wins(place: Place) {
    let (one, two) = pair(place, LONG);
    let client = Client::connect(one.address(), "2025-11-25");
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                         "params": { "requestId": 1 } });
    let takes_back = || {
        client.say(two.address, &cancel);
        drop(two);
    };
    let number = json!({ "number": 5 });
    let called = client.call_slowly(one.address(), json!(1), "work", number, takes_back);
    assert_eq!(called.rest(), [Value::Null; 0]);
    assert!(one.effects().is_empty(), "{:?}", one.effects());
    // It was of that request alone.
    one.open("second");
    let done = client.call(one.address(), json!(1), "work", json!({ "number": 6 })).last();
    assert_eq!(text(&done["result"]), "6");
}

/// So long that it is told from a machine that is busy.
const STILL: Duration = Duration::from_millis(1_500);

/// Its client has made it again elsewhere, and has the answer. Who counts its requests anew is no such copy.
fn a_copy_of_a_request_that_waited_in_a_process_that_stood_still_does_nothing(place: Place) {
    let (one, two) = pair(place, LONG);
    let client = Client::connect(two.address, "2025-11-25");
    let number = |number: u64| json!({ "number": number });
    one.stop();
    let copy = client.call_ahead(one.address(), json!(1), "short", number(5));
    let done = client.call(two.address, json!(1), "short", number(5)).last();
    assert_eq!(text(&done["result"]), "5");
    thread::sleep(STILL);
    one.go_on();
    assert_eq!(copy().last()["result"], done["result"]);
    assert_eq!(one.count("short"), 1);
    for asked in [5, 6, 6] {
        let done = client.call(two.address, json!(1), "short", number(asked)).last();
        assert_eq!(text(&done["result"]), asked.to_string());
    }
    assert_eq!(one.count("short"), 4);
}

fn nor_does_one_of_a_request_that_was_taken_back_meanwhile(place: Place) {
    let (one, two) = pair(place, LONG);
    let client = Client::connect(two.address, "2025-11-25");
    one.stop();
    let copy = client.call_ahead(one.address(), json!(1), "hang", json!({}));
    let call = client.call(two.address, json!(1), "hang", json!({}));
    one.until("hangs", 1);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                         "params": { "requestId": 1 } });
    client.say(two.address, &cancel);
    assert_eq!(call.rest(), [Value::Null; 0]);
    thread::sleep(STILL);
    one.go_on();
    assert_eq!(copy().rest(), [Value::Null; 0]);
    one.until("unhung", 1);
    assert_eq!(one.effects(), ["hangs", "let go", "unhung"]);
}

fn a_call_whose_process_is_killed_is_taken_up_in_the_other(place: Place) {
    let (mut one, two) = pair(place, 2);
    let client = Client::connect(one.address(), "2025-11-25");
    let mut stream = client.call(one.address(), json!(1), "work", json!({ "number": 5 }));
    let (last, _) = stream.message().unwrap();
    one.until("second", 1);
    one.kill();
    // Before anybody can know that.
    let resumed = client.resume(two.address, &last.unwrap());
    assert_eq!(resumed.status, 200);
    one.until("second", 2);
    one.open("second");
    let response = resumed.rest().pop().unwrap();
    assert_eq!(text(&response["result"]), "5");
    assert_eq!([one.count("first"), one.count("second"), one.count("last")], [1, 2, 1]);
}

fn who_listens_in_the_other_hears_of_it(place: Place) {
    let (one, two) = pair(place, LONG);
    let made = task(one.address(), "work", json!({ "number": 1 }));
    let wanted = json!({ "taskIds": [made], "resourceSubscriptions": ["test://board"] });
    let params = json!({ "notifications": wanted });
    let mut stream = modern(two.address, "subscriptions/listen", "", params);
    let (_, first) = stream.message().unwrap();
    assert_eq!(first["params"]["notifications"], wanted, "{first}");
    task(one.address(), "publish", json!({}));
    one.open("second");
    let (mut updates, mut completed) = (0, false);
    while updates == 0 || !completed {
        let (_, message) = stream.message().unwrap();
        updates += u32::from(message["method"] == "notifications/resources/updated");
        completed |= message["params"]["status"] == "completed";
    }
    assert_eq!(updates, 1);
}

fn the_same_key_is_the_same_call_in_both(place: Place) {
    let (one, two) = pair(place, LONG);
    for n in 1..=5 {
        let key = format!("key {n}");
        let call = |to| {
            let client = Client::stateless(None);
            let arguments = json!({ "number": n });
            client.call_stateless(to, json!(1), "short", arguments, Some(&key), json!({})).last()
        };
        let answers = thread::scope(|scope| {
            let both = [one.address(), two.address].map(|to| scope.spawn(move || call(to)));
            both.map(|one| one.join().unwrap())
        });
        for answer in answers {
            assert_eq!(text(&answer["result"]), n.to_string());
        }
        assert_eq!(one.count("short"), n, "once for each key");
    }
}

/// In the middle of a step. Nobody can take it for dead as soon as this.
fn a_process_that_is_told_to_stop_hands_over_at_once(place: Place) {
    let (mut one, two) = pair(place, LONG);
    let made = task(one.address(), "work", json!({ "number": 3 }));
    one.until("second", 1);
    one.terminate();
    one.until("second", 2);
    one.open("second");
    let done = until(two.address, &made, "completed");
    assert_eq!(text(&done["result"]), "3");
    assert_eq!([one.count("first"), one.count("last")], [1, 1]);
}

/// One goes a minute fast and one a minute slow. Who is alive is said by the lock of a file, or the clock of
/// the database.
fn two_clocks_that_are_minutes_apart(place: Place) {
    let mut fast = Server::prepared(place, 2, &[]);
    fast.up_by(None, &["--clock", "60"]);
    let slow = fast.beside_with(&["--clock", "-60"]);
    let client = Client::connect(slow.address, "2025-11-25");
    for (id, to) in [(1, slow.address), (2, fast.address())] {
        let rested = client.call(to, json!(id), "nap", json!({ "seconds": 1 })).last();
        assert_eq!(text(&rested["result"]), "rested", "{rested}");
    }
    // What is taken back at the one before it comes does not begin at the other,
    for (id, says, to) in [(3, slow.address, fast.address()), (4, fast.address(), slow.address)] {
        let (method, params) = ("notifications/cancelled", json!({ "requestId": id }));
        client.say(says, &json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        let heard = client.call(to, json!(id), "nap", json!({ "seconds": 1 })).rest();
        assert!(heard.is_empty(), "{heard:?}");
    }
    assert_eq!([fast.count("before"), fast.count("after")], [2, 2]);
    // neither takes the other for dead,
    let made = task(slow.address, "work", json!({ "number": 4 }));
    fast.until("second", 1);
    thread::sleep(Duration::from_secs(4));
    assert_eq!(fast.count("second"), 1, "it was taken from a process that lives");
    // and who is dead is seen.
    drop(slow);
    fast.until("second", 2);
    fast.open("second");
    assert_eq!(text(&until(fast.address(), &made, "completed")["result"]), "4");
    assert_eq!(fast.count("last"), 1);
}
