//! What the text on tasks of 2025-11-25 asks of who receives a request, as far as no other test has it.
//! docs/tasks-musts.md has the whole list.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_engine::{Engine, Error, Result};
use steadfast_mcp::{CallResult, Context, NoInput, Server, Settings, Structured, Tool};
use steadfast_store::Disk;

use crate::{
    late::Late,
    site::{Legacy, Site},
    tasks_2025::{RELATED, answer, asked, client, elicits, named, yes},
    tools::{Count, server},
};

#[derive(Deserialize, JsonSchema)]
struct Approval {
    approved: bool,
}

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

async fn open(server: Server) -> (Site, Legacy) {
    let site = Site::start(server).await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    (site, client)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[tokio::test]
async fn who_has_not_declared_the_capability_must_ignore_task_metadata_and_process_normally() {
    let plain = Tool::plain("plain", |_: NoInput| async { Ok("done") });
    let (_site, client) = open(Server::new("no tasks").tool(plain)).await;
    assert!(client.opening["capabilities"].get("tasks").is_none());
    let result = client.result(1, "tools/call", json!({ "name": "plain", "task": {} })).await;
    assert_eq!(result["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_request_type_without_the_capability_must_be_processed_normally() {
    let (_site, client) = client().await;
    let params = json!({ "name": "greet", "arguments": { "name": "Ada" }, "task": { "ttl": 1 } });
    let prompt = client.result(1, "prompts/get", params).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Greet Ada.");
}

#[tokio::test]
async fn task_ids_must_be_strings_made_by_the_receiver_and_unique() {
    let (_site, client) = client().await;
    let mine = json!({ "name": "hang", "task": { "ttl": 1, "taskId": "mine" } });
    let mut ids = Vec::new();
    for id in 1..20 {
        let task = client.result(id, "tools/call", mine.clone()).await["task"].clone();
        assert_ne!(task["taskId"], "mine");
        ids.push(text(&task["taskId"]).to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 19);
}

#[tokio::test]
async fn a_task_must_begin_working_even_if_it_ends_at_once() {
    let (_site, client) = client().await;
    for (id, tool) in (1..).zip(["required", "fails", "breaks", "panics"]) {
        assert_eq!(client.task(id, tool, json!({})).await["status"], "working", "{tool}");
    }
}

#[tokio::test]
async fn only_valid_changes_of_status_must_be_made() {
    let (_site, client) = client().await;
    let mut events = client.listen().await.events();
    let no = json!({ "action": "accept", "content": { "approved": "perhaps" } });
    for (id, tool, end) in [(1, "approve", "completed"), (2, "fails", "failed")] {
        let arguments = if tool == "approve" { json!({ "item": "lamp" }) } else { json!({}) };
        let task = client.task(id, tool, arguments).await;
        let (mut before, mut answers) = (task["status"].clone(), [yes(), no.clone()].to_vec());
        assert_eq!(before, "working");
        client.result(id + 10, "tasks/get", named(&task)).await;
        while before != end {
            let event = events.next().await.unwrap();
            if event["method"] == "elicitation/create" {
                client.say(&answer(&event, answers.pop().unwrap())).await;
                continue;
            }
            let now = event["params"]["status"].clone();
            let valid = match text(&before) {
                "working" => ["input_required", "completed", "failed", "cancelled"],
                "input_required" => ["working", "completed", "failed", "cancelled"],
                ended => panic!("{now} after {ended}"),
            };
            assert!(valid.contains(&text(&now)), "{now} after {before}");
            before = now;
        }
    }
}

#[tokio::test]
async fn a_terminal_status_must_never_change() {
    let (_site, client) = client().await;
    for (id, tool, status) in [(10, "required", "completed"), (20, "fails", "failed")] {
        let task = client.task(id, tool, json!({})).await;
        let ended = client.until(text(&task["taskId"]), status).await;
        client.error(id + 1, "tasks/cancel", named(&task)).await;
        assert_eq!(client.result(id + 2, "tasks/get", named(&task)).await, ended);
    }
    let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
    let mut events = client.request(2, "tasks/result", named(&task)).await.events();
    let question = asked(&mut events).await;
    client.result(3, "tasks/cancel", named(&task)).await;
    client.say(&answer(&question, yes())).await;
    let seen = client.result(4, "tasks/get", named(&task)).await;
    assert_eq!(seen["status"], "cancelled", "an answer that comes too late changes nothing");
}

#[tokio::test]
async fn get_should_not_be_upgraded_to_a_stream() {
    // What takes time is a stream from the first moment on.
    let settings = Settings { stream_after: Duration::ZERO, ..Settings::default() };
    let late = Late::new(Disk::new().open(), Duration::from_millis(50));
    let server = server(&Count::default()).settings(settings);
    let site = Site::of(server, Engine::builder(Arc::new(late))).await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    let task = client.task(1, "required", json!({})).await;
    let result = client.request(2, "tasks/result", named(&task)).await;
    assert_eq!(result.header("content-type"), Some("text/event-stream"));
    let got = client.request(3, "tasks/get", named(&task)).await;
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(got.json().await["result"]["taskId"], task["taskId"]);
}

#[tokio::test]
async fn a_task_should_leave_input_required_when_all_input_is_there() {
    let tool = Tool::new("asks_then_waits", |ctx: Context, _: NoInput| async move {
        let reply = ctx.ask::<Approval>("Go on?").key("go_on").await?;
        assert!(reply.accepted().is_some_and(|answer| answer.approved));
        ctx.event::<String>("go").await
    });
    let (site, client) = open(Server::new("test").tool(tool)).await;
    let task = client.task(1, "asks_then_waits", json!({})).await;
    client.until(text(&task["taskId"]), "input_required").await;
    let mut events = client.request(2, "tasks/result", named(&task)).await.events();
    let question = asked(&mut events).await;
    client.say(&answer(&question, yes())).await;
    client.until(text(&task["taskId"]), "working").await;
    site.signal(&task, "go").await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "go");
}

#[tokio::test]
async fn every_answer_about_a_task_must_have_both_times_and_should_have_no_related_task() {
    let settings = Settings { anonymous_list: true, ..Settings::default() };
    let (_site, client) = open(server(&Count::default()).settings(settings)).await;
    let task = client.task(1, "hang", json!({})).await;
    let got = client.result(2, "tasks/get", named(&task)).await;
    let listed = client.result(3, "tasks/list", json!({})).await;
    let cancelled = client.result(4, "tasks/cancel", named(&task)).await;
    assert!(listed.get("_meta").is_none());
    for seen in [&task, &got, &listed["tasks"][0], &cancelled] {
        assert_eq!(seen["taskId"], task["taskId"]);
        for time in ["createdAt", "lastUpdatedAt"] {
            let time = text(&seen[time]);
            let shape = "dddd-dd-ddTdd:dd:dd.dddZ";
            let fits = |(is, wanted)| match wanted {
                'd' => char::is_ascii_digit(&is),
                wanted => is == wanted,
            };
            assert!(
                time.len() == shape.len() && time.chars().zip(shape.chars()).all(fits),
                "{time}"
            );
        }
        assert!(seen.get("_meta").is_none(), "{seen}");
    }
    assert!(text(&cancelled["lastUpdatedAt"]) >= text(&cancelled["createdAt"]));
}

#[tokio::test]
async fn the_actual_ttl_must_be_told_raised_to_the_tools_own_and_capped() {
    let kept = Tool::new("kept", |_: Context, _: NoInput| async { Ok("done") });
    let kept = kept.retention(Duration::from_millis(HOUR));
    let free = Tool::new("free", |_: Context, _: NoInput| async { Ok("done") });
    let (_site, client) = open(Server::new("test").tool(kept).tool(free)).await;
    let most = 3_650 * DAY;
    for (id, (tool, asked, told)) in (1..).zip([
        // The tool's own is the least.
        ("kept", json!({ "ttl": 60_000 }), HOUR),
        ("kept", json!({ "ttl": 0 }), HOUR),
        ("kept", json!({ "ttl": 2 * HOUR }), 2 * HOUR),
        ("kept", json!({}), HOUR),
        ("free", json!({ "ttl": 160_000 }), 160_000),
        ("free", json!({ "ttl": 190_000.5 }), 190_000),
        // Its request may come once more.
        ("free", json!({ "ttl": 1_500 }), 150_000),
        ("free", json!({}), 7 * DAY),
        // Nobody keeps a task for ever.
        ("free", json!({ "ttl": 2 * most }), most),
        ("free", json!({ "ttl": -1 }), 7 * DAY),
    ]) {
        let params = json!({ "name": tool, "task": asked });
        let task = client.result(id, "tools/call", params).await["task"].clone();
        assert_eq!(task["ttl"], Value::Null, "while it works it does not expire");
        let ended = client.until(text(&task["taskId"]), "completed").await;
        let ttl = ended["ttl"].as_u64().unwrap();
        // It begins when the task ends, and is told from when it was created.
        assert!((told..told + 20_000).contains(&ttl), "{tool} {asked}: {ended}");
    }
}

#[tokio::test]
async fn an_accepted_request_must_be_answered_by_a_task_and_should_be_at_once() {
    let (_site, client) = client().await;
    let started = std::time::Instant::now();
    let result = client.result(1, "tools/call", json!({ "name": "hang", "task": {} })).await;
    assert_eq!(result.as_object().unwrap().keys().collect::<Vec<_>>(), ["task"]);
    assert!(started.elapsed() < Duration::from_secs(5), "the task itself would take for ever");
}

#[tokio::test]
async fn result_must_block_until_the_task_ends() {
    let (site, client) = client().await;
    let task = client.task(1, "hang", json!({})).await;
    let waiting = client.request(2, "tasks/result", named(&task));
    let mut waiting = std::pin::pin!(waiting);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err(), "there is nothing to say yet");
    site.signal(&task, "go").await;
    let reply = waiting.await.last().await;
    assert_eq!(reply["result"]["content"][0]["text"], "go");
}

#[tokio::test]
async fn result_must_be_exactly_what_the_plain_call_returns_result_or_error() {
    let (_site, client) = client().await;
    for (id, tool) in (1..).step_by(3).zip(["add_durably", "fails", "breaks", "panics"]) {
        let arguments = if tool == "add_durably" { json!({ "a": 1, "b": 2 }) } else { json!({}) };
        let plain = json!({ "name": tool, "arguments": arguments });
        let mut plain = client.request(id, "tools/call", plain).await.last().await;
        let task = client.task(id + 1, tool, arguments).await;
        for _ in 0..2 {
            // Over or not, it is the same.
            let reply = client.request(id + 2, "tasks/result", named(&task)).await;
            let mut reply = reply.last().await;
            (reply["id"], plain["id"]) = (Value::Null, Value::Null);
            if let Some(result) = reply.get_mut("result") {
                let meta = result.as_object_mut().unwrap().remove("_meta");
                assert_eq!(meta, Some(json!({ RELATED: named(&task) })));
            }
            assert_eq!(reply, plain, "{tool}");
        }
    }
}

#[tokio::test]
async fn the_task_id_parameter_must_win_over_related_task_metadata() {
    let (_site, client) = client().await;
    let one = client.task(1, "hang", json!({})).await;
    let other = client.task(2, "required", json!({})).await;
    client.until(text(&other["taskId"]), "completed").await;
    let mut params = named(&other);
    params["_meta"] = json!({ RELATED: named(&one) });
    let got = client.result(3, "tasks/get", params.clone()).await;
    assert_eq!(got["taskId"], other["taskId"]);
    let result = client.result(4, "tasks/result", params).await;
    assert_eq!(result["_meta"][RELATED], named(&other));
    let mut params = named(&one);
    params["_meta"] = json!({ RELATED: named(&other) });
    assert_eq!(client.result(5, "tasks/cancel", params).await["taskId"], one["taskId"]);
}

#[tokio::test]
async fn what_can_be_got_must_be_listed() {
    let settings = Settings { anonymous_list: true, page_size: 2, ..Settings::default() };
    let (_site, client) = open(server(&Count::default()).settings(settings)).await;
    let mut known = Vec::new();
    for (id, tool) in (1..).zip(["hang", "required", "fails", "breaks", "two_questions", "hang"]) {
        known.push(client.task(id, tool, json!({})).await["taskId"].clone());
    }
    client.result(20, "tasks/cancel", json!({ "taskId": known[5] })).await;
    let (mut listed, mut cursor) = (Vec::new(), json!({}));
    loop {
        let page = client.result(21, "tasks/list", cursor).await;
        let tasks = page["tasks"].as_array().unwrap();
        assert!(tasks.len() <= 2, "pages should be limited");
        listed.extend(tasks.iter().map(|task| task["taskId"].clone()));
        match page.get("nextCursor") {
            Some(next) => cursor = json!({ "cursor": next }),
            None => break,
        }
    }
    for id in &known {
        assert!(listed.contains(id), "{id}");
    }
    assert_eq!(listed.len(), known.len());
}

#[tokio::test]
async fn cancel_must_be_refused_with_32602_in_each_terminal_status() {
    let (_site, client) = client().await;
    for (id, tool, status) in [(1, "required", "completed"), (3, "fails", "failed")] {
        let task = client.task(id, tool, json!({})).await;
        client.until(text(&task["taskId"]), status).await;
        let error = client.error(id + 1, "tasks/cancel", named(&task)).await;
        assert_eq!(error["code"], -32602, "{status}");
        assert!(text(&error["message"]).contains(status), "{error}");
    }
}

/// Says when it is dropped.
struct Dropped(Arc<Mutex<bool>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = true;
    }
}

#[tokio::test]
async fn cancel_should_stop_the_execution_and_must_show_cancelled_in_its_answer() {
    let (begun, stopped) = (Arc::new(Mutex::new(false)), Arc::new(Mutex::new(false)));
    let (begins, stops) = (begun.clone(), stopped.clone());
    let tool = Tool::new("endless", move |ctx: Context, _: NoInput| {
        let (begins, stops) = (begins.clone(), stops.clone());
        async move {
            ctx.step("for ever", || async {
                let _dropped = Dropped(stops.clone());
                *begins.lock().unwrap() = true;
                std::future::pending::<Result<(), Error>>().await
            })
            .await?;
            Ok("never")
        }
    });
    let (_site, client) = open(Server::new("test").tool(tool)).await;
    let task = client.task(1, "endless", json!({})).await;
    while !*begun.lock().unwrap() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(client.result(2, "tasks/cancel", named(&task)).await["status"], "cancelled");
    while !*stopped.lock().unwrap() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_cancelled_task_must_stay_so_even_if_its_execution_completes() {
    let go = Arc::new(tokio::sync::Notify::new());
    let (begun, done) = (Count::default(), Count::default());
    let (going, began, ended) = (go.clone(), begun.clone(), done.clone());
    let tool = Tool::new("stubborn", move |ctx: Context, _: NoInput| {
        let (go, begun, done) = (going.clone(), began.clone(), ended.clone());
        async move {
            // Nobody can stop what runs elsewhere.
            ctx.step("elsewhere", || {
                let (go, begun, done) = (go.clone(), begun.clone(), done.clone());
                let elsewhere = tokio::spawn(async move {
                    begun.add();
                    go.notified().await;
                    done.add();
                });
                async { elsewhere.await.map_err(|error| Error::new(error.to_string())) }
            })
            .await?;
            Ok("done")
        }
    });
    let (_site, client) = open(Server::new("test").tool(tool)).await;
    let task = client.task(1, "stubborn", json!({})).await;
    while begun.get() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    client.result(2, "tasks/cancel", named(&task)).await;
    go.notify_one();
    while done.get() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for id in 3..10 {
        let seen = client.result(id, "tasks/get", named(&task)).await;
        assert_eq!(seen["status"], "cancelled");
    }
}

#[tokio::test]
async fn internal_errors_must_be_32603_and_say_nothing_of_the_inside() {
    let (_site, client) = client().await;
    let task = client.task(1, "panics", json!({})).await;
    let error = client.error(2, "tasks/result", named(&task)).await;
    assert_eq!(error["code"], -32603);
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn error_messages_should_be_informative() {
    let settings = Settings { anonymous_list: true, ..Settings::default() };
    let (_site, client) = open(server(&Count::default()).settings(settings)).await;
    for (method, params, says) in [
        ("tasks/get", json!({ "taskId": "nobody" }), "not found"),
        ("tasks/get", json!({}), "taskId"),
        ("tasks/list", json!({ "cursor": "x" }), "cursor"),
        ("tools/call", json!({ "name": "forbidden", "task": {} }), "as a task"),
        ("tools/call", json!({ "name": "required" }), "only be called as a task"),
    ] {
        let error = client.error(1, method, params).await;
        assert!(text(&error["message"]).contains(says), "{method}: {error}");
    }
}

#[tokio::test]
async fn a_failed_task_should_say_why_in_its_status_message() {
    let by_result = Tool::new("by_result", |_: Context, _: NoInput| async {
        Ok(CallResult::error("the printer is on fire"))
    });
    let by_structure = Tool::new("sum", |_: Context, _: NoInput| async { Ok(Structured(3)) });
    let (_site, client) = open(server(&Count::default()).tool(by_result).tool(by_structure)).await;
    for (id, tool, why) in [
        (1, "by_result", "the printer is on fire"),
        (2, "fails", "out of paper"),
        (3, "breaks", "the protocol is broken"),
    ] {
        let task = client.task(id, tool, json!({})).await;
        let seen = client.until(text(&task["taskId"]), "failed").await;
        assert_eq!(seen["statusMessage"], why);
    }
    let fine = client.task(4, "sum", json!({})).await;
    let seen = client.until(text(&fine["taskId"]), "completed").await;
    assert!(seen.get("statusMessage").is_none(), "nothing went wrong");
}

#[tokio::test]
async fn all_operations_on_tasks_should_be_limited_in_rate() {
    let settings =
        Settings { max_polls_per_second: 1, anonymous_list: true, ..Settings::default() };
    for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
        let (_site, client) = open(server(&Count::default()).settings(settings.clone())).await;
        let mut refused = 0;
        for id in 1..10 {
            // Whoever guesses ids is stopped as well.
            let reply = client.request(id, method, json!({ "taskId": format!("guess{id}") })).await;
            refused += u32::from(reply.status == 429);
        }
        assert!(refused >= 5, "{method}: {refused} of 9 were refused");
    }
}
