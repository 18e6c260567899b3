//! Requests that are taken back before their call has begun: the word of it comes to another process.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::{Value, json};
use steadfast_engine::{ListTasks, Result, Status};
use steadfast_mcp::{NoInput, Server, Tool};
use steadfast_store::Store;

use crate::{
    pair::{Pair, in_time, taken_back},
    site::{Legacy, Site},
    tools::Count,
};

fn hang() -> Value {
    json!({ "name": "hang", "arguments": {} })
}

fn keyed() -> Value {
    json!({ "name": "hang", "arguments": {}, "_meta": { "dev.steadfast/idempotency-key": "k" } })
}

async fn answer(client: &Legacy, id: u64, params: Value) -> Option<Value> {
    client.request(id, "tools/call", params).await.events().next().await
}

/// The sum of 1 and 2, by a durable tool.
async fn add(client: &Legacy, id: u64) -> Value {
    let params = json!({ "name": "add_durably", "arguments": { "a": 1, "b": 2 } });
    client.result(id, "tools/call", params).await["content"][0]["text"].clone()
}

/// Sends a call that is held up before it is in the store, and takes it back meanwhile, in the other.
async fn overtaken(pair: &Pair, client: &Legacy, other: &Legacy, call: (u64, Value)) {
    let (store, id) = (&pair.one.0, call.0);
    store.hold.store(1, Ordering::SeqCst);
    let takes_back = async {
        in_time(store.come.notified()).await;
        other.say(&taken_back(id)).await;
        store.go.notify_one();
    };
    let (answer, ()) = tokio::join!(answer(client, id, call.1), takes_back);
    assert_eq!(answer, None);
}

#[tokio::test]
async fn a_cancel_that_overtakes_its_call_wins() {
    let pair = Pair::held_at("start").await;
    let as_task = json!({ "name": "hang", "arguments": {}, "task": {} });
    let calls = [("2025-11-25", hang()), ("2025-06-18", hang()), ("2025-11-25", as_task)];
    for (version, params) in calls {
        let (client, other) = pair.client(version).await;
        overtaken(&pair, &client, &other, (1, params)).await;
        assert_eq!(pair.count.get(), 0, "nothing of it ran");
        // It was of one request, and another may have the id.
        assert_eq!(add(&other, 1).await, r#"{"total":3}"#);
    }
    assert!(pair.tasks().await.iter().all(|task| task.tool != "hang"));
}

/// It has begun after the first look for it, and has looked itself before there was anything to be found.
#[tokio::test]
async fn a_call_that_begins_while_it_is_taken_back_is_cancelled() {
    for params in [hang(), keyed()] {
        let pair = Pair::held_at("start").await;
        let (client, other) = pair.client("2025-11-25").await;
        let store = &pair.two.0;
        store.hold.store(1, Ordering::SeqCst);
        let calls = async {
            in_time(store.come.notified()).await;
            let mut events = client.request(1, "tools/call", params).await.events();
            events.raw().await.expect("it has begun");
            store.go.notify_one();
            events.next().await
        };
        let told = taken_back(1);
        let (answer, ()) = tokio::join!(calls, other.say(&told));
        assert_eq!(answer, None);
        assert!(pair.tasks().await.iter().all(|task| task.status == Status::Cancelled));
    }
}

/// What it is known by is not what it is taken back by.
#[tokio::test]
async fn a_call_with_a_key_of_its_own_is_taken_back_as_well() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-11-25").await;
    overtaken(&pair, &client, &other, (1, keyed())).await;
    // Nor has anything begun that a process could leave behind that is killed then.
    let tasks = pair.tasks().await;
    assert!(tasks.iter().all(|task| task.tool != "hang"), "{tasks:?}");
    assert_eq!(pair.count.get(), 0);
    assert_eq!(add(&client, 1).await, r#"{"total":3}"#);
}

/// To who made the call it has failed, and that is told.
#[tokio::test]
async fn a_request_that_would_have_found_a_call_by_its_key_is_taken_back() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-11-25").await;
    let takes_back = async {
        pair.until_open().await;
        overtaken(&pair, &client, &other, (2, keyed())).await;
    };
    let (first, ()) = tokio::join!(answer(&other, 1, keyed()), takes_back);
    let first = first.unwrap();
    assert_eq!(first["id"], 1, "{first}");
    assert!(first["error"].is_object() || first["result"]["isError"] == true, "{first}");
}

