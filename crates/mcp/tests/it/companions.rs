//! Tasks for clients that know none, by way of tools.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_mcp::Settings;

use crate::{
    site::{Legacy, Site},
    tools::{Count, server},
};

async fn site(outlives: Duration) -> Site {
    let settings =
        Settings { companions: true, outlives, anonymous_list: true, ..Settings::default() };
    Site::start(server(&Count::default()).settings(settings)).await
}

async fn call(site: &Site, tool: &str, arguments: Value) -> Value {
    site.result(&json!({}), "tools/call", json!({ "name": tool, "arguments": arguments })).await
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn they_are_offered_only_if_they_are_switched_on() {
    let names = async |site: &Site| {
        let listed = site.result(&json!({}), "tools/list", json!({})).await;
        let tools = listed["tools"].as_array().unwrap().clone();
        let names = tools.into_iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("task_")).collect::<Vec<_>>()
    };
    let off = Site::start(server(&Count::default())).await;
    assert!(names(&off).await.is_empty());
    let on = site(Duration::from_secs(9)).await;
    let all = ["task_status", "task_result", "task_list", "task_input", "task_cancel"];
    assert_eq!(names(&on).await, all);
}

#[tokio::test]
async fn a_call_that_outlives_its_time_goes_on_as_a_task() {
    let site = site(Duration::from_millis(50)).await;
    let result = call(&site, "hang", json!({})).await;
    assert!(result.get("isError").is_none() && text(&result).contains("task_result"), "{result}");
    let task = result["structuredContent"]["task_id"].clone();
    let status = call(&site, "task_status", json!({ "task_id": task })).await;
    assert!(
        ["running", "waiting"].contains(&status["structuredContent"]["status"].as_str().unwrap())
    );
    let waited = call(&site, "task_result", json!({ "task_id": task, "wait_seconds": 0.01 })).await;
    assert!(text(&waited).contains("takes longer"), "{waited}");
    let id = steadfast_engine::TaskId::new(task.as_str().unwrap()).unwrap();
    let event = steadfast_engine::Event::new("go", "here we are");
    site.running.engine().operator().signal(&id, event).await.unwrap();
    let result = call(&site, "task_result", json!({ "task_id": task })).await;
    assert_eq!(text(&result), "here we are");
    let listed = call(&site, "task_list", json!({})).await;
    assert_eq!(listed["structuredContent"]["tasks"][0]["status"], "completed");
}

#[tokio::test]
async fn a_question_that_the_client_cannot_be_asked_goes_to_the_model_and_its_answer_back() {
    let site = site(Duration::from_secs(20)).await;
    for old in [false, true] {
        let order = json!({ "item": "lamp" });
        let result = match old {
            false => call(&site, "approve", order).await,
            true => {
                let client = Legacy::open(&site, "2025-11-25", json!({})).await;
                let params = json!({ "name": "approve", "arguments": order });
                client.result(1, "tools/call", params).await
            }
        };
        assert!(
            text(&result).contains("Approve lamp?") && text(&result).contains("task_input"),
            "{result}"
        );
        let task = &result["structuredContent"]["task_id"];
        assert_eq!(result["structuredContent"]["questions"][0]["key"], "approval");
        let wrong = json!({ "task_id": task, "answer": { "approved": "yes" } });
        let refused = call(&site, "task_input", wrong).await;
        assert!(refused["isError"] == true && text(&refused).contains("does not fit"), "{refused}");
        let right = json!({ "task_id": task, "key": "approval", "answer": { "approved": true } });
        let done = call(&site, "task_input", right.clone()).await;
        assert_eq!(text(&done), "approved: true");
        let late = call(&site, "task_input", right).await;
        assert!(late["isError"] == true && text(&late).contains("already completed"), "{late}");
    }
}

#[tokio::test]
async fn several_questions_are_told_apart_and_can_be_declined() {
    let site = site(Duration::from_secs(20)).await;
    let result = call(&site, "two_questions", json!({})).await;
    let task = &result["structuredContent"]["task_id"];
    let which = call(&site, "task_input", json!({ "task_id": task, "answer": {} })).await;
    assert!(which["isError"] == true && text(&which).contains("say which"), "{which}");
    let first = json!({ "task_id": task, "key": "first", "action": "decline" });
    let rest = call(&site, "task_input", first).await;
    assert!(text(&rest).contains("Last name?") && !text(&rest).contains("First name?"), "{rest}");
    let last = json!({ "task_id": task, "answer": { "name": "L." } });
    assert_eq!(text(&call(&site, "task_input", last).await), "nobody L.");
}

#[tokio::test]
async fn a_task_is_cancelled_and_unknown_ones_are_errors_for_the_model() {
    let site = site(Duration::from_millis(50)).await;
    let task = call(&site, "hang", json!({})).await["structuredContent"]["task_id"].clone();
    let cancelled =
        call(&site, "task_cancel", json!({ "task_id": task, "reason": "enough" })).await;
    assert!(text(&cancelled).contains("cancelled"));
    let result = call(&site, "task_result", json!({ "task_id": task })).await;
    assert!(result["isError"] == true && text(&result).contains("enough"), "{result}");
    for tool in ["task_status", "task_result", "task_input", "task_cancel"] {
        let unknown = call(&site, tool, json!({ "task_id": "nobody" })).await;
        assert!(
            unknown["isError"] == true && text(&unknown).contains("nobody"),
            "{tool} {unknown}"
        );
    }
}

#[tokio::test]
async fn callers_without_a_name_do_not_list_each_others_tasks() {
    let settings = Settings { companions: true, ..Settings::default() };
    let site = Site::start(server(&Count::default()).settings(settings)).await;
    assert_eq!(call(&site, "task_list", json!({})).await["isError"], true);
}

#[tokio::test]
async fn a_task_that_is_left_to_other_processes_says_so() {
    let settings =
        Settings { companions: true, outlives: Duration::from_millis(50), ..Settings::default() };
    let server = server(&Count::default()).settings(settings).engine(|mut engine| {
        engine.settings_mut().only = Some(["who".to_owned()].into());
        engine
    });
    let site = Site::start(server).await;
    let left = call(&site, "hang", json!({})).await["structuredContent"].clone();
    let says = "waiting for a process that runs \"hang\"";
    assert_eq!((&left["status"], &left["message"]), (&json!("queued"), &json!(says)));
    let status = call(&site, "task_status", json!({ "task_id": left["task_id"] })).await;
    assert!(text(&status).ends_with(&format!("of hang is queued. {says}")), "{status}");
}
