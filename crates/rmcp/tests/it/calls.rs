//! Listing and calling a handler's tools.

use std::borrow::Cow;

use rmcp::{ServerHandler, model::ProtocolVersion};
use serde_json::{Value, json};
use steadfast_mcp::Server;

use crate::{
    shop::{Lists, Shop, everything},
    site::Site,
};

async fn site(shop: &Shop) -> Site {
    let adapted = steadfast_rmcp::adapt(shop.clone()).await.unwrap();
    Site::start(adapted.add_to(Server::new("test"))).await
}

/// The same with every tool durable.
async fn durable_site(shop: &Shop) -> Site {
    let adapted = steadfast_rmcp::adapt(shop.clone()).await.unwrap().durable_where(|_| true);
    Site::start(adapted.add_to(Server::new("test"))).await
}

#[tokio::test]
async fn tools_are_listed_as_the_handler_lists_them() {
    let shop = Shop::default();
    for site in [site(&shop).await, durable_site(&shop).await] {
        assert_eq!(site.listed("tools/list", "tools").await, Lists::default().tools);
        let listed = site.legacy().await.request("tools/list", json!({})).await;
        let mut tools = listed["result"]["tools"].as_array().unwrap().clone();
        for tool in &mut tools {
            tool.as_object_mut().unwrap().remove("execution");
        }
        assert_eq!(tools, Lists::default().tools);
    }
}

#[tokio::test]
async fn results_come_back_as_the_handler_gave_them() {
    let shop = Shop::default();
    for site in [site(&shop).await, durable_site(&shop).await] {
        let reply = site.call("everything", json!({})).await;
        let legacy = site.legacy().await;
        let older = legacy.request("tools/call", json!({ "name": "everything" })).await;
        for result in [&reply["result"], &older["result"]] {
            for field in ["content", "structuredContent", "isError"] {
                assert_eq!(result[field], everything()[field], "{field}");
            }
            assert_eq!(result["_meta"]["example.com/trace"], "t");
        }
        let sum = site.call("sum", json!({ "numbers": [1, 2.5] })).await;
        assert_eq!(sum["result"]["structuredContent"], json!({ "total": 3.5 }));
        let failed = site.call("fail", json!({})).await;
        assert_eq!(failed["result"]["isError"], true);
        assert_eq!(failed["result"]["content"][0]["text"], "out of paper");
    }
}

#[tokio::test]
async fn numbers_come_back_as_they_went_in() {
    let numbers = json!({
        "large": u64::MAX, "small": i64::MIN, "third": 1.0 / 3.0, "sum": 0.1 + 0.2,
        "tiny": 5e-324, "huge": f64::MAX, "whole": 1.0, "odd": 0.000_123_456_789_012_345_67,
    });
    let shop = Shop::default();
    for site in [site(&shop).await, durable_site(&shop).await] {
        let reply = site.call("echo", numbers.clone()).await;
        assert_eq!(reply["result"]["structuredContent"], numbers);
    }
}

#[tokio::test]
async fn errors_of_the_protocol_stay_so() {
    let shop = Shop::default();
    let expected = json!({ "code": -31999, "message": "not today", "data": { "day": 1.5 } });
    for site in [site(&shop).await, durable_site(&shop).await] {
        assert_eq!(site.call("refuse", json!({})).await["error"], expected);
        let legacy = site.legacy().await;
        let reply = legacy.request("tools/call", json!({ "name": "refuse" })).await;
        assert_eq!(reply["error"], expected);
    }
}

#[tokio::test]
async fn a_panic_is_an_error_and_the_handler_lives_on() {
    let shop = Shop::default();
    for site in [site(&shop).await, durable_site(&shop).await] {
        let reply = site.call("panic", json!({})).await;
        assert_eq!(reply["error"]["code"], -32603, "{reply}");
        assert!(!reply.to_string().contains("secret"), "{reply}");
        let reply = site.call("charge", json!({ "amount": 2 })).await;
        assert_eq!(reply["result"]["content"][0]["text"], "charged 2");
    }
}

#[tokio::test]
async fn a_call_whose_client_goes_away_is_taken_back() {
    let shop = Shop::default();
    let site = site(&shop).await;
    let calling = site.call("charge", json!({ "amount": 0 }));
    tokio::select! {
        reply = calling => panic!("{reply}"),
        () = shop.ledger.has("charge") => {}
    }
    shop.ledger.has("taken back").await;
}

#[tokio::test]
async fn a_call_that_a_session_cancels_is_taken_back() {
    let shop = Shop::default();
    let site = site(&shop).await;
    let legacy = site.legacy().await;
    let params = json!({ "name": "charge", "arguments": { "amount": 0 } });
    let cancelling = async {
        shop.ledger.has("charge").await;
        legacy.say("notifications/cancelled", json!({ "requestId": 1 })).await;
        shop.ledger.has("taken back").await;
    };
    tokio::join!(legacy.request("tools/call", params), cancelling);
}

#[tokio::test]
async fn a_handler_that_asks_its_client_is_told_that_it_cannot() {
    let site = site(&Shop::default()).await;
    let reply = site.call("ask", json!({})).await;
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("roots is not supported"), "{text}");
}

#[tokio::test]
async fn arguments_are_checked_before_the_handler_sees_them() {
    let shop = Shop::default();
    let site = site(&shop).await;
    let reply = site.call("charge", json!({ "amount": "much" })).await;
    assert_eq!(reply["result"]["isError"], true);
    assert_eq!(shop.ledger.count("charge"), 0);
}

#[tokio::test]
async fn a_tool_that_is_not_there_cannot_be_made_durable() {
    let adapted = steadfast_rmcp::adapt(Shop::default()).await.unwrap();
    let names: Vec<&str> = adapted.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names[..2], ["charge", "look"]);
    let error = adapted.durable("chrage").unwrap_err();
    assert!(error.to_string().contains("\"chrage\""), "{error}");
}

/// Knows only the revision that has no `initialize`.
struct TooNew;

impl ServerHandler for TooNew {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&[ProtocolVersion::V_2026_07_28])
    }
}

#[tokio::test]
async fn a_handler_that_does_not_start_says_why() {
    let error = steadfast_rmcp::adapt(TooNew).await.unwrap_err().to_string();
    assert!(error.contains("did not start") && error.contains("version"), "{error}");
}

#[tokio::test]
async fn it_stands_next_to_tools_of_steadfast() {
    let adapted = steadfast_rmcp::adapt(Shop::default()).await.unwrap();
    let own = steadfast_mcp::Tool::plain("own", |_: steadfast_mcp::NoInput| async { Ok("mine") });
    let site = Site::start(adapted.add_to(Server::new("test").tool(own))).await;
    let text = |reply: Value| reply["result"]["content"][0]["text"].clone();
    assert_eq!(text(site.call("own", json!({})).await), "mine");
    assert_eq!(text(site.call("look", json!({})).await), "looked");
}
