//! Clients up to 2025-11-25: sessions, live questions, notifications, batches.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_mcp::{NoInput, Settings, Tool};

use crate::{
    http::send,
    site::{ACCEPT, JSON, Legacy, Site},
    tools::{Count, server},
};

async fn site() -> Site {
    Site::start(server(&Count::default())).await
}

fn elicits() -> Value {
    json!({ "elicitation": {} })
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

#[tokio::test]
async fn initialize_agrees_on_a_revision_that_both_know() {
    let site = site().await;
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let client = Legacy::open(&site, version, json!({})).await;
        assert_eq!(client.opening["protocolVersion"], version);
        assert_eq!(client.opening["serverInfo"]["name"], "test");
        assert_eq!(client.opening["instructions"], "Call them.");
        assert!(client.opening.get("resultType").is_none());
    }
    for unknown in ["1999-01-01", "2026-07-28"] {
        let client = Legacy::open(&site, unknown, json!({})).await;
        assert_eq!(client.opening["protocolVersion"], "2025-11-25");
    }
}

#[tokio::test]
async fn a_session_is_needed_known_and_over_when_it_is_ended() {
    let site = site().await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let without = send(site.address, "POST", &[JSON, ACCEPT], &ping).await;
    assert_eq!(without.status, 400);
    let unknown = [JSON, ACCEPT, ("Mcp-Session-Id", "nobody")];
    assert_eq!(send(site.address, "POST", &unknown, &ping).await.status, 404);
    assert_eq!(send(site.address, "GET", &unknown[1..], "").await.status, 404);
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    assert_eq!(client.result(1, "ping", json!({})).await, json!({}));
    assert!(client.session.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(client.end().await, 204);
    assert_eq!(client.request(2, "ping", json!({})).await.status, 404);
    assert_eq!(client.end().await, 404);
    let other = Legacy::open(&site, "2025-11-25", json!({})).await;
    assert_ne!(other.session, client.session);
}

#[tokio::test]
async fn a_version_that_does_not_exist_is_refused() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let headers = [
        JSON,
        ACCEPT,
        ("Mcp-Session-Id", client.session.as_str()),
        ("MCP-Protocol-Version", "1999-01-01"),
    ];
    assert_eq!(send(site.address, "POST", &headers, &ping).await.status, 400);
}

#[tokio::test]
async fn the_longest_idle_session_makes_room() {
    let settings = Settings { max_sessions: 2, ..Settings::default() };
    let site = Site::start(server(&Count::default()).settings(settings)).await;
    let one = Legacy::open(&site, "2025-11-25", json!({})).await;
    let two = Legacy::open(&site, "2025-11-25", json!({})).await;
    one.result(1, "ping", json!({})).await;
    let three = Legacy::open(&site, "2025-11-25", json!({})).await;
    assert_eq!(two.request(2, "ping", json!({})).await.status, 404);
    for client in [one, three] {
        client.result(3, "ping", json!({})).await;
    }
}

#[tokio::test]
async fn a_plain_call_asks_live_on_its_own_stream() {
    let count = Count::default();
    let site = Site::start(server(&count)).await;
    for version in ["2025-11-25", "2025-06-18"] {
        let client = Legacy::open(&site, version, elicits()).await;
        let mut events = client
            .request(5, "tools/call", call("approve", json!({ "item": "lamp" })))
            .await
            .events();
        let question = events.next().await.unwrap();
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["message"], "Approve lamp?");
        // The mode came with 2025-11-25.
        assert_eq!(question["params"].get("mode").is_some(), version == "2025-11-25");
        assert!(question["params"].get("_meta").is_none());
        let answer = json!({ "action": "accept", "content": { "approved": true } });
        client.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
        let reply = events.next().await.unwrap();
        assert_eq!(
            (&reply["id"], &reply["result"]["content"][0]["text"]),
            (&json!(5), &json!("approved: true"))
        );
        assert!(events.next().await.is_none());
    }
    assert_eq!(count.get(), 2);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again_live() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    let mut events =
        client.request(5, "tools/call", call("approve", json!({ "item": "lamp" }))).await.events();
    let mut ids = Vec::new();
    for content in [json!({}), json!({ "approved": "yes" }), json!({ "approved": false })] {
        let question = events.next().await.unwrap();
        assert!(!ids.contains(&question["id"]), "{question}");
        assert_eq!(
            question["params"]["message"].as_str().unwrap().contains("did not fit"),
            !ids.is_empty()
        );
        let answer = json!({ "action": "accept", "content": content });
        client.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
        ids.push(question["id"].clone());
    }
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "approved: false");
}

