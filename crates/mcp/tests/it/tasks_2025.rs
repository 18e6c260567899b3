//! Tasks of 2025-11-25, sentence by sentence as far as they bind a server.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_mcp::{Auth, Settings};
use steadfast_store::Disk;

use crate::{
    http::Events,
    site::{Legacy, Site},
    tools::{Count, server},
};

pub(crate) const RELATED: &str = "io.modelcontextprotocol/related-task";

pub(crate) fn elicits() -> Value {
    json!({ "elicitation": { "form": {} } })
}

pub(crate) async fn client() -> (Site, Legacy) {
    let site = Site::start(server(&Count::default())).await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    (site, client)
}

impl Legacy {
    /// Calls a tool as a task, and gives the task.
    pub(crate) async fn task(&self, id: u64, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments, "task": { "ttl": 60000 } });
        let result = self.result(id, "tools/call", params).await;
        assert!(result.get("content").is_none() && result.get("resultType").is_none(), "{result}");
        result["task"].clone()
    }
}

pub(crate) fn named(task: &Value) -> Value {
    json!({ "taskId": task["taskId"] })
}

/// The next request of the server on a stream.
pub(crate) async fn asked(events: &mut Events) -> Value {
    loop {
        let event = events.next().await.expect("a question");
        if event.get("method").is_some() && event.get("id").is_some() {
            return event;
        }
    }
}

pub(crate) fn answer(question: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
}

pub(crate) fn yes() -> Value {
    json!({ "action": "accept", "content": { "approved": true } })
}

#[tokio::test]
async fn must_declare_the_capability_by_category_and_list_only_for_known_callers() {
    let (_site, client) = client().await;
    let tasks = &client.opening["capabilities"]["tasks"];
    assert_eq!(tasks["requests"]["tools"]["call"], json!({}));
    assert_eq!(tasks["cancel"], json!({}));
    assert!(tasks.get("list").is_none(), "callers without a name could list each other's");
    let error = client.error(1, "tasks/list", json!({})).await;
    assert_eq!(error["code"], -32601);
}

