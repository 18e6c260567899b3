//! A session's own stream, of which there is one at a time.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_engine::{Engine, Error};
use steadfast_mcp::{Context, NoInput, Tool};
use steadfast_store::Disk;
use tokio::sync::Notify;

use crate::{
    http::Events,
    site::{Legacy, Site},
    tasks_2025::{answer, asked, client, elicits, named, yes},
    tools::{Approval, Count, server},
    unsteady::Unsteady,
};

/// Whatever comes on a stream until its server is gone.
async fn rest(mut events: Events) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push(event);
    }
    all
}

/// The first stays open, as one whose client is gone may for long.
#[tokio::test]
async fn the_last_that_was_opened_is_the_one() {
    let (site, client) = client().await;
    let first = client.listen().await.events();
    let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
    let mut second = client.listen().await.events();
    client.result(2, "tasks/get", named(&task)).await;
    let question = asked(&mut second).await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    client.say(&answer(&question, yes())).await;
    loop {
        let told = second.next().await.unwrap();
        assert_eq!(told["method"], "notifications/tasks/status", "{told}");
        if told["params"]["status"] == "completed" {
            break;
        }
    }
    site.running.remove_prompt("greet");
    let told = second.next().await.unwrap();
    assert_eq!(told["method"], "notifications/prompts/list_changed", "{told}");
    assert_eq!(client.end().await, 204);
    let silent = rest(first).await;
    assert!(silent.iter().all(|event| event["params"]["status"] != "completed"), "{silent:?}");
    let asked = |event: &&Value| event["method"] == "elicitation/create";
    assert_eq!(silent.iter().find(asked), None);
}

/// It was asked on a stream that looks open, and may never have arrived.
#[tokio::test]
async fn a_question_goes_to_the_stream_that_takes_the_place() {
    let site = Site::start(server(&Count::default())).await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    let mut first = client.listen().await.events();
    let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
    client.result(2, "tasks/get", named(&task)).await;
    let lost = asked(&mut first).await;
    let mut second = client.listen().await.events();
    let question = asked(&mut second).await;
    assert_eq!(question["params"]["message"], lost["params"]["message"]);
    assert_ne!(question["id"], lost["id"]);
    client.say(&answer(&question, yes())).await;
    let done = client.result(3, "tasks/result", named(&task)).await;
    assert_eq!(done["content"][0]["text"], "approved: true");
    drop(first);
}

/// The client looks at a task, finds no question, and one is asked before that look is noted.
#[tokio::test]
async fn what_is_asked_while_the_client_looks_is_not_passed_over() {
    let told = Arc::new(Notify::new());
    let tool = Tool::new("ask_when_told", {
        let told = told.clone();
        move |ctx: Context, _: NoInput| {
            let told = told.clone();
            async move {
                ctx.step("wait", || async {
                    told.notified().await;
                    Ok::<_, Error>(())
                })
                .await?;
                Ok(ctx.ask::<Approval>("Now?").await?.accepted().is_some().to_string())
            }
        }
    });
    let store = Unsteady::new(Disk::new().open(), "get");
    let server = server(&Count::default()).tool(tool);
    let site = Site::of(server, Engine::builder(store.clone())).await;
    let client = Legacy::open(&site, "2025-11-25", elicits()).await;
    let mut stream = client.listen().await.events();
    let task = client.task(1, "ask_when_told", json!({})).await;
    store.late.store(1, Ordering::SeqCst);
    let ask = async {
        store.come.notified().await;
        told.notify_one();
        // Time enough to be passed over, if that is possible.
        tokio::time::sleep(Duration::from_millis(200)).await;
        store.go.notify_one();
    };
    let (seen, ()) = tokio::join!(client.result(2, "tasks/get", named(&task)), ask);
    assert_eq!(seen["status"], "working", "{seen}");
    let question = asked(&mut stream).await;
    assert_eq!(question["params"]["message"], "Now?", "{question}");
}

/// A store that is away for a moment while a question is asked: the stream stays open, and so does what
/// it is for.
#[tokio::test]
async fn a_question_comes_when_the_store_is_back() {
    for call in ["list", "get"] {
        let store = Unsteady::new(Disk::new().open(), call);
        let site = Site::of(server(&Count::default()), Engine::builder(store.clone())).await;
        let client = Legacy::open(&site, "2025-11-25", elicits()).await;
        let task = client.task(1, "approve", json!({ "item": "lamp" })).await;
        client.until(task["taskId"].as_str().unwrap(), "input_required").await;
        store.fail.store(3, Ordering::SeqCst);
        let mut events = client.listen().await.events();
        let question = asked(&mut events).await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        client.say(&answer(&question, yes())).await;
        let done = client.result(3, "tasks/result", named(&task)).await;
        assert_eq!(done["content"][0]["text"], "approved: true");
    }
}
