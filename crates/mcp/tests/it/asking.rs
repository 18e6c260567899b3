//! What a tool can ask its client for, and who can be asked.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_engine::Result;
use steadfast_mcp::{Context, NoInput, Tool};

use crate::{
    site::{Legacy, Site, TASKS, able, taskless},
    tools::{Count, server},
};

async fn site() -> Site {
    Site::start(server(&Count::default())).await
}

fn call(tool: &str) -> Value {
    json!({ "name": tool, "arguments": {} })
}

fn sample() -> Value {
    json!({ "role": "assistant", "content": { "type": "text", "text": "4" }, "model": "m1", "stopReason": "endTurn" })
}

#[tokio::test]
async fn a_sample_and_roots_by_task() {
    let site = site().await;
    let task = site.task("uses_client", json!({})).await;
    let asks = site.until(&task, "input_required").await;
    let request = &asks["inputRequests"]["sample"];
    assert_eq!(request["method"], "sampling/createMessage");
    assert_eq!(request["params"]["maxTokens"], 10);
    assert_eq!(request["params"]["messages"][0]["content"]["text"], "2 + 2?");
    site.update(&task, json!({ "sample": sample() })).await;
    while site.get(&task).await["inputRequests"].get("roots").is_none() {}
    let asks = site.get(&task).await;
    assert_eq!(asks["inputRequests"]["roots"], json!({ "method": "roots/list" }));
    site.update(&task, json!({ "roots": { "roots": [{ "uri": "file:///a" }] } })).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "4 from m1, 1 roots");
}

#[tokio::test]
async fn a_sample_and_roots_live() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", json!({ "sampling": {}, "roots": {} })).await;
    let mut events = client.request(1, "tools/call", call("uses_client")).await.events();
    let asked = events.next().await.unwrap();
    assert_eq!(asked["method"], "sampling/createMessage");
    client.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": sample() })).await;
    let asked = events.next().await.unwrap();
    assert_eq!((&asked["method"], asked.get("params")), (&json!("roots/list"), None));
    client.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } })).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "4 from m1, 0 roots");
}

#[tokio::test]
async fn a_page_to_visit_in_each_generation() {
    let site = site().await;
    let asks = site.result(&taskless(), "tools/call", call("visits")).await;
    let expected =
        json!({ "mode": "url", "message": "Please pay.", "url": "https://pay.example.com/1" });
    assert_eq!(asks["inputRequests"]["pay"]["params"], expected);
    let mut again = call("visits");
    again["requestState"] = asks["requestState"].clone();
    again["inputResponses"] = json!({ "pay": { "action": "accept" } });
    let done = site.result(&taskless(), "tools/call", again).await;
    assert_eq!(done["content"][0]["text"], "went there");
    let client = Legacy::open(&site, "2025-11-25", json!({ "elicitation": { "url": {} } })).await;
    let mut events = client.request(1, "tools/call", call("visits")).await.events();
    let asked = events.next().await.unwrap();
    // Only that revision has it.
    assert!(asked["params"]["elicitationId"].is_string());
    client
        .say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "cancel" } }))
        .await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "dismissed");
}

#[tokio::test]
async fn a_question_that_the_client_cannot_answer_is_an_error_that_names_what_is_missing() {
    let site = site().await;
    for (tool, needs) in
        [("approve", "elicitation"), ("uses_client", "sampling"), ("visits", "url")]
    {
        for capabilities in [json!({}), json!({ "extensions": { TASKS: {} } })] {
            let arguments = if tool == "approve" { json!({ "item": "x" }) } else { json!({}) };
            let params = json!({ "name": tool, "arguments": arguments });
            let error = match capabilities.get("extensions") {
                None => {
                    let (status, error) = site.error(&capabilities, "tools/call", params).await;
                    assert_eq!(status, 400);
                    error
                }
                Some(_) => {
                    let task = site.result(&capabilities, "tools/call", params).await;
                    site.until(&task, "failed").await["error"].clone()
                }
            };
            assert_eq!(error["code"], -32021);
            assert!(error["data"]["requiredCapabilities"].to_string().contains(needs), "{error}");
        }
    }
    // Only pages: no forms.
    let params = json!({ "name": "approve", "arguments": { "item": "x" } });
    let pages = json!({ "elicitation": { "url": {} } });
    assert_eq!(site.error(&pages, "tools/call", params).await.1["code"], -32021);
}

async fn patient(ctx: Context, _: NoInput) -> Result<String> {
    let question =
        ctx.sample(steadfast_mcp::Sample::new("hello")).key("s").wait_for_capable_client();
    Ok(question.await?.text())
}

#[tokio::test]
async fn an_author_can_wait_for_a_client_who_can() {
    let patient = Tool::new("patient", |ctx: Context, input: NoInput| patient(ctx, input));
    let site = Site::start(server(&Count::default()).tool(patient)).await;
    let deaf = json!({ "extensions": { TASKS: {} } });
    let task = site.result(&deaf, "tools/call", call("patient")).await;
    let named = json!({ "taskId": task["taskId"] });
    site.until(&task, "input_required").await;
    let seen = site.result(&deaf, "tasks/get", named).await;
    assert_eq!((&seen["status"], seen.get("inputRequests")), (&json!("working"), None));
    site.update(&task, json!({ "s": sample() })).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "4");
}

async fn impatient(ctx: Context, _: NoInput) -> Result<String> {
    let question = ctx.roots().key("r").deadline(Duration::from_millis(50));
    match question.await {
        Err(error) if error.is_timeout() => Ok("too late".into()),
        other => Ok(format!("{other:?}")),
    }
}

#[tokio::test]
async fn a_question_can_have_a_deadline() {
    let impatient = Tool::new("impatient", |ctx: Context, input: NoInput| impatient(ctx, input));
    let site = Site::start(server(&Count::default()).tool(impatient)).await;
    let task = site.result(&able(), "tools/call", call("impatient")).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "too late");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_error_of_the_client() {
    let site = site().await;
    let task = site.task("uses_client", json!({})).await;
    site.until(&task, "input_required").await;
    site.update(&task, json!({ "sample": { "role": "nobody" } })).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["isError"], true);
    assert!(
        done["result"]["content"][0]["text"].as_str().unwrap().contains("can't be read"),
        "{done}"
    );
}