#[tokio::test]
async fn tools_declare_their_support_in_this_revision_only() {
    let (site, client) = client().await;
    let listed = client.result(1, "tools/list", json!({})).await;
    let support = |name: &str| {
        let tools = listed["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["execution"]["taskSupport"].clone()
    };
    assert_eq!(support("approve"), "optional");
    assert_eq!(support("required"), "required");
    assert_eq!(support("forbidden"), "forbidden");
    assert_eq!(support("add"), "forbidden");
    let older = Legacy::open(&site, "2025-06-18", json!({})).await;
    let listed = older.result(1, "tools/list", json!({})).await;
    assert!(listed["tools"].as_array().unwrap().iter().all(|t| t.get("execution").is_none()));
}

#[tokio::test]
async fn support_is_enforced_both_ways_with_32601() {
    let (_site, client) = client().await;
    let as_task = json!({ "name": "forbidden", "task": {} });
    assert_eq!(client.error(1, "tools/call", as_task).await["code"], -32601);
    let plain = json!({ "name": "add", "arguments": { "a": 1, "b": 1 }, "task": {} });
    assert_eq!(client.error(2, "tools/call", plain).await["code"], -32601);
    let direct = json!({ "name": "required" });
    assert_eq!(client.error(3, "tools/call", direct).await["code"], -32601);
}

#[tokio::test]
async fn a_revision_without_tasks_ignores_what_is_said_of_them() {
    let site = Site::start(server(&Count::default())).await;
    let client = Legacy::open(&site, "2025-06-18", json!({})).await;
    assert!(client.opening["capabilities"].get("tasks").is_none());
    let params = json!({ "name": "add_durably", "arguments": { "a": 1, "b": 2 }, "task": {} });
    let result = client.result(1, "tools/call", params).await;
    assert_eq!(result["structuredContent"], json!({ "total": 3 }));
    assert_eq!(client.error(2, "tasks/get", json!({ "taskId": "x" })).await["code"], -32601);
}

#[tokio::test]
async fn a_task_begins_working_and_every_answer_has_its_times_and_its_real_ttl() {
    let (_site, client) = client().await;
    let task = client.task(1, "hang", json!({})).await;
    assert_eq!(task["status"], "working");
    for seen in [task.clone(), client.result(2, "tasks/get", named(&task)).await] {
        assert!(seen["createdAt"].is_string() && seen["lastUpdatedAt"].is_string());
        // It never expires while it works, whatever the client asked for.
        assert_eq!(seen.get("ttl"), Some(&Value::Null));
        assert!(seen["pollInterval"].as_u64().unwrap() > 0);
        assert!(seen.get("ttlMs").is_none() && seen.get("_meta").is_none());
    }
}

#[tokio::test]
async fn a_ttl_is_raised_to_the_tools_own_and_reported_at_the_end() {
    let (_site, client) = client().await;
    let task = client.task(1, "add_durably", json!({ "a": 1, "b": 1 })).await;
    let done = client.until(task["taskId"].as_str().unwrap(), "completed").await;
    assert!(done["ttl"].as_u64().unwrap() >= 60000, "{done}");
}

#[tokio::test]
async fn result_gives_exactly_what_the_call_would_have_given_with_the_related_task() {
    let (_site, client) = client().await;
    let task = client.task(1, "add_durably", json!({ "a": 1, "b": 2 })).await;
    let result = client.result(2, "tasks/result", named(&task)).await;
    assert_eq!(result["structuredContent"], json!({ "total": 3 }));
    assert_eq!(result["_meta"][RELATED], named(&task));
    let task = client.task(3, "breaks", json!({})).await;
    let error = client.error(4, "tasks/result", named(&task)).await;
    assert_eq!(error, json!({ "code": -31999, "message": "the protocol is broken" }));
}

#[tokio::test]
async fn a_tool_error_fails_the_task_and_its_result_is_the_tools() {
    let (_site, client) = client().await;
    let task = client.task(1, "fails", json!({})).await;
    let result = client.result(2, "tasks/result", named(&task)).await;
    assert_eq!(result["isError"], true);
    let seen = client.result(3, "tasks/get", named(&task)).await;
    assert_eq!(
        (&seen["status"], &seen["statusMessage"]),
        (&json!("failed"), &json!("out of paper"))
    );
}

#[tokio::test]
async fn an_input_that_does_not_fit_creates_a_task_that_fails_without_running() {
    let count = Count::default();
    let site = Site::start(server(&count)).await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    let task = client.task(1, "approve", json!({ "item": "lamp", "count": 11 })).await;
    let result = client.result(2, "tasks/result", named(&task)).await;
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("input schema") && text.contains("count"), "{text}");
    assert_eq!(client.result(3, "tasks/get", named(&task)).await["status"], "failed");
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn result_blocks_and_carries_the_questions_with_the_related_task() {
    let (_site, client) = client().await;
    let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
    let mut events = client.request(2, "tasks/result", named(&task)).await.events();
    let question = asked(&mut events).await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["_meta"][RELATED], named(&task));
    let seen = client.result(3, "tasks/get", named(&task)).await;
    assert_eq!(seen["status"], "input_required");
    client.say(&answer(&question, yes())).await;
    let last = events.next().await.unwrap();
    assert_eq!(last["id"], 2);
    assert_eq!(last["result"]["content"][0]["text"], "approved: true");
    assert!(events.next().await.is_none(), "the stream ends at the response");
}

#[tokio::test]
async fn questions_come_first_in_first_out() {
    let (_site, client) = client().await;
    let task = client.task(1, "two_questions", json!({})).await;
    client.until(task["taskId"].as_str().unwrap(), "input_required").await;
    let mut events = client.request(2, "tasks/result", named(&task)).await.events();
    let (first, last) = (asked(&mut events).await, asked(&mut events).await);
    assert_eq!(first["params"]["message"], "First name?");
    assert_eq!(last["params"]["message"], "Last name?");
    let name = |name: &str| json!({ "action": "accept", "content": { "name": name } });
    client.say(&answer(&last, name("L."))).await;
    client.say(&answer(&first, name("Ada"))).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "Ada L.");
}

#[tokio::test]
async fn several_wait_for_a_result_at_once_and_a_question_goes_to_one_of_them() {
    let (_site, client) = client().await;
    let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
    client.until(task["taskId"].as_str().unwrap(), "input_required").await;
    let mut one = client.request(2, "tasks/result", named(&task)).await.events();
    let question = asked(&mut one).await;
    let two = client.request(3, "tasks/result", named(&task));
    let (two, ()) = tokio::join!(two, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        client.say(&answer(&question, yes())).await;
    });
    // Nothing but its result came on the other.
    assert_eq!(two.last().await["result"]["content"][0]["text"], "approved: true");
    assert_eq!(one.next().await.unwrap()["id"], 2);
}

