//! Processes that serve clients and run nothing, and processes that run what others were asked for.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::{
    asked,
    client::Client,
    replicas::{modern, task, until},
    server::{Place, Server},
};

on_each_store!(
    a_front_runs_nothing_and_a_worker_that_comes_later_does,
    a_plain_call_to_a_front_is_answered_by_what_a_worker_did,
    a_worker_takes_only_what_it_is_to,
    activities_are_for_those_who_are_to_run_them,
    another_worker_takes_over_from_one_that_was_killed,
    a_worker_that_names_what_there_is_not_takes_nothing,
    a_worker_counts_changes_of_roots_whatever_it_is_to_take,
);

/// After so many seconds without a word a worker is taken for dead.
const LEASE: u64 = 2;

/// Long enough that a process which looks for work has found it.
const LOOKED: Duration = Duration::from_millis(1_500);

fn front(place: Place) -> Server {
    Server::on(place, LEASE, &["--front"])
}

/// How a task stands that nobody has begun.
fn waits(server: &Server, task: &str, tool: &str) {
    let seen = modern(server.address(), "tasks/get", task, json!({ "taskId": task })).last();
    let seen = &seen["result"];
    let says = format!("waiting for a process that runs {tool:?}");
    assert_eq!((&seen["status"], &seen["statusMessage"]), (&json!("working"), &json!(says)));
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

fn a_front_runs_nothing_and_a_worker_that_comes_later_does(place: Place) {
    let front = front(place);
    let made = task(front.address(), "short", json!({ "number": 5 }));
    thread::sleep(LOOKED);
    waits(&front, &made, "short");
    assert!(front.effects().is_empty(), "{:?}", front.effects());
    let worker = front.worker(&[]);
    let done = until(front.address(), &made, "completed");
    assert_eq!((text(&done["result"]), front.count("short")), ("5", 1));
    assert!(worker.says.contains("all tasks and activities"), "{}", worker.says);
    #[cfg(target_os = "linux")]
    assert_eq!(worker.listens(), 0);
}

fn a_plain_call_to_a_front_is_answered_by_what_a_worker_did(place: Place) {
    let front = front(place);
    let _worker = front.worker(&[]);
    let client = Client::connect(front.address(), "2025-11-25");
    front.open("second");
    let said = client.call(front.address(), json!(1), "work", json!({ "number": 7 })).rest();
    assert_eq!(text(&said.last().unwrap()["result"]), "7");
    assert_eq!(["first", "second", "last"].map(|effect| front.count(effect)), [1, 1, 1]);
}

fn a_worker_takes_only_what_it_is_to(place: Place) {
    let front = front(place);
    let light = front.worker(&["--only", "short"]);
    assert!(light.says.contains("tasks and activities of short;"), "{}", light.says);
    let heavy = task(front.address(), "publish", json!({}));
    for number in 1..=3 {
        let made = task(front.address(), "short", json!({ "number": number }));
        until(front.address(), &made, "completed");
    }
    thread::sleep(LOOKED);
    waits(&front, &heavy, "publish");
    assert_eq!(front.effects(), ["short"; 3]);
    let _other = front.worker(&["--only", "publish"]);
    until(front.address(), &heavy, "completed");
    assert_eq!(front.count("write"), 1);
}

/// The task is run by one, what it has done elsewhere by the other.
fn activities_are_for_those_who_are_to_run_them(place: Place) {
    let front = front(place);
    front.open("fetched");
    let _tasks = front.worker(&["--only", "errand"]);
    let made = task(front.address(), "errand", json!({}));
    front.until("before", 1);
    thread::sleep(LOOKED);
    assert_eq!(front.count("fetched"), 0);
    let activities = front.worker(&["--only", "fetch"]);
    let done = until(front.address(), &made, "completed");
    assert_eq!(text(&done["result"]), format!("fetched by {}", activities.id()));
    assert_eq!(front.count("before"), 1);
}

fn another_worker_takes_over_from_one_that_was_killed(place: Place) {
    let front = front(place);
    let first = front.worker(&[]);
    let made = task(front.address(), "work", json!({ "number": 3 }));
    front.until("second", 1);
    drop(first);
    let _second = front.worker(&[]);
    front.until("second", 2);
    front.open("second");
    assert_eq!(text(&until(front.address(), &made, "completed")["result"]), "3");
    assert_eq!([front.count("first"), front.count("last")], [1, 1]);
}

/// Not even of what there is, though that is there to be taken.
fn a_worker_that_names_what_there_is_not_takes_nothing(place: Place) {
    let front = front(place);
    let made = task(front.address(), "short", json!({ "number": 1 }));
    let says = front.refused_worker(&["--only", "short,typo"]);
    assert!(says.contains("there is no tool or activity \"typo\""), "{says}");
    assert!(says.contains("short") && !says.contains("roots:changed"), "{says}");
    waits(&front, &made, "short");
    let says = front.refused_worker(&["--max-running", "0"]);
    assert!(says.contains("--max-running 0 would run no tasks"), "{says}");
    assert!(front.effects().is_empty(), "{:?}", front.effects());
}

/// They are counted by a task of the server's own, which nobody would name.
fn a_worker_counts_changes_of_roots_whatever_it_is_to_take(place: Place) {
    let front = front(place);
    let _worker = front.worker(&["--only", "roots"]);
    let client = asked::connect(&front);
    let params = json!({ "name": "roots", "arguments": {} });
    let mut stream = client.request(front.address(), json!(1), "tools/call", params);
    let mut answered = 0;
    let response = loop {
        let (_, message) = stream.message().expect("a message");
        let method = message["method"].as_str().unwrap_or_default();
        if method == "roots/list" {
            let roots = vec![json!({ "uri": "file:///one" }); 1 + answered];
            let answer =
                json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "roots": roots } });
            client.say(front.address(), &answer);
            answered += 1;
        } else if method == "notifications/message" {
            let changed = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
            client.say(front.address(), &changed);
        } else if method.is_empty() {
            break message;
        }
    };
    assert_eq!(text(&response["result"]), "1, then 2");
}
