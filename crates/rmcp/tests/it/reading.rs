//! Prompts and resources.

use serde_json::json;
use steadfast_mcp::Server;

use crate::{
    shop::{Lists, Shop},
    site::Site,
};

async fn site() -> Site {
    let adapted = steadfast_rmcp::adapt(Shop::default()).await.unwrap();
    Site::start(adapted.add_to(Server::new("test"))).await
}

#[tokio::test]
async fn prompts_and_resources_are_listed_as_the_handler_lists_them() {
    let site = site().await;
    let lists = Lists::default();
    assert_eq!(site.listed("prompts/list", "prompts").await, lists.prompts);
    assert_eq!(site.listed("resources/list", "resources").await, lists.resources);
    let templates = site.listed("resources/templates/list", "resourceTemplates").await;
    assert_eq!(templates, lists.templates);
}

#[tokio::test]
async fn prompts_come_back_as_the_handler_gave_them() {
    let site = site().await;
    let params = json!({ "name": "greet", "arguments": { "who": "Ada" } });
    let legacy = site.legacy().await;
    let replies = [
        site.modern("prompts/get", params.clone()).await,
        legacy.request("prompts/get", params).await,
    ];
    for reply in replies {
        let result = &reply["result"];
        assert_eq!(result["description"], "A greeting.", "{reply}");
        let said = json!({ "type": "text", "text": "Greet \"Ada\".", "_meta": { "n": 5 } });
        assert_eq!(result["messages"][0], json!({ "role": "user", "content": said }));
        assert_eq!(result["messages"][1]["content"]["type"], "image");
        assert_eq!(result["_meta"]["example.com/trace"], "p");
    }
    let missing = site.modern("prompts/get", json!({ "name": "greet" })).await;
    assert_eq!(missing["error"]["code"], -32602);
    let closed = site.modern("prompts/get", json!({ "name": "closed" })).await;
    let expected = json!({ "code": -31998, "message": "closed", "data": "until Monday" });
    assert_eq!(closed["error"], expected);
}

#[tokio::test]
async fn resources_come_back_as_the_handler_gave_them() {
    let site = site().await;
    let reply = site.modern("resources/read", json!({ "uri": "shop://stock" })).await;
    let expected = json!([
        { "uri": "shop://stock", "mimeType": "text/plain", "text": "{}", "_meta": { "n": 6 } },
        { "uri": "shop://stock/more", "mimeType": "application/x", "blob": "AA==" },
    ]);
    assert_eq!(reply["result"]["contents"], expected);
    let reply = site.modern("resources/read", json!({ "uri": "shop://item/7" })).await;
    assert_eq!(reply["result"]["contents"][0]["text"], "this is shop://item/7");
}

#[tokio::test]
async fn a_resource_that_is_gone_has_the_code_of_the_clients_revision() {
    let (site, gone) = (site().await, json!({ "uri": "shop://gone" }));
    let modern = site.modern("resources/read", gone.clone()).await;
    let legacy = site.legacy().await.request("resources/read", gone).await;
    for (reply, code) in [(modern, -32602), (legacy, -32002)] {
        let expected = json!({ "code": code, "message": "sold", "data": { "when": "today" } });
        assert_eq!(reply["error"], expected);
    }
}

#[tokio::test]
async fn arguments_are_completed_by_the_handler() {
    let site = site().await;
    let complete = async |of, argument| {
        let params = json!({ "ref": of, "argument": { "name": argument, "value": "a" } });
        let reply = site.modern("completion/complete", params).await;
        reply["result"]["completion"]["values"][0].clone()
    };
    let prompt = json!({ "type": "ref/prompt", "name": "greet" });
    assert_eq!(complete(prompt, "who").await, "ref/prompt:who:a");
    let template = json!({ "type": "ref/resource", "uri": "shop://item/{id}" });
    assert_eq!(complete(template, "id").await, "ref/resource:id:a");
}
