//! What the text of the Tasks extension of 2026-07-28 asks of a server, as far as no other test has it.
//! docs/tasks-musts.md has the whole list.

use std::{collections::HashSet, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_engine::Error;
use steadfast_mcp::{CallResult, Context, NoInput, Server, Tool};

use crate::{
    site::{Legacy, Site, TASKS, able},
    tasks_2026::{accept, lamp},
    tools::{Count, server},
};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn site() -> Site {
    Site::start(server(&Count::default())).await
}

#[tokio::test]
async fn a_task_must_be_an_answer_to_calls_of_tools_alone() {
    let site = site().await;
    // A prompt is durable inside, and yet never a task.
    let prompt = site.result(&able(), "prompts/get", json!({ "name": "ask" })).await;
    assert_eq!(prompt["resultType"], "input_required");
    for (method, params) in [
        ("tools/list", json!({})),
        ("prompts/get", json!({ "name": "greet", "arguments": { "name": "Ada" } })),
        ("resources/read", json!({ "uri": "test://text" })),
        ("server/discover", json!({})),
    ] {
        let result = site.result(&able(), method, params).await;
        assert_eq!(result["resultType"], "complete", "{method}");
    }
}

#[tokio::test]
async fn an_earlier_declaration_must_not_count_not_even_on_one_connection() {
    let site = site().await;
    let params = json!({ "name": "required", "arguments": {} });
    site.task("required", json!({})).await;
    let nothing = json!({ "extensions": { "example.com/other": {} } });
    let (_, error) = site.error(&nothing, "tools/call", params.clone()).await;
    assert_eq!(error["code"], -32021);
    let off = json!({ "extensions": { TASKS: null } });
    assert_eq!(site.error(&off, "tools/call", params).await.1["code"], -32021);
}

#[tokio::test]
async fn get_must_show_each_status_with_what_belongs_to_it_and_nothing_else() {
    let site = site().await;
    let hang = site.task("hang", json!({})).await;
    let cancelled = site.task("hang", json!({})).await;
    site.result(&able(), "tasks/cancel", json!({ "taskId": cancelled["taskId"] })).await;
    for (task, status, has) in [
        (hang, "working", None),
        (site.task("approve", lamp()).await, "input_required", Some("inputRequests")),
        (site.task("required", json!({})).await, "completed", Some("result")),
        (cancelled, "cancelled", None),
        (site.task("breaks", json!({})).await, "failed", Some("error")),
    ] {
        let seen = site.until(&task, status).await;
        let fields = ["inputRequests", "result", "error"];
        let found: Vec<&str> = fields.into_iter().filter(|f| seen.get(*f).is_some()).collect();
        assert_eq!(found, Vec::from_iter(has), "{status}");
    }
}

#[tokio::test]
async fn keys_must_be_unique_over_the_life_of_a_task() {
    let tool = Tool::new("asks_often", |ctx: Context, _: NoInput| async move {
        let mut names = Vec::new();
        for _ in 0..3 {
            // The author says the same each time, at once and one after the other.
            let one = ctx.ask::<Name>("Name?").key("name").into_future();
            let two = ctx.ask::<Name>("Name?").key("name").into_future();
            let (one, two) = steadfast_engine::join(one, two).await;
            names.extend([one?.accepted(), two?.accepted()]);
        }
        Ok(names.iter().flatten().map(|name| name.name.as_str()).collect::<String>())
    });
    let site = Site::start(Server::new("test").tool(tool)).await;
    let task = site.task("asks_often", json!({})).await;
    let mut seen = HashSet::new();
    while seen.len() < 6 {
        let asks = site.until(&task, "input_required").await;
        let Some(requests) = asks["inputRequests"].as_object() else { continue };
        let new: Vec<&String> = requests.keys().filter(|key| !seen.contains(*key)).collect();
        if new.len() != 2 {
            // Between two rounds.
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        let letter = json!({ "name": "x" });
        let responses = new.iter().map(|key| ((*key).clone(), accept(letter.clone())));
        site.update(&task, Value::Object(responses.collect())).await;
        seen.extend(new.into_iter().cloned().collect::<Vec<_>>());
    }
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "xxxxxx");
}

#[tokio::test]
async fn notifications_cancelled_must_not_cancel_a_task() {
    let site = site().await;
    let task = site.task("hang", json!({})).await;
    // The id that all requests of this client have.
    let said = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7, "reason": task["taskId"] } });
    let headers = [
        crate::site::JSON,
        crate::site::ACCEPT,
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "notifications/cancelled"),
    ];
    let heard = crate::http::send(site.address, "POST", &headers, &said.to_string()).await;
    assert_eq!(heard.status, 202);
    assert_eq!(site.get(&task).await["status"], "working");
}

