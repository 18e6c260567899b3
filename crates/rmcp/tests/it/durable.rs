//! A handler's tools as durable ones.

use serde_json::json;
use steadfast_mcp::Server;
use steadfast_store::Disk;

use crate::{shop::Shop, site::Site};

async fn server(shop: &Shop) -> Server {
    let adapted = steadfast_rmcp::adapt(shop.clone()).await.unwrap();
    let adapted = adapted.durable("charge").unwrap();
    let adapted = adapted.durable_where(|tool| {
        tool.annotations.as_ref().is_some_and(|says| says.read_only_hint == Some(true))
    });
    adapted.add_to(Server::new("test"))
}

#[tokio::test]
async fn a_call_is_a_task_for_clients_of_both_generations() {
    let shop = Shop::default();
    let site = Site::start(server(&shop).await).await;
    let task = site.task("charge", json!({ "amount": 2.5 })).await;
    let ended = site.end(&task).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["result"]["content"][0]["text"], "charged 2.5");
    let legacy = site.legacy().await;
    let params = json!({ "name": "charge", "arguments": { "amount": 3 }, "task": {} });
    let reply = legacy.request("tools/call", params).await;
    let task = json!({ "taskId": reply["result"]["task"]["taskId"] });
    let result = legacy.request("tasks/result", task).await;
    assert_eq!(result["result"]["content"][0]["text"], "charged 3", "{result}");
    assert_eq!(shop.ledger.count("charge"), 2);
    // The others are as they were.
    let params = json!({ "name": "fail", "task": {} });
    assert_eq!(legacy.request("tools/call", params).await["error"]["code"], -32601);
}

#[tokio::test]
async fn a_call_that_a_crash_cut_off_is_not_made_again_and_its_task_says_so() {
    let (disk, shop) = (Disk::new(), Shop::default());
    let first = Site::on(server(&shop).await, &disk).await;
    let task = first.task("charge", json!({ "amount": 0 })).await;
    shop.ledger.has("charge").await;
    first.kill();
    let second = Site::on(server(&shop).await, &disk).await;
    let ended = second.end(&task).await;
    let text = ended["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{ended}"));
    assert_eq!(ended["result"]["isError"], true);
    assert!(text.contains("\"charge\" was started"), "{text}");
    assert!(text.contains("whether it took effect must be found out"), "{text}");
    assert_eq!(shop.ledger.count("charge"), 1, "never twice");
}

#[tokio::test]
async fn a_read_only_tool_is_called_again() {
    let (disk, shop) = (Disk::new(), Shop::default());
    let first = Site::on(server(&shop).await, &disk).await;
    let task = first.task("look", json!({ "slowly": true })).await;
    shop.ledger.has("look").await;
    first.kill();
    let second = Site::on(server(&shop).await, &disk).await;
    let ended = second.end(&task).await;
    assert_eq!(ended["result"]["content"][0]["text"], "looked", "{ended}");
    assert_eq!(shop.ledger.count("look"), 2);
}

#[tokio::test]
async fn a_task_that_is_cancelled_takes_its_call_back() {
    let shop = Shop::default();
    let site = Site::start(server(&shop).await).await;
    let task = site.task("charge", json!({ "amount": 0 })).await;
    shop.ledger.has("charge").await;
    site.send(true, "tasks/cancel", json!({ "taskId": task["taskId"] })).await.response().await;
    shop.ledger.has("taken back").await;
    assert_eq!(site.end(&task).await["status"], "cancelled");
}