#[tokio::test]
async fn decline_cancel_and_an_error_each_do_what_the_author_sees() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    let replies = [
        (json!({ "result": { "action": "decline" } }), "declined", None),
        (json!({ "result": { "action": "cancel" } }), "dismissed", None),
        (json!({ "error": { "code": -1, "message": "no screen" } }), "no screen", Some(true)),
    ];
    for (mut reply, text, error) in replies {
        let call = call("approve", json!({ "item": "lamp" }));
        let mut events = client.request(5, "tools/call", call).await.events();
        reply["jsonrpc"] = json!("2.0");
        reply["id"] = events.next().await.unwrap()["id"].clone();
        client.say(&reply).await;
        let result = events.next().await.unwrap()["result"].clone();
        assert!(result["content"][0]["text"].as_str().unwrap().contains(text), "{result}");
        assert_eq!(result.get("isError").and_then(Value::as_bool), error);
    }
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not_and_the_author_is_told() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let result = client.result(1, "tools/call", call("approve", json!({ "item": "lamp" }))).await;
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("elicitation"), "{result}");
}

#[tokio::test]
async fn an_answer_may_come_on_another_session_of_the_same_principal() {
    let site = site().await;
    let one = Legacy::open(&site, "2025-11-25", elicits()).await;
    let two = Legacy::open(&site, "2025-11-25", elicits()).await;
    let mut events =
        one.request(5, "tools/call", call("approve", json!({ "item": "lamp" }))).await.events();
    let question = events.next().await.unwrap();
    // Answers to nothing are ignored.
    for id in [json!("ask:nobody:0:x"), json!("nonsense"), json!(99)] {
        two.say(&json!({ "jsonrpc": "2.0", "id": id, "result": {} })).await;
    }
    let answer = json!({ "action": "accept", "content": { "approved": true } });
    two.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "approved: true");
}

#[tokio::test]
async fn cancelled_stops_a_plain_call_and_answers_nothing() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let calling = client.request(6, "tools/call", call("hang", json!({})));
    let cancelling = async {
        let operator = site.running.engine().operator();
        while operator.counts().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let params = json!({ "requestId": 6, "reason": "changed my mind" });
        client
            .say(
                &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
            )
            .await;
    };
    let (response, ()) = tokio::join!(calling, cancelling);
    assert_eq!(response.events().next().await, None);
    let operator = site.running.engine().operator();
    let cancelled = async {
        while operator.counts().await.unwrap().get(&steadfast_engine::Status::Cancelled) != Some(&1)
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), cancelled).await.expect("cancelled");
}

#[tokio::test]
async fn an_id_in_flight_is_refused_and_the_first_call_goes_on() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    let mut first =
        client.request(5, "tools/call", call("approve", json!({ "item": "lamp" }))).await.events();
    let question = first.next().await.unwrap();
    let second = client.request(5, "tools/call", call("add", json!({ "a": 1, "b": 1 }))).await;
    assert_eq!(second.json().await["error"]["code"], -32600);
    let answer = json!({ "action": "accept", "content": { "approved": true } });
    client.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    assert_eq!(first.next().await.unwrap()["result"]["content"][0]["text"], "approved: true");
    // Free again.
    client.result(5, "tools/call", call("add", json!({ "a": 1, "b": 1 }))).await;
}

#[tokio::test]
async fn a_client_that_goes_away_has_not_cancelled_its_call() {
    let count = Count::default();
    let site = Site::start(server(&count)).await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    let mut events =
        client.request(5, "tools/call", call("approve", json!({ "item": "lamp" }))).await.events();
    let question = events.next().await.unwrap();
    drop(events);
    let answer = json!({ "action": "accept", "content": { "approved": true } });
    client.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    let operator = site.running.engine().operator();
    let completed = async {
        while operator.counts().await.unwrap().get(&steadfast_engine::Status::Completed) != Some(&1)
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), completed).await.expect("completed");
}

