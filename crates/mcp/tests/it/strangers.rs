//! Another principal can do nothing with what it has heard or guessed, and is not told that it was right.
//! (More of this with the things themselves: sessions and tasks in `entry`, lists in `tasks_2025`, states of
//! requests in `rounds_2026`; events and keys in `harness/survive`.)

use serde_json::{Value, json};
use steadfast_engine::{Principal, Status, TaskId};
use steadfast_mcp::{Auth, Settings};

use crate::{
    http::send_to,
    site::{JSON, Legacy, Site, able, taskless},
    tools::{Count, server},
};

const ADA: (&str, &str) = ("Authorization", "Bearer ada-0123456789abcdef");
const BOB: (&str, &str) = ("Authorization", "Bearer bob-0123456789abcdef");

async fn site() -> Site {
    let tokens = ["ada", "bob"]
        .map(|name| (format!("{name}-0123456789abcdef"), Principal::new(name).unwrap()));
    let settings = Settings { companions: true, sse: true, ..Settings::default() };
    Site::start(server(&Count::default()).auth(Auth::tokens(tokens)).settings(settings)).await
}

async fn legacy(site: &Site, who: (&str, &str)) -> Legacy {
    let token = who.1.strip_prefix("Bearer ");
    Legacy::open_as(site, "2025-11-25", json!({ "elicitation": {} }), token).await
}

/// Answers with the id of the request that asks, as clients up to 2025-11-25 do it.
#[tokio::test]
async fn an_answer_of_another_is_none() {
    let site = site().await;
    let (ada, bob) = (legacy(&site, ADA).await, legacy(&site, BOB).await);
    let call = json!({ "name": "approve", "arguments": { "item": "lamp" } });
    let mut events = ada.request(1, "tools/call", call).await.events();
    let question = events.next().await.unwrap();
    let answer = |approved: bool| {
        let result = json!({ "action": "accept", "content": { "approved": approved } });
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
    };
    bob.say(&answer(false)).await;
    // Nor can it be taken back by its number.
    let taken_back = json!({ "requestId": 1 });
    bob.say(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": taken_back }),
    )
    .await;
    ada.say(&answer(true)).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "approved: true");
}

#[tokio::test]
async fn the_tools_about_tasks_know_no_task_of_another() {
    let site = site().await;
    let call = async |who, capabilities: &Value, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        site.modern_with(capabilities, "tools/call", params, &[who]).await.last().await["result"]
            .clone()
    };
    let order = json!({ "item": "lamp" });
    let task = call(ADA, &able(), "approve", order).await["taskId"].clone();
    let id = TaskId::new(task.as_str().unwrap()).unwrap();
    let tasks = site.running.engine().tasks(Principal::new("ada").unwrap());
    tasks.wait_for(&id, |info| info.status == Status::InputRequired).await.unwrap();
    for tool in ["task_status", "task_result", "task_input", "task_cancel"] {
        let about = |id: &str| json!({ "task_id": id, "answer": { "approved": true } });
        let hers = call(BOB, &taskless(), tool, about(id.as_str())).await;
        let guess: String = id.as_str().chars().rev().collect();
        let none = call(BOB, &taskless(), tool, about(&guess)).await;
        assert_eq!(hers["isError"], true, "{tool}: {hers}");
        let same =
            hers.to_string().replace(id.as_str(), "") == none.to_string().replace(&guess, "");
        assert!(same, "{tool}: {hers} and {none}");
    }
    let listed = call(BOB, &taskless(), "task_list", json!({})).await;
    assert_eq!(listed["structuredContent"]["tasks"], json!([]));
    assert_eq!(tasks.get(&id).await.unwrap().status, Status::InputRequired);
}

#[tokio::test]
async fn a_connection_of_2024_takes_nothing_from_another() {
    let site = site().await;
    let mut events = send_to(site.address, "GET", "/sse", &[ADA], "").await.events();
    let path = events.raw().await.unwrap();
    let path = path.strip_prefix("event: endpoint\ndata: ").unwrap().to_owned();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (who, status) in [(BOB, 404), (ADA, 202)] {
        assert_eq!(send_to(site.address, "POST", &path, &[JSON, who], ping).await.status, status);
    }
}

/// A key names a request of its own principal: the same key of another begins anew.
#[tokio::test]
async fn a_key_of_another_finds_nothing() {
    let site = site().await;
    let keyed = async |who| {
        let meta = json!({ "dev.steadfast/idempotency-key": "guessed" });
        let params = json!({ "name": "hang", "arguments": {}, "_meta": meta });
        let reply = site.modern_with(&able(), "tools/call", params, &[who]).await.last().await;
        reply["result"]["taskId"].as_str().unwrap().to_owned()
    };
    let hers = keyed(ADA).await;
    assert_ne!(keyed(BOB).await, hers);
    assert_eq!(keyed(ADA).await, hers);
}
