//! Calls that their client comes back to, when the store fails or another process has a hand in it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_engine::{Engine, Status};
use steadfast_mcp::{Context, NoInput, Server, Tool};
use steadfast_store::Disk;

use crate::{
    bent::{Bent, Fails},
    http::{Events, Response, send},
    site::{Legacy, Site, able, taskless},
    tools::{Count, server},
    unsteady::Unsteady,
};

/// How a task is looked at.
const READS: &[&str] = &["get", "history"];

async fn bent(count: &Count) -> (Bent, Site) {
    let store = Bent::new(Disk::new().open());
    let site = Site::of(server(count), Engine::builder(Arc::new(store.clone()))).await;
    (store, site)
}

/// Calls `hang`, and gives its stream and its first event.
async fn hang(client: &Legacy, id: u64) -> (Events, String) {
    let called = client.request(id, "tools/call", json!({ "name": "hang", "arguments": {} })).await;
    let mut events = called.events();
    let first = events.raw().await.unwrap();
    let event = first.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    (events, event)
}

async fn go_on(site: &Site, event: &str) {
    let task = event.split('.').next().unwrap();
    site.signal(&json!({ "taskId": task }), "go").await;
}

async fn take_up(site: &Site, client: &Legacy, event: &str) -> Response {
    let headers = [
        ("Accept", "text/event-stream"),
        ("Mcp-Session-Id", client.session.as_str()),
        ("Last-Event-ID", event),
    ];
    send(site.address, "GET", &headers, "").await
}

fn taken_back(id: u64) -> Value {
    let params = json!({ "requestId": id });
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
}

#[tokio::test]
async fn a_store_that_can_not_be_read_is_waited_for() {
    let count = Count::default();
    let (store, site) = bent(&count).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let (mut events, event) = hang(&client, 1).await;
    store.fail(Fails::At(READS));
    go_on(&site, &event).await;
    store.until_failed(3).await;
    store.fail(Fails::Nowhere);
    let answer = events.next().await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "go", "{answer}");
    assert_eq!(count.get(), 1);
}

/// Nobody knows whether the call was made; who has a key finds out by making it again.
#[tokio::test]
async fn a_start_whose_outcome_is_not_known_is_found_by_its_key() {
    let (store, site) = bent(&Count::default()).await;
    let call = async |meta: Value| {
        let params = json!({ "name": "hang", "arguments": {}, "_meta": meta });
        site.modern(&able(), "tools/call", params).await
    };
    let keyed = json!({ "dev.steadfast/idempotency-key": "k" });
    store.fail(Fails::UnheardAt(&["start"]));
    let unknown = call(keyed.clone()).await;
    assert_eq!(unknown.status, 503);
    let error = unknown.json().await["error"]["message"].clone();
    assert!(error.as_str().unwrap().ends_with("; try again"), "{error}");
    store.fail(Fails::Nowhere);
    assert!(call(keyed).await.json().await["result"]["taskId"].is_string());
    let made = async || site.running.engine().operator().counts().await.unwrap();
    assert_eq!(made().await.values().sum::<u64>(), 1);
}

/// Its client makes it anew, so that it must not go on beside that.
#[tokio::test]
async fn a_start_whose_outcome_is_not_known_is_ended_if_nobody_can_come_back_to_it() {
    let (store, site) = bent(&Count::default()).await;
    store.fail(Fails::UnheardAt(&["start"]));
    let call = json!({ "name": "hang", "arguments": {} });
    let answer = site.modern(&taskless(), "tools/call", call).await.last().await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("cancelled: "), "{answer}");
    let made = site.running.engine().operator().counts().await.unwrap();
    assert_eq!(made.into_iter().collect::<Vec<_>>(), [(Status::Cancelled, 1)]);
}