/// Who says so has not had the answer yet. A process that counts its requests anew is not taken at that word.
#[tokio::test]
async fn a_cancel_that_crosses_its_answer_leaves_nothing() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-11-25").await;
    add(&client, 1).await;
    for _ in 0..3 {
        other.say(&taken_back(1)).await;
        client.say(&taken_back(1)).await;
    }
    assert_eq!(pair.tasks().await.len(), 1, "the call");
    assert_eq!(add(&other, 1).await, r#"{"total":3}"#);
    assert_eq!(pair.tasks().await.len(), 2, "and the one of this request");
}

#[tokio::test]
async fn a_cancel_of_what_never_came_is_forgotten() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-11-25").await;
    other.say(&taken_back(1)).await;
    client.say(&taken_back(1)).await;
    assert_eq!(pair.tasks().await.len(), 1, "twice said is once");
    let listed = client.result(2, "tasks/list", json!({})).await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 0, "{listed}");
    pair.pass(151);
    assert_eq!(add(&other, 1).await, r#"{"total":3}"#);
    // And nothing is left of it.
    let swept = pair.disk.open().sweep(pair.now(), 100).await.unwrap();
    assert_eq!((swept.removed, swept.overdue.len()), (1, 0));
}

/// Whichever of them is ahead.
#[tokio::test]
async fn a_cancel_wins_also_if_clocks_are_two_minutes_apart() {
    let pair = Pair::held_at("start").await;
    pair.put_apart(120);
    let (behind, ahead) = pair.client("2025-11-25").await;
    for (id, says, calls) in [(1, &behind, &ahead), (2, &ahead, &behind)] {
        says.say(&taken_back(id)).await;
        assert_eq!(answer(calls, id, hang()).await, None);
    }
    assert_eq!(pair.count.get(), 0, "nothing of them ran");
}

/// Its id has been taken back once, and its call is still there.
#[tokio::test]
async fn an_id_that_was_taken_back_before_is_taken_back_again() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-11-25").await;
    let takes_back = async {
        pair.until_open().await;
        other.say(&taken_back(1)).await;
        // Twice said is once.
        other.say(&taken_back(1)).await;
    };
    let (first, ()) = tokio::join!(answer(&client, 1, hang()), takes_back);
    assert_eq!((first, pair.tasks().await.len()), (None, 1));
    pair.pass(31);
    overtaken(&pair, &client, &other, (1, hang())).await;
    assert_eq!(pair.count.get(), 1, "the first alone");
}

/// It begins no task anywhere.
#[tokio::test]
async fn a_cancel_of_what_is_at_work_here_writes_nothing() {
    let begun = Count::default();
    let counts = begun.clone();
    let rests = Tool::plain("rests", move |_: NoInput| {
        counts.add();
        std::future::pending::<Result<String>>()
    });
    let site = Site::start(Server::new("test").tool(rests)).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let takes_back = async {
        let at_work = async {
            while begun.get() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time(at_work).await;
        client.say(&taken_back(1)).await;
    };
    let rests = json!({ "name": "rests", "arguments": {} });
    let (answer, ()) = tokio::join!(answer(&client, 1, rests), takes_back);
    assert_eq!(answer, None);
    let tasks = site.running.engine().operator();
    assert!(tasks.list(ListTasks::default()).await.unwrap().tasks.is_empty());
}

#[tokio::test]
async fn a_client_can_not_take_back_without_end_what_it_never_asked_for() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-11-25").await;
    let takes_back = async {
        pair.until_open().await;
        for id in 1..=256 {
            other.say(&taken_back(1_000 + id)).await;
        }
        let more = other.post(&taken_back(2_000)).await.status;
        // What is there can be taken back at any time.
        other.say(&taken_back(1)).await;
        more
    };
    let (answer, more) = tokio::join!(answer(&client, 1, hang()), takes_back);
    assert_eq!((answer, more), (None, 503));
    let counts = pair.one.1.running.engine().operator().counts().await.unwrap();
    assert_eq!(counts[&Status::Cancelled], 1 + 256, "{counts:?}");
}
