//! Questions that a client of 2025-11-25 makes tasks of: what the text on tasks asks of us as the one who
//! sends the request. docs/tasks-musts.md has the whole list.

use std::time::Instant;

use serde_json::{Value, json};
use steadfast_engine::Timestamp;
use steadfast_store::{Disk, Store};

use crate::{
    http::Events,
    site::{Legacy, Site},
    tasks_2025::{RELATED, answer, asked, named, yes},
    tools::{Count, server},
};

/// A client that makes tasks of what it is asked.
fn able() -> Value {
    let requests = json!({ "elicitation": { "create": {} }, "sampling": { "createMessage": {} } });
    let tasks = json!({ "cancel": {}, "requests": requests });
    json!({ "elicitation": { "form": {} }, "sampling": {}, "roots": {}, "tasks": tasks })
}

async fn open(capabilities: Value) -> (Site, Legacy) {
    let site = Site::start(server(&Count::default())).await;
    let client = Legacy::open(&site, "2025-11-25", capabilities).await;
    (site, client)
}

fn call(tool: &str) -> Value {
    json!({ "name": tool, "arguments": if tool == "approve" { json!({ "item": "lamp" }) } else { json!({}) } })
}

/// The client's task in this state.
fn theirs(status: &str, poll: u64) -> Value {
    let time = "2025-11-25T10:30:00Z";
    json!({ "taskId": "theirs", "status": status, "createdAt": time, "lastUpdatedAt": time, "ttl": 60000, "pollInterval": poll })
}

/// The next request of the server, which is to be this.
async fn next(events: &mut Events, method: &str) -> Value {
    let request = asked(events).await;
    assert_eq!(request["method"], method, "{request}");
    request
}

impl Legacy {
    /// Starts a task and looks at it, which is when it is asked on the session's own stream.
    async fn follow(&self, id: u64, item: &str) -> Value {
        let task = self.task(id, "approve", json!({ "item": item })).await;
        self.result(id + 1, "tasks/get", named(&task)).await;
        task
    }

    async fn reply(&self, request: &Value, result: Value) {
        self.say(&answer(request, result)).await;
    }

    /// Answers a question with a task.
    async fn take(&self, question: &Value, poll: u64) {
        self.reply(question, json!({ "task": theirs("working", poll) })).await;
    }
}

#[tokio::test]
async fn a_request_should_be_augmented_only_if_the_client_has_declared_it() {
    let elicits = json!({ "requests": { "elicitation": { "create": {} } } });
    let samples = json!({ "requests": { "sampling": { "createMessage": {} } } });
    for (version, tasks, question, sample) in [
        ("2025-11-25", elicits.clone(), true, false),
        ("2025-11-25", samples, false, true),
        ("2025-11-25", json!({ "list": {}, "cancel": {} }), false, false),
        ("2025-11-25", Value::Null, false, false),
        // There were none.
        ("2025-06-18", elicits, false, false),
    ] {
        let site = Site::start(server(&Count::default())).await;
        let capabilities =
            json!({ "elicitation": {}, "sampling": {}, "roots": {}, "tasks": tasks });
        let client = Legacy::open(&site, version, capabilities).await;
        for (id, tool, wanted) in [(1, "approve", question), (2, "uses_client", sample)] {
            let mut events = client.request(id, "tools/call", call(tool)).await.events();
            let request = asked(&mut events).await;
            let task = &request["params"]["task"];
            assert_eq!(task["ttl"].is_u64(), wanted, "{version} {tasks} {tool}: {request}");
            assert_eq!(request["params"].get("task").is_some(), wanted);
        }
    }
}

#[tokio::test]
async fn roots_are_never_asked_for_by_task() {
    let (_site, client) = open(able()).await;
    let mut events = client.request(1, "tools/call", call("uses_client")).await.events();
    let sample = next(&mut events, "sampling/createMessage").await;
    let text = json!({ "type": "text", "text": "4" });
    client.reply(&sample, json!({ "role": "assistant", "content": text, "model": "m" })).await;
    assert!(next(&mut events, "roots/list").await.get("params").is_none());
}

