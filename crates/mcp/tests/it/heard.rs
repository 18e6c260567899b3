//! What a client up to 2025-11-25 says without being asked: how far it is with a question, and that its
//! roots are others.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use steadfast_engine::Result;
use steadfast_mcp::{AnswerProgress, Context, NoInput, Server, Tool};

use crate::{
    site::{Legacy, Site, taskless},
    tools::{Count, server},
};

const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// All that was heard.
type Heard = Arc<Mutex<Vec<AnswerProgress>>>;

fn listening(heard: &Heard) -> Server {
    let heard = heard.clone();
    server(&Count::default()).on_answer_progress(move |said| heard.lock().unwrap().push(said))
}

fn call(tool: &str) -> Value {
    json!({ "name": tool, "arguments": {} })
}

fn progress(token: &Value, progress: f64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": token, "progress": progress, "total": 4, "message": "half" } })
}

fn sample() -> Value {
    json!({ "role": "assistant", "content": { "type": "text", "text": "4" }, "model": "m1" })
}

#[tokio::test]
async fn how_far_a_client_is_with_a_question_is_told_while_that_is_open() {
    for version in VERSIONS {
        let heard = Heard::default();
        let site = Site::start(listening(&heard)).await;
        let can = json!({ "sampling": {}, "roots": {} });
        let client = Legacy::open(&site, version, can).await;
        let mut events = client.request(1, "tools/call", call("uses_client")).await.events();
        let asked = events.next().await.unwrap();
        let token = &asked["params"]["_meta"]["progressToken"];
        assert!(token.is_string(), "{version}: {asked}");
        client.say(&progress(token, 2.0)).await;
        // Those that are nobody's, and those that are none.
        let unknown =
            [json!("ask:0123456789abcdef0123456789abcdef:0:sample"), json!("x"), json!(7)];
        for unknown in unknown.iter().chain([&json!(null)]) {
            client.say(&progress(unknown, 3.0)).await;
        }
        let nonsense = json!({ "progressToken": token, "progress": "far" });
        client
            .say(&json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                            "params": nonsense }))
            .await;
        client.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": sample() })).await;
        // It is answered when the next is asked, and that has no use for a token.
        let roots = events.next().await.unwrap();
        assert_eq!((&roots["method"], roots.get("params")), (&json!("roots/list"), None));
        client.say(&progress(token, 4.0)).await;
        let answer = json!({ "jsonrpc": "2.0", "id": roots["id"], "result": { "roots": [] } });
        client.say(&answer).await;
        assert!(events.next().await.unwrap()["result"].is_object());
        let heard = heard.lock().unwrap();
        assert_eq!(heard.len(), 1, "{version}: {heard:?}");
        let said = &heard[0];
        assert_eq!((said.tool.as_str(), said.key.as_str()), ("uses_client", "sample"));
        let message = said.message.as_deref();
        assert_eq!((said.progress, said.total, message), (2.0, Some(4.0), Some("half")));
    }
}

/// As the protocol wants: each request that is open has a token of its own.
#[tokio::test]
async fn questions_that_are_open_together_have_tokens_of_their_own() {
    let heard = Heard::default();
    let site = Site::start(listening(&heard)).await;
    let client = Legacy::open(&site, "2025-11-25", json!({ "elicitation": {} })).await;
    let mut tokens = Vec::new();
    for id in [1, 2] {
        let params = json!({ "name": "approve", "arguments": { "item": "lamp" } });
        let mut events = client.request(id, "tools/call", params).await.events();
        let asked = events.next().await.unwrap();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        tokens.push(asked["params"]["_meta"]["progressToken"].clone());
    }
    assert_ne!(tokens[0], tokens[1]);
    client.say(&progress(&tokens[1], 1.0)).await;
    client.say(&progress(&tokens[0], 2.0)).await;
    let heard = heard.lock().unwrap();
    let tasks: Vec<&str> = heard.iter().map(|said| said.task.as_str()).collect();
    assert_eq!(heard.len(), 2);
    assert!(tokens[1].as_str().unwrap().contains(tasks[0]), "{heard:?}");
    assert!(tokens[0].as_str().unwrap().contains(tasks[1]), "{heard:?}");
}

#[tokio::test]
async fn a_client_is_not_asked_how_far_it_is_if_nobody_wants_to_know() {
    let site = Site::start(server(&Count::default())).await;
    let client = Legacy::open(&site, "2025-11-25", json!({ "sampling": {} })).await;
    let mut events = client.request(1, "tools/call", call("uses_client")).await.events();
    let asked = events.next().await.unwrap();
    assert_eq!(asked["params"].get("_meta"), None, "{asked}");
    client.say(&progress(&asked["id"], 1.0)).await;
}

/// Asks for the roots, and again when they changed.
async fn follows(ctx: Context, _: NoInput) -> Result<String> {
    let mut watch = ctx.watch_roots().await?;
    let mut seen = Vec::new();
    while seen.last() != Some(&0) {
        seen.push(ctx.roots().await?.len());
        if seen.last() != Some(&0) {
            watch.changed().await?;
        }
    }
    Ok(format!("{seen:?}"))
}

fn watching() -> Server {
    Server::new("roots").tool(Tool::new("follows", |ctx: Context, input| follows(ctx, input)))
}

fn changed() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })
}

#[tokio::test]
async fn a_tool_learns_that_roots_changed_and_gets_the_new_ones() {
    for version in VERSIONS {
        let site = Site::start(watching()).await;
        let can = json!({ "roots": { "listChanged": true } });
        let client = Legacy::open(&site, version, can.clone()).await;
        // Of another session, and of before: both are none of the call's.
        Legacy::open(&site, version, can).await.say(&changed()).await;
        client.say(&changed()).await;
        let mut events = client.request(1, "tools/call", call("follows")).await.events();
        for roots in [2, 1, 0] {
            let asked = events.next().await.unwrap();
            assert_eq!(asked["method"], "roots/list", "{version}: {asked}");
            if roots == 2 {
                // While it is asked: the answer may be of before or after.
                client.say(&changed()).await;
            }
            let roots = vec![json!({ "uri": "file:///a" }); roots];
            let result = json!({ "roots": roots });
            client.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
            if roots.len() == 1 {
                client.say(&changed()).await;
            }
        }
        let done = events.next().await.unwrap();
        assert_eq!(done["result"]["content"][0]["text"], "[2, 1, 0]", "{version}: {done}");
    }
}

#[tokio::test]
async fn who_cannot_say_that_roots_changed_is_not_waited_for() {
    let site = Site::start(watching()).await;
    let client = Legacy::open(&site, "2025-11-25", json!({ "roots": {} })).await;
    let done = client.request(1, "tools/call", call("follows")).await.last().await;
    assert!(done.to_string().contains("roots.listChanged"), "{done}");
    let reply = site.modern(&taskless(), "tools/call", call("follows")).await.last().await;
    assert!(reply.to_string().contains("roots.listChanged"), "{reply}");
}