#[tokio::test]
async fn a_call_whose_connection_breaks_while_it_is_started_is_ended_too() {
    let store = Unsteady::new(Disk::new().open(), "start");
    let site = Site::of(server(&Count::default()), Engine::builder(store.clone())).await;
    store.hold.store(1, Ordering::SeqCst);
    let (capabilities, call) = (taskless(), json!({ "name": "hang", "arguments": {} }));
    tokio::select! {
        _ = site.modern(&capabilities, "tools/call", call) => panic!("it is held"),
        () = store.come.notified() => {}
    }
    // Until the server has seen that nobody is there any more. If it has not, it ends the call as usual.
    tokio::time::sleep(Duration::from_millis(100)).await;
    store.go.notify_one();
    let ended = async {
        let operator = site.running.engine().operator();
        while operator.counts().await.unwrap().get(&Status::Cancelled) != Some(&1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it is cancelled");
}

#[tokio::test]
async fn an_error_of_the_store_does_not_free_an_id() {
    let count = Count::default();
    let (store, site) = bent(&count).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let (mut events, event) = hang(&client, 1).await;
    store.fail(Fails::DamagedAt(READS));
    go_on(&site, &event).await;
    assert_eq!(events.next().await.unwrap()["error"]["code"], -32603);
    store.fail(Fails::Nowhere);
    let again = client.result(1, "tools/call", json!({ "name": "hang", "arguments": {} })).await;
    assert_eq!((&again["content"][0]["text"], count.get()), (&json!("go"), 1), "{again}");
}

#[tokio::test]
async fn a_stream_is_not_unknown_because_the_store_is_away() {
    let (store, site) = bent(&Count::default()).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let (_events, event) = hang(&client, 1).await;
    store.fail(Fails::At(READS));
    assert_eq!(take_up(&site, &client, &event).await.status, 503);
    store.fail(Fails::Nowhere);
    assert_eq!(take_up(&site, &client, &event).await.status, 200);
}

#[tokio::test]
async fn that_an_answer_was_sent_is_written_when_the_store_is_back() {
    let disk = Disk::new();
    let store = Bent::new(disk.open());
    let one = server(&Count::default());
    let one = Site::of(one, Engine::builder(Arc::new(store.clone()))).await;
    let two = Site::on(server(&Count::default()), &disk).await;
    let client = Legacy::open(&one, "2025-11-25", json!({})).await;
    let other = client.of(client.session.clone()).at(&two);
    let add = |a: u64| json!({ "name": "add_durably", "arguments": { "a": a, "b": 2 } });
    store.fail(Fails::At(&["unbind"]));
    client.result(1, "tools/call", add(1)).await;
    store.until_failed(1).await;
    // Only where it was sent is it known by then.
    assert_eq!(other.error(1, "tools/call", add(2)).await["code"], -32600);
    let sum = client.result(1, "tools/call", add(2)).await;
    assert_eq!(sum["content"][0]["text"], r#"{"total":4}"#, "{sum}");
    store.fail(Fails::Nowhere);
    let known = async {
        while other.request(1, "tools/call", add(3)).await.last().await["result"].is_null() {}
    };
    tokio::time::timeout(Duration::from_secs(20), known).await.expect("it is written down");
}

#[tokio::test]
async fn who_takes_a_request_back_is_told_so_when_that_is_durable() {
    let count = Count::default();
    let (store, site) = bent(&count).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let (mut events, _) = hang(&client, 1).await;
    client.say(&taken_back(1)).await;
    assert!(store.has_cancelled());
    assert_eq!(events.next().await, None, "nothing is answered");
    // An equal one is another call.
    let (mut events, event) = hang(&client, 1).await;
    go_on(&site, &event).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "go");
    assert_eq!(count.get(), 2);
}

#[tokio::test]
async fn who_takes_a_request_back_in_another_process_gets_no_answer() {
    let disk = Disk::new();
    let one = Site::on(server(&Count::default()), &disk).await;
    let two = Site::on(server(&Count::default()), &disk).await;
    for (id, version) in (1..).zip(["2025-11-25", "2025-06-18"]) {
        let client = Legacy::open(&one, version, json!({})).await;
        let other = client.of(client.session.clone()).at(&two);
        let hang = json!({ "name": "hang", "arguments": {} });
        let waits = async { client.request(id, "tools/call", hang).await.events().next().await };
        let takes_back = async {
            let tasks = one.running.engine().operator();
            let open = async || {
                let all = tasks.list(steadfast_engine::ListTasks::default()).await.unwrap().tasks;
                all.iter().any(|task| !task.status.is_terminal())
            };
            while !open().await {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            other.say(&taken_back(id)).await;
        };
        let (answer, ()) = tokio::join!(waits, takes_back);
        assert_eq!(answer, None, "{version}");
    }
}

/// What an operator cancels is over, and its client has to know.
#[tokio::test]
async fn a_call_that_an_operator_cancels_is_answered() {
    let site = Site::start(server(&Count::default())).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let (mut events, event) = hang(&client, 1).await;
    let id = steadfast_engine::TaskId::new(event.split('.').next().unwrap()).unwrap();
    site.running.engine().operator().cancel(&id, Some("no more".into())).await.unwrap();
    let answer = events.next().await.unwrap();
    assert_eq!(answer["id"], 1, "{answer}");
    assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{answer}");
}

/// One that began anew has a shorter history than its client has heard.
#[tokio::test]
async fn an_event_that_has_not_happened_is_refused() {
    let tool = Tool::new("anew", |ctx: Context, _: NoInput| async move {
        let again = ctx.state(steadfast_engine::Scope::Task).get::<bool>("again").await?;
        if again.is_none() {
            ctx.log("info", "a word");
            ctx.event::<String>("go").await?;
            ctx.state(steadfast_engine::Scope::Task).set("again", &true).await?;
            return ctx.continue_as_new(&json!({}));
        }
        ctx.event::<String>("go").await
    });
    let site = Site::start(Server::new("test").tool(tool)).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let called = client.request(1, "tools/call", json!({ "name": "anew", "arguments": {} })).await;
    let mut events = called.events();
    let first = events.raw().await.unwrap();
    let event = first.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    let task = event.split('.').next().unwrap();
    let ahead = format!("{task}.9999.0.");
    assert_eq!(take_up(&site, &client, &ahead).await.status, 400);
    go_on(&site, &event).await;
    let run = async {
        let id = steadfast_engine::TaskId::new(task).unwrap();
        let tasks = site.running.engine().operator();
        let order = steadfast_engine::Order::OldestFirst;
        loop {
            let first = tasks.history(&id, order, None, 1).await.unwrap();
            let event = first.entries.first().map(|first| first.event.clone());
            if matches!(event, Some(steadfast_core::Event::Started { run: 1.., .. })) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), run).await.expect("it begins anew");
    assert_eq!(take_up(&site, &client, &ahead).await.status, 200);
}
