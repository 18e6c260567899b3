//! What changes in a handler while the server runs.

use std::time::Duration;

use rmcp::model::ResourceUpdatedNotificationParam;
use serde_json::{Value, json};
use steadfast_mcp::{NoInput, Server, Tool};

use crate::{
    shop::{Shop, tool},
    site::{Answer, Site},
};

async fn followed(shop: &Shop) -> Site {
    let adapted = steadfast_rmcp::adapt(shop.clone()).await.unwrap();
    let adapted = adapted.durable_where(|tool| tool.name.starts_with("durable"));
    let own = Tool::plain("own", |_: NoInput| async { Ok("mine") });
    let site = Site::start(adapted.add_to(Server::new("test").tool(own))).await;
    adapted.follow(&site.running);
    site
}

async fn told(stream: &mut Answer, method: &str) -> Value {
    let told = async {
        loop {
            let message = stream.next().await.expect("a message");
            if message["method"] == method {
                return message;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), told).await.expect("a notification in time")
}

/// Waits until a listing is so.
async fn until(site: &Site, method: &str, field: &str, so: impl Fn(&[Value]) -> bool) {
    let seen = async {
        while !so(&site.listed(method, field).await) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), seen).await.expect("the listing in time");
}

fn has(listed: &[Value], name: &str) -> bool {
    listed.iter().any(|one| one["name"] == name)
}

#[tokio::test]
async fn tools_come_change_and_go() {
    let shop = Shop::default();
    let site = followed(&shop).await;
    let legacy = site.legacy().await;
    let mut stream = legacy.listen().await;
    {
        let tools = &mut shop.lists.lock().unwrap().tools;
        tools.retain(|tool| tool["name"] != "fail");
        tools[0]["description"] = json!("Charges less.");
        // The last is the name of a tool that is not the handler's.
        tools.extend([tool("fresh"), tool("durable_fresh"), tool("own")]);
    }
    shop.peer().notify_tool_list_changed().await.unwrap();
    told(&mut stream, "notifications/tools/list_changed").await;
    until(&site, "tools/list", "tools", |tools| {
        let charge = tools.iter().find(|tool| tool["name"] == "charge");
        has(tools, "fresh")
            && has(tools, "durable_fresh")
            && !has(tools, "fail")
            && charge.is_some_and(|charge| charge["description"] == "Charges less.")
    })
    .await;
    let text = |reply: Value| reply["result"]["content"][0]["text"].clone();
    assert_eq!(text(site.call("fresh", json!({})).await), "new");
    let task = site.task("durable_fresh", json!({})).await;
    assert_eq!(site.end(&task).await["result"]["content"][0]["text"], "new");
    shop.lists.lock().unwrap().tools.retain(|tool| tool["name"] == "look");
    shop.peer().notify_tool_list_changed().await.unwrap();
    until(&site, "tools/list", "tools", |tools| tools.len() == 2).await;
    assert_eq!(text(site.call("own", json!({})).await), "mine");
    assert_eq!(site.call("fresh", json!({})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn prompts_and_resources_come_and_go() {
    let shop = Shop::default();
    let site = followed(&shop).await;
    {
        let mut lists = shop.lists.lock().unwrap();
        lists.prompts = vec![json!({ "name": "fresh" })];
        lists.resources = vec![json!({ "uri": "shop://fresh", "name": "fresh" })];
        lists.templates = vec![json!({ "uriTemplate": "shop://fresh/{id}", "name": "fresh" })];
    }
    shop.peer().notify_prompt_list_changed().await.unwrap();
    shop.peer().notify_resource_list_changed().await.unwrap();
    for (method, field) in [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        until(&site, method, field, |listed| listed.len() == 1 && has(listed, "fresh")).await;
    }
    let reply = site.modern("resources/read", json!({ "uri": "shop://fresh/1" })).await;
    assert_eq!(reply["result"]["contents"][0]["text"], "this is shop://fresh/1");
    shop.ledger.has("subscribed shop://fresh").await;
}

#[tokio::test]
async fn new_content_is_told_to_those_who_watch_it() {
    let shop = Shop::default();
    let site = followed(&shop).await;
    shop.ledger.has("subscribed shop://stock").await;
    let legacy = site.legacy().await;
    let mut stream = legacy.listen().await;
    legacy.request("resources/subscribe", json!({ "uri": "shop://stock" })).await;
    let updated = ResourceUpdatedNotificationParam::new("shop://stock");
    shop.peer().notify_resource_updated(updated).await.unwrap();
    let message = told(&mut stream, "notifications/resources/updated").await;
    assert_eq!(message["params"]["uri"], "shop://stock");
}