#[tokio::test]
async fn a_clients_task_should_be_polled_until_it_ends_and_no_notification_relied_on() {
    let (_site, client) = open(able()).await;
    let mut events = client.request(1, "tools/call", call("approve")).await.events();
    let question = next(&mut events, "elicitation/create").await;
    client.take(&question, 100).await;
    for _ in 0..3 {
        let poll = next(&mut events, "tasks/get").await;
        // Nothing but the id: what it is related to goes without saying.
        assert_eq!(poll["params"], json!({ "taskId": "theirs" }));
        client.reply(&poll, theirs("working", 100)).await;
    }
    let poll = next(&mut events, "tasks/get").await;
    client.reply(&poll, theirs("completed", 100)).await;
    let wanted = next(&mut events, "tasks/result").await;
    assert_eq!(wanted["params"], json!({ "taskId": "theirs" }));
    let mut result = yes();
    result["_meta"] = json!({ RELATED: { "taskId": "theirs" } });
    client.reply(&wanted, result).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "approved: true");
}

#[tokio::test]
async fn the_poll_interval_of_the_client_should_be_respected_also_when_it_changes() {
    let (_site, client) = open(able()).await;
    let mut events = client.request(1, "tools/call", call("approve")).await.events();
    let question = next(&mut events, "elicitation/create").await;
    let mut before = Instant::now();
    client.take(&question, 300).await;
    for (waited, interval) in [(300, 600), (600, 0), (100, 300)] {
        let poll = next(&mut events, "tasks/get").await;
        let passed = before.elapsed().as_millis();
        assert!(passed >= waited, "asked after {passed} ms, not {waited}");
        before = Instant::now();
        client.reply(&poll, theirs("working", interval)).await;
    }
}

#[tokio::test]
async fn result_should_be_asked_for_preemptively_when_the_client_needs_input() {
    let (_site, client) = open(able()).await;
    let mut events = client.request(1, "tools/call", call("approve")).await.events();
    let question = next(&mut events, "elicitation/create").await;
    client.reply(&question, json!({ "task": theirs("input_required", 60_000) })).await;
    let wanted = next(&mut events, "tasks/result").await;
    client.reply(&wanted, json!({ "action": "decline" })).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "declined");
}

#[tokio::test]
async fn a_sample_by_task() {
    let (_site, client) = open(able()).await;
    let mut events = client.request(1, "tools/call", call("uses_client")).await.events();
    let question = next(&mut events, "sampling/createMessage").await;
    client.reply(&question, json!({ "task": theirs("completed", 100) })).await;
    let wanted = next(&mut events, "tasks/result").await;
    let content = json!({ "type": "text", "text": "4" });
    client.reply(&wanted, json!({ "role": "assistant", "content": content, "model": "m" })).await;
    let roots = next(&mut events, "roots/list").await;
    client.reply(&roots, json!({ "roots": [] })).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "4 from m, 0 roots");
}

#[tokio::test]
async fn an_answer_by_task_survives_the_stream_that_it_was_asked_on() {
    let (_site, client) = open(able()).await;
    let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
    let mut events = client.request(2, "tasks/result", named(&task)).await.events();
    let question = next(&mut events, "elicitation/create").await;
    // It belongs to our task, as every question of it does.
    assert_eq!(question["params"]["_meta"][RELATED], named(&task));
    client.take(&question, 100).await;
    next(&mut events, "tasks/get").await;
    // The client gives up waiting, while its user thinks on.
    drop(events);
    let mut events = client.listen().await.events();
    // The question is not asked again.
    let poll = next(&mut events, "tasks/get").await;
    client.reply(&poll, theirs("completed", 100)).await;
    let wanted = next(&mut events, "tasks/result").await;
    client.reply(&wanted, yes()).await;
    let done = client.result(3, "tasks/result", named(&task)).await;
    assert_eq!(done["content"][0]["text"], "approved: true");
}

