//! What comes in at the door: who may, what is malformed, what is too much.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::json;
use steadfast_engine::Engine;
use steadfast_mcp::{Auth, Settings};
use steadfast_store::Disk;

use crate::{
    http::{send, send_to},
    site::{ACCEPT, JSON, Legacy, Site, able, taskless},
    tools::{Count, server},
    unsteady::Unsteady,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

async fn site() -> Site {
    Site::start(server(&Count::default())).await
}

#[tokio::test]
async fn another_host_or_origin_is_forbidden() {
    let site = site().await;
    for header in [("Host", "evil.example"), ("Origin", "http://evil.example"), ("Origin", "null")]
    {
        for method in ["POST", "GET", "DELETE"] {
            let response = send(site.address, method, &[JSON, ACCEPT, header], PING).await;
            assert_eq!(response.status, 403, "{method} {header:?}");
        }
    }
    let local =
        send(site.address, "POST", &[JSON, ACCEPT, ("Origin", "http://localhost:5173")], PING)
            .await;
    assert_eq!(local.status, 400, "let in, and told that it has no session");
}

/// Nobody is told more than that: what is wrong with the database is in the log.
#[tokio::test]
async fn it_is_not_ready_while_its_store_is_not() {
    let store = Unsteady::new(Disk::new().open(), "check");
    let site = Site::of(server(&Count::default()), Engine::builder(store.clone())).await;
    let ask = async |path: &str| {
        let response = send_to(site.address, "GET", path, &[], "").await;
        (response.status, response.text().await)
    };
    assert_eq!(ask("/ready").await, (200, "ok\n".into()));
    store.fail.store(2, Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(ask("/ready").await, (503, "the store is not available\n".into()));
        assert_eq!(ask("/health").await, (200, "ok\n".into()));
    }
    assert_eq!(ask("/ready").await, (200, "ok\n".into()));
    // One that says nothing is no better.
    store.hold.store(1, Ordering::SeqCst);
    assert_eq!(ask("/ready").await, (503, "the store is not available\n".into()));
    assert_eq!(ask("/ready").await, (200, "ok\n".into()));
}

#[tokio::test]
async fn malformed_input_gets_the_error_that_the_specification_names() {
    let site = site().await;
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("nonsense", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} trailing", -32700),
        ("7", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32600),
    ] {
        let response = send(site.address, "POST", &[JSON, ACCEPT], body).await;
        assert_eq!(response.status, 400, "{body}");
        assert_eq!(response.json().await["error"]["code"], code, "{body}");
    }
}

#[tokio::test]
async fn wrong_types_and_methods_are_refused() {
    let site = site().await;
    for kind in ["text/plain", "application/xml", ""] {
        let response = send(site.address, "POST", &[("Content-Type", kind), ACCEPT], PING).await;
        assert_eq!(response.status, 415, "{kind}");
    }
    let charset = ("Content-Type", "application/json; charset=utf-8");
    assert_eq!(send(site.address, "POST", &[charset, ACCEPT], PING).await.status, 400);
    for accept in ["application/json", "text/event-stream", "text/html"] {
        let response = send(site.address, "POST", &[JSON, ("Accept", accept)], PING).await;
        assert_eq!(response.status, 406, "{accept}");
    }
    for method in ["PUT", "PATCH", "OPTIONS", "HEAD"] {
        assert_eq!(send(site.address, method, &[], "").await.status, 405, "{method}");
    }
    // Without a session there is nothing to listen to.
    assert_eq!(send(site.address, "GET", &[("Accept", "text/event-stream")], "").await.status, 405);
}

#[tokio::test]
async fn a_body_can_be_too_large_and_too_deep() {
    let settings = Settings { max_body: 10_000, ..Settings::default() };
    let site = Site::start(server(&Count::default()).settings(settings)).await;
    let large = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(20_000));
    assert_eq!(send(site.address, "POST", &[JSON, ACCEPT], &large).await.status, 413);
    let deep = "[".repeat(4_000) + &"]".repeat(4_000);
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"add","arguments":{{"a":{deep}}}}}}}"#
    );
    let headers = [JSON, ACCEPT, ("Mcp-Session-Id", client.session.as_str())];
    let reply = send(site.address, "POST", &headers, &body).await.json().await;
    assert_eq!(reply["result"]["isError"], true, "{reply}");
    // The server is still there.
    client.result(2, "ping", json!({})).await;
}

#[tokio::test]
async fn a_bearer_token_is_needed_where_callers_are_told_apart() {
    let ada = steadfast_engine::Principal::new("ada").unwrap();
    let auth = Auth::tokens([("ada-0123456789abcdef".to_owned(), ada)]);
    let site = Site::start(server(&Count::default()).auth(auth)).await;
    for headers in [
        vec![JSON, ACCEPT],
        vec![JSON, ACCEPT, ("Authorization", "Bearer wrong")],
        vec![JSON, ACCEPT, ("Authorization", "Basic ada-0123456789abcdef")],
        vec![JSON, ACCEPT, ("Authorization", "ada-0123456789abcdef")],
    ] {
        let response = send(site.address, "POST", &headers, PING).await;
        assert_eq!(response.status, 401, "{headers:?}");
        assert_eq!(response.header("www-authenticate"), Some("Bearer"));
    }
    let token = ("Authorization", "bearer ada-0123456789abcdef");
    let params = json!({ "name": "who", "arguments": {} });
    let reply = site.modern_with(&taskless(), "tools/call", params, &[token]).await.last().await;
    assert_eq!(reply["result"]["content"][0]["text"], "ada test 2026-07-28");
}