#[tokio::test]
async fn progress_and_log_by_the_sessions_level() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let error = client.error(1, "logging/setLevel", json!({ "level": "shout" })).await;
    assert_eq!(error["code"], -32602);
    for (level, expected) in [("debug", 2), ("warning", 1), ("error", 0)] {
        client.result(2, "logging/setLevel", json!({ "level": level })).await;
        let mut params = call("talks", json!({}));
        params["_meta"] = json!({ "progressToken": 7 });
        let mut events = client.request(3, "tools/call", params).await.events();
        let (mut logs, mut progress) = (0, 0);
        while let Some(event) = events.next().await {
            match event["method"].as_str() {
                Some("notifications/message") => logs += 1,
                Some("notifications/progress") => {
                    assert_eq!(event["params"]["progressToken"], 7);
                    progress += 1;
                }
                _ => assert_eq!(event["result"]["content"][0]["text"], "said"),
            }
        }
        assert_eq!((logs, progress), (expected, 2), "{level}");
    }
}

#[tokio::test]
async fn changes_are_told_on_the_sessions_stream_or_kept_for_it() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    client.result(1, "resources/subscribe", json!({ "uri": "test://text" })).await;
    let error = client.error(2, "resources/subscribe", json!({ "uri": "test://nowhere" })).await;
    assert_eq!(error["code"], -32002);
    site.running.resource_updated("test://bytes");
    site.running.resource_updated("test://text");
    // Told before the stream is open.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut events = client.listen().await.events();
    let updated = events.next().await.unwrap();
    assert_eq!(
        (&updated["method"], &updated["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("test://text"))
    );
    site.running.add_tool(Tool::plain("new", |_: NoInput| async { Ok(()) })).unwrap();
    assert_eq!(events.next().await.unwrap()["method"], "notifications/tools/list_changed");
    client.result(3, "resources/unsubscribe", json!({ "uri": "test://text" })).await;
    site.running.resource_updated("test://text");
    site.running.remove_prompt("greet");
    assert_eq!(events.next().await.unwrap()["method"], "notifications/prompts/list_changed");
}

#[tokio::test]
async fn older_revisions_see_what_they_know() {
    let site = site().await;
    let old = Legacy::open(&site, "2025-03-26", json!({})).await;
    let sum = old.result(1, "tools/call", call("add", json!({ "a": 1, "b": 2 }))).await;
    assert!(sum.get("structuredContent").is_none());
    assert_eq!(sum["content"][0]["text"], r#"{"total":3}"#);
    let listed = old.result(2, "tools/list", json!({})).await;
    let tools = listed["tools"].as_array().unwrap();
    assert!(
        tools.iter().all(|tool| tool.get("outputSchema").is_none() && tool.get("title").is_none())
    );
    let newer = Legacy::open(&site, "2025-06-18", json!({})).await;
    let list = newer.result(1, "tools/call", call("list", json!({}))).await;
    assert!(list.get("structuredContent").is_none(), "a list could not be structured then");
    let error = newer.error(2, "resources/read", json!({ "uri": "test://nowhere" })).await;
    assert_eq!(error["code"], -32002);
}

#[tokio::test]
async fn batches_are_for_2025_03_26_alone() {
    let site = site().await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "ping" },
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        { "jsonrpc": "2.0", "id": "two", "method": "no/such" },
        { "nonsense": true },
        { "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call("add", json!({ "a": 1, "b": 2 })) },
    ]);
    let client = Legacy::open(&site, "2025-03-26", json!({})).await;
    let replies = client.post(&batch).await.json().await;
    assert_eq!(replies.as_array().unwrap().len(), 4);
    assert_eq!(replies[0], json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!((&replies[1]["id"], &replies[1]["error"]["code"]), (&json!("two"), &json!(-32601)));
    assert_eq!(replies[2]["error"]["code"], -32600);
    assert_eq!(replies[3]["result"]["content"][0]["text"], r#"{"total":3}"#);
    let silent = json!([{ "jsonrpc": "2.0", "method": "notifications/initialized" }]);
    assert_eq!(client.post(&silent).await.status, 202);
    assert_eq!(client.post(&json!([])).await.status, 400);
    for version in ["2025-11-25", "2025-06-18"] {
        let other = Legacy::open(&site, version, json!({})).await;
        assert_eq!(other.post(&batch).await.status, 400);
    }
}

#[tokio::test]
async fn ids_of_any_legal_form_come_back_as_they_went() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    for id in [r#""a/b c\n""#, "0", "-7", "12345678901234567890", r#""""#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let headers = [JSON, ACCEPT, ("Mcp-Session-Id", client.session.as_str())];
        let reply = send(site.address, "POST", &headers, &body).await.text().await;
        assert_eq!(reply, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}