/// It is remembered before the client is told that its answer was taken, and as long as it is needed.
#[tokio::test]
async fn an_answer_by_task_is_written_down_until_it_is_there() {
    let disk = Disk::new();
    let site = Site::on(server(&Count::default()), &disk).await;
    let client = Legacy::open(&site, "2025-11-25", able()).await;
    let store = disk.open();
    let written = async || {
        let row = store.session(client.session.clone(), Timestamp(0)).await.unwrap().unwrap();
        let body: Value = serde_json::from_slice(&row.body).unwrap();
        body["by_task"].as_object().map_or(0, |by_task| by_task.len())
    };
    for ending in ["answered", "cancelled"] {
        let mut events = client.listen().await.events();
        let task = client.follow(1, "lamp").await;
        let question = next(&mut events, "elicitation/create").await;
        client.take(&question, 100).await;
        assert_eq!(written().await, 1);
        // Said twice it is the same.
        client.take(&question, 100).await;
        match ending {
            "answered" => {
                let poll = next(&mut events, "tasks/get").await;
                client.reply(&poll, theirs("completed", 100)).await;
                let wanted = next(&mut events, "tasks/result").await;
                client.reply(&wanted, yes()).await;
            }
            _ => {
                client.result(3, "tasks/cancel", named(&task)).await;
            }
        }
        let forgotten = async {
            while written().await > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let time = std::time::Duration::from_secs(10);
        tokio::time::timeout(time, forgotten).await.unwrap_or_else(|_| panic!("{ending}"));
    }
}

#[tokio::test]
async fn a_clients_task_that_fails_or_is_lost_is_an_error_that_the_author_sees() {
    for lost in [false, true] {
        let (_site, client) = open(able()).await;
        let mut events = client.request(1, "tools/call", call("approve")).await.events();
        let question = next(&mut events, "elicitation/create").await;
        client.take(&question, 100).await;
        let mut request = next(&mut events, "tasks/get").await;
        if !lost {
            client.reply(&request, theirs("failed", 100)).await;
            request = next(&mut events, "tasks/result").await;
        }
        let error = json!({ "code": -32602, "message": "gone with the wind" });
        client.say(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
        let result = events.next().await.unwrap()["result"].clone();
        assert_eq!(result["isError"], true);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("gone with the wind"), "{text}");
    }
}

#[tokio::test]
async fn a_clients_task_is_cancelled_when_the_question_is_no_longer_needed() {
    let (_site, client) = open(able()).await;
    let mut events = client.listen().await.events();
    let task = client.follow(1, "lamp").await;
    let question = next(&mut events, "elicitation/create").await;
    client.take(&question, 60_000).await;
    client.result(3, "tasks/cancel", named(&task)).await;
    let cancel = next(&mut events, "tasks/cancel").await;
    assert_eq!(cancel["params"], json!({ "taskId": "theirs" }));
    client.reply(&cancel, theirs("cancelled", 100)).await;
}

#[tokio::test]
async fn a_client_that_has_not_declared_cancel_is_not_asked_to() {
    let mut capabilities = able();
    capabilities["tasks"].as_object_mut().unwrap().remove("cancel");
    let (_site, client) = open(capabilities).await;
    let mut events = client.listen().await.events();
    let task = client.follow(1, "lamp").await;
    let question = next(&mut events, "elicitation/create").await;
    client.take(&question, 60_000).await;
    client.result(3, "tasks/cancel", named(&task)).await;
    client.follow(4, "chair").await;
    // The next that is said is about something else.
    next(&mut events, "elicitation/create").await;
}

#[tokio::test]
async fn an_answer_at_once_is_taken_as_well() {
    let (_site, client) = open(able()).await;
    let mut events = client.request(1, "tools/call", call("approve")).await.events();
    let question = next(&mut events, "elicitation/create").await;
    client.reply(&question, yes()).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "approved: true");
}

#[tokio::test]
async fn a_task_that_nobody_offered_is_no_answer() {
    let (_site, client) = open(json!({ "elicitation": {} })).await;
    let mut events = client.request(1, "tools/call", call("approve")).await.events();
    let question = next(&mut events, "elicitation/create").await;
    client.take(&question, 100).await;
    let again = next(&mut events, "elicitation/create").await;
    assert!(again["params"]["message"].as_str().unwrap().contains("did not fit"), "{again}");
}

#[tokio::test]
async fn a_second_task_for_the_same_question_is_cancelled() {
    let (_site, client) = open(able()).await;
    let mut events = client.listen().await.events();
    client.follow(1, "lamp").await;
    let question = next(&mut events, "elicitation/create").await;
    client.take(&question, 60_000).await;
    let mut other = theirs("working", 60_000);
    other["taskId"] = json!("another");
    client.reply(&question, json!({ "task": other })).await;
    let cancel = next(&mut events, "tasks/cancel").await;
    assert_eq!(cancel["params"], json!({ "taskId": "another" }));
}