#[tokio::test]
async fn a_hook_names_the_caller_and_sessions_and_tasks_are_bound_to_it() {
    let auth = Auth::hook(|bearer| async move {
        let name = bearer.token().strip_prefix("token-of-")?;
        steadfast_engine::Principal::new(name).ok()
    });
    let site = Site::start(server(&Count::default()).auth(auth)).await;
    let ada = Legacy::open_as(&site, "2025-11-25", json!({}), Some("token-of-ada")).await;
    let bob = ("Authorization", "Bearer token-of-bob");
    let session = ("Mcp-Session-Id", ada.session.as_str());
    for method in ["POST", "GET", "DELETE"] {
        let response = send(site.address, method, &[JSON, ACCEPT, bob, session], PING).await;
        assert_eq!(response.status, 404, "{method}");
    }
    ada.result(1, "ping", json!({})).await;
    let params = json!({ "name": "hang", "arguments": {} });
    let by = async |who, method: &str, params| {
        site.modern_with(&able(), method, params, &[("Authorization", who)]).await.last().await
    };
    let task = by("Bearer token-of-ada", "tools/call", params).await["result"].clone();
    let named = json!({ "taskId": task["taskId"], "inputResponses": {} });
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let reply = by("Bearer token-of-bob", method, named.clone()).await;
        assert_eq!(
            (&reply["error"]["code"], &reply["error"]["message"]),
            (&json!(-32602), &json!("task not found"))
        );
    }
    let listen = json!({ "notifications": { "taskIds": [task["taskId"]] } });
    let mut events =
        site.modern_with(&able(), "subscriptions/listen", listen, &[bob]).await.events();
    assert_eq!(events.next().await.unwrap()["params"]["notifications"], json!({ "taskIds": [] }));
    assert_eq!(by("Bearer token-of-ada", "tasks/get", named).await["result"]["status"], "working");
}

#[tokio::test]
async fn too_many_requests_at_once_are_told_to_come_back() {
    let settings = Settings { max_requests: 1, ..Settings::default() };
    let site = Site::start(server(&Count::default()).settings(settings)).await;
    let capabilities = taskless();
    let hanging = site.modern(&capabilities, "tools/call", json!({ "name": "hang" }));
    let refused = async {
        let operator = site.running.engine().operator();
        while operator.counts().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        site.modern(&json!({}), "tools/list", json!({})).await
    };
    let refused = tokio::select! {
        _ = hanging => panic!("it hangs"),
        refused = refused => refused,
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_ask_again() {
    let settings = Settings { max_polls_per_second: 2, ..Settings::default() };
    let site = Site::start(server(&Count::default()).settings(settings)).await;
    let call = json!({ "name": "hang" });
    let task = site.modern(&able(), "tools/call", call).await.json().await["result"].clone();
    let named = json!({ "taskId": task["taskId"] });
    let poll = async || site.modern(&able(), "tasks/get", named.clone()).await;
    let mut refused = poll().await;
    while refused.status == 200 {
        // Each takes a token, and less than half a second: so they run out.
        refused = poll().await;
    }
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    let error = refused.json().await["error"].clone();
    assert_eq!(error["code"], -32600, "{error}");
    let after = error["data"]["retryAfterMs"].as_u64().unwrap();
    assert!((1..=500).contains(&after), "{error}");
    tokio::time::sleep(Duration::from_millis(after + 1)).await;
    assert_eq!(poll().await.status, 200);
}

#[tokio::test]
async fn who_has_too_many_tasks_open_gets_no_more_until_some_have_ended() {
    let settings = Settings { max_open_tasks: 2, ..Settings::default() };
    let site = Site::start(server(&Count::default()).settings(settings)).await;
    let start = async || site.modern(&able(), "tools/call", json!({ "name": "hang" })).await;
    let first = start().await.json().await["result"]["taskId"].clone();
    start().await.json().await["result"]["taskId"].as_str().unwrap();
    let refused = start().await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    let message = refused.json().await["error"]["message"].clone();
    assert!(message.as_str().unwrap().contains("2 tasks that have not ended"), "{message}");
    let plain = json!({ "name": "add", "arguments": { "a": 1, "b": 2 } });
    assert_eq!(site.modern(&able(), "tools/call", plain).await.status, 200, "no task, no limit");
    site.modern(&able(), "tasks/cancel", json!({ "taskId": first })).await;
    while start().await.status != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_server_that_drains_says_so_and_finishes_what_it_has() {
    let site = site().await;
    let client = Legacy::open(&site, "2025-11-25", json!({ "elicitation": {} })).await;
    let call = json!({ "name": "approve", "arguments": { "item": "lamp" } });
    let mut events = client.request(1, "tools/call", call).await.events();
    let question = events.next().await.unwrap();
    site.running.drain();
    assert_eq!(site.modern(&json!({}), "tools/list", json!({})).await.status, 503);
    // What is at work gets its answers still.
    let answer = json!({ "action": "accept", "content": { "approved": true } });
    client.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "approved: true");
}