#[tokio::test]
async fn a_question_goes_out_on_the_sessions_own_stream_if_nobody_waits_for_the_result() {
    let (_site, client) = client().await;
    let mut events = client.listen().await.events();
    let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
    // Not before the client looks at the task: it may not have seen the answer to its call yet.
    let told = events.next().await.unwrap();
    assert_eq!(
        (&told["method"], &told["params"]["status"]),
        (&json!("notifications/tasks/status"), &json!("input_required"))
    );
    client.result(2, "tasks/get", named(&task)).await;
    let question = asked(&mut events).await;
    assert_eq!(question["params"]["_meta"][RELATED], named(&task));
    client.say(&answer(&question, yes())).await;
    client.until(task["taskId"].as_str().unwrap(), "completed").await;
}

#[tokio::test]
async fn a_question_that_was_open_before_the_stream_is_asked_when_it_opens() {
    let (_site, client) = client().await;
    let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
    client.until(task["taskId"].as_str().unwrap(), "input_required").await;
    let mut events = client.listen().await.events();
    let question = asked(&mut events).await;
    drop(events);
    // That stream is gone, and with it the question: it is asked again under a new id.
    let mut events = client.request(2, "tasks/result", named(&task)).await.events();
    let again = asked(&mut events).await;
    assert_ne!(question["id"], again["id"]);
    client.say(&answer(&again, yes())).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "approved: true");
}

#[tokio::test]
async fn changes_of_status_are_told_on_the_sessions_stream_with_the_whole_task() {
    let (_site, client) = client().await;
    let mut events = client.listen().await.events();
    let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
    client.result(4, "tasks/get", named(&task)).await;
    let (mut statuses, mut question) = (Vec::new(), Value::Null);
    while statuses.last() != Some(&json!("completed")) {
        let event = events.next().await.unwrap();
        match event["method"].as_str() {
            Some("elicitation/create") => {
                question = event;
                client.say(&answer(&question, yes())).await;
            }
            Some("notifications/tasks/status") => {
                let params = &event["params"];
                assert_eq!(params["taskId"], task["taskId"]);
                assert!(params["createdAt"].is_string() && params.get("ttl").is_some());
                assert!(params.get("_meta").is_none(), "the id is there already");
                statuses.push(params["status"].clone());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(question.is_object());
    // Between the question and the end it may or may not be seen working.
    statuses.retain(|status| *status != "working");
    assert_eq!(statuses.last(), Some(&json!("completed")));
    // One that opens its stream in the middle hears the rest.
    let task = client.task(2, "hang", json!({})).await;
    drop(events);
    let mut events = client.listen().await.events();
    client.result(3, "tasks/cancel", named(&task)).await;
    let told = events.next().await.unwrap();
    assert_eq!(
        (&told["method"], &told["params"]["status"]),
        (&json!("notifications/tasks/status"), &json!("cancelled"))
    );
}

#[tokio::test]
async fn the_progress_token_holds_for_the_tasks_life() {
    let (_site, client) = client().await;
    let mut events = client.listen().await.events();
    let params =
        json!({ "name": "talks", "arguments": {}, "task": {}, "_meta": { "progressToken": "p" } });
    let task = client.result(1, "tools/call", params).await["task"].clone();
    let mut seen = Vec::new();
    loop {
        let event = events.next().await.unwrap();
        if event["method"] == "notifications/tasks/status" {
            break;
        }
        assert_eq!(event["method"], "notifications/progress");
        assert_eq!(event["params"]["progressToken"], "p");
        assert_eq!(event["params"]["_meta"][RELATED], named(&task));
        seen.push(event["params"]["progress"].clone());
    }
    assert_eq!(seen, [json!(1), json!(3)]);
}

#[tokio::test]
async fn cancel_gives_the_cancelled_task_and_refuses_what_is_over() {
    let (_site, client) = client().await;
    let task = client.task(1, "hang", json!({})).await;
    let cancelled = client.result(2, "tasks/cancel", named(&task)).await;
    assert_eq!(
        (&cancelled["status"], &cancelled["taskId"]),
        (&json!("cancelled"), &task["taskId"])
    );
    let error = client.error(3, "tasks/cancel", named(&task)).await;
    assert_eq!(error["code"], -32602);
    assert!(error["message"].as_str().unwrap().contains("cancelled"), "{error}");
    assert!(
        client.error(4, "tasks/result", named(&task)).await["message"]
            .as_str()
            .unwrap()
            .contains("cancelled")
    );
}

#[tokio::test]
async fn unknown_tasks_and_cursors_are_invalid_params() {
    let site = Site::start(
        server(&Count::default())
            .settings(Settings { anonymous_list: true, ..Settings::default() }),
    )
    .await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let error = client.error(1, method, json!({ "taskId": "nobody" })).await;
        assert_eq!(error["code"], -32602, "{method}");
    }
    let error = client.error(2, "tasks/list", json!({ "cursor": "nonsense" })).await;
    assert_eq!(error["code"], -32602);
}

#[tokio::test]
async fn list_gives_pages_of_the_callers_own_tasks() {
    let tokens = ["ada", "bob"].map(|name| {
        (format!("{name}-0123456789abcdef"), steadfast_engine::Principal::new(name).unwrap())
    });
    let settings = Settings { page_size: 2, ..Settings::default() };
    let server = server(&Count::default()).auth(Auth::tokens(tokens)).settings(settings);
    let site = Site::start(server).await;
    let operator = site.running.engine();
    for (owner, tool) in [("ada", "hang"), ("bob", "hang"), ("ada", "hang"), ("ada", "approve")] {
        let tasks = operator.tasks(steadfast_engine::Principal::new(owner).unwrap());
        tasks.start(tool, &json!({ "item": "lamp" })).await.unwrap();
    }
    let ada = Legacy::open_as(&site, "2025-11-25", elicits(), Some("ada-0123456789abcdef")).await;
    assert_eq!(ada.opening["capabilities"]["tasks"]["list"], json!({}));
    let first = ada.result(1, "tasks/list", json!({})).await;
    assert_eq!(first["tasks"].as_array().unwrap().len(), 2);
    let cursor = &first["nextCursor"];
    let second = ada.result(2, "tasks/list", json!({ "cursor": cursor })).await;
    assert_eq!(second["tasks"].as_array().unwrap().len(), 1);
    assert!(second.get("nextCursor").is_none());
    // What is in a list can be got, and by nobody else.
    let id = second["tasks"][0]["taskId"].clone();
    ada.result(3, "tasks/get", json!({ "taskId": id })).await;
    let bob = Legacy::open_as(&site, "2025-11-25", elicits(), Some("bob-0123456789abcdef")).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(bob.error(4, method, json!({ "taskId": id })).await["code"], -32602);
    }
    assert_eq!(bob.result(5, "tasks/list", json!({})).await["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn notifications_cancelled_never_cancels_a_task() {
    let (_site, client) = client().await;
    let task = client.task(41, "hang", json!({})).await;
    client
        .say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 41 } }))
        .await;
    assert_eq!(client.result(42, "tasks/get", named(&task)).await["status"], "working");
}