#[tokio::test]
async fn progress_and_log_must_not_be_sent_on_the_stream_of_a_listener() {
    let tool = Tool::new("talks_later", |ctx: Context, _: NoInput| async move {
        ctx.event::<String>("go").await?;
        ctx.progress(1.0, Some(2.0), Some("half"));
        ctx.log("emergency", "help");
        ctx.step("work", || async { Ok::<_, Error>(()) }).await?;
        ctx.event::<String>("end").await
    });
    let site = Site::start(Server::new("test").tool(tool)).await;
    let meta = json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug" });
    let call = json!({ "name": "talks_later", "_meta": meta });
    let task = site.result(&able(), "tools/call", call).await;
    let listen = json!({ "notifications": { "taskIds": [task["taskId"]] }, "_meta": meta });
    let mut events = site.modern(&able(), "subscriptions/listen", listen).await.events();
    events.next().await.unwrap();
    site.signal(&task, "go").await;
    let mut told = Vec::new();
    loop {
        let event = events.next().await.unwrap();
        assert_eq!(event["method"], "notifications/tasks", "{event}");
        if event["params"]["statusMessage"] == "half" && told.is_empty() {
            // What it says is in its state.
            told.push("half");
            site.signal(&task, "end").await;
        }
        if event["params"]["status"] == "completed" {
            break;
        }
    }
    assert_eq!(told, ["half"]);
}

#[tokio::test]
async fn internal_errors_must_be_32603() {
    let site = site().await;
    let task = site.task("panics", json!({})).await;
    assert_eq!(site.until(&task, "failed").await["error"]["code"], -32603);
}

#[tokio::test]
async fn error_messages_should_be_informative() {
    let site = site().await;
    for (method, params, says) in [
        ("tasks/get", json!({ "taskId": "nobody" }), "not found"),
        ("tasks/get", json!({}), "taskId"),
        ("tasks/update", json!({ "taskId": "nobody", "inputResponses": {} }), "not found"),
        ("tasks/update", json!({ "taskId": "nobody" }), "inputResponses"),
        ("tasks/cancel", json!({ "taskId": "nobody" }), "not found"),
    ] {
        let (_, error) = site.error(&able(), method, params).await;
        assert!(error["message"].as_str().unwrap().contains(says), "{method}: {error}");
    }
    let task = json!({ "name": "required" });
    let (_, error) = site.error(&json!({}), "tools/call", task).await;
    assert!(error["message"].as_str().unwrap().contains("capability"), "{error}");
}

#[tokio::test]
async fn a_result_with_is_error_must_be_completed_however_the_tool_says_it() {
    let by_result = Tool::new("by_result", |_: Context, _: NoInput| async {
        Ok(CallResult::error("the printer is on fire"))
    });
    let site = Site::start(server(&Count::default()).tool(by_result)).await;
    for (tool, why) in [("by_result", "the printer is on fire"), ("fails", "out of paper")] {
        let task = site.task(tool, json!({})).await;
        let done = site.until(&task, "completed").await;
        assert_eq!(done["result"]["isError"], true);
        assert_eq!(done["result"]["content"][0]["text"], why);
        assert!(done.get("error").is_none());
    }
}

#[tokio::test]
async fn the_result_of_a_task_must_be_that_of_the_call() {
    let site = site().await;
    let nothing = json!({});
    for tool in ["add_durably", "fails"] {
        let call = json!({ "name": tool, "arguments": { "a": 1, "b": 2 } });
        let call = if tool == "fails" { json!({ "name": tool }) } else { call };
        let mut plain = site.result(&nothing, "tools/call", call.clone()).await;
        let fields = plain.as_object_mut().unwrap();
        // It belongs to the answer, and not to what the tool returned.
        fields.remove("_meta");
        let task = site.result(&able(), "tools/call", call).await;
        assert_eq!(site.until(&task, "completed").await["result"], plain, "{tool}");
    }
    let (_, plain) = site.error(&nothing, "tools/call", json!({ "name": "breaks" })).await;
    let task = site.task("breaks", json!({})).await;
    assert_eq!(site.until(&task, "failed").await["error"], plain);
}

#[tokio::test]
async fn a_task_of_one_generation_is_followed_in_the_words_of_the_other() {
    let site = site().await;
    let task = site.task("approve", lamp()).await;
    let old = Legacy::open(&site, "2025-11-25", crate::tasks_2025::elicits()).await;
    let seen = old.until(task["taskId"].as_str().unwrap(), "input_required").await;
    assert!(seen.get("ttl").is_some() && seen.get("ttlMs").is_none());
    site.update(&task, json!({ "approval": accept(json!({ "approved": true })) })).await;
    let result = old.result(1, "tasks/result", json!({ "taskId": task["taskId"] })).await;
    assert_eq!(result["content"][0]["text"], "approved: true");
}