#[tokio::test]
async fn a_task_can_be_followed_from_another_session_after_a_restart() {
    let (disk, count) = (Disk::new(), Count::default());
    let task = {
        let site = Site::on(server(&count), &disk).await;
        let client = Legacy::open(&site, "2025-11-25", elicits()).await;
        let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
        client.until(task["taskId"].as_str().unwrap(), "input_required").await;
        site.running.shutdown(Duration::from_secs(1)).await;
        task
    };
    let site = Site::on(server(&count), &disk).await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    let mut events = client.request(1, "tasks/result", named(&task)).await.events();
    let question = asked(&mut events).await;
    client.say(&answer(&question, yes())).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "approved: true");
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn a_session_that_looks_again_at_a_task_of_another_is_asked_on_its_own_stream() {
    let (site, first) = client().await;
    let task = first.task(1, "approve", json!({ "item": "lamp" })).await;
    first.until(task["taskId"].as_str().unwrap(), "input_required").await;
    first.end().await;

    // As ext-tasks does it: it polls, and asks for the result only when the task is over.
    let second = Legacy::open(&site, "2025-11-25", elicits()).await;
    let mut events = second.listen().await.events();
    for id in [1, 2] {
        assert_eq!(second.result(id, "tasks/get", named(&task)).await["status"], "input_required");
    }
    let question = asked(&mut events).await;
    assert_eq!(question["params"]["_meta"][RELATED], named(&task));
    second.say(&answer(&question, yes())).await;
    second.until(task["taskId"].as_str().unwrap(), "completed").await;
}
