//! Calls that ask, in each of the ways that there are.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::json;
use steadfast_client::{Answer, Client, Revision, Wants};
use tokio::sync::Notify;

use crate::server::Server;

/// Each way to call a tool that asks.
const WAYS: [(Revision, bool); 5] = [
    (Revision::V2026_07_28, false),
    (Revision::V2026_07_28, true),
    (Revision::V2025_11_25, false),
    (Revision::V2025_11_25, true),
    (Revision::V2025_06_18, false),
];

#[tokio::test(flavor = "multi_thread")]
async fn they_are_answered_in_every_revision_plain_and_as_a_task() {
    let server = Server::start();
    for (revision, as_task) in WAYS {
        let client = Client::connect(&server.url()).revision(revision).await.unwrap();
        for (answer, expected) in [
            (Answer::Accept(json!({ "approve": true })), "done"),
            (Answer::Decline, "declined"),
            (Answer::Cancel, "dismissed"),
        ] {
            let mut call = client.call("approve", json!({}));
            if as_task {
                call = call.as_task();
            }
            let call = call.on_question(move |question| {
                assert_eq!(question.message, "May it be done?");
                assert!(matches!(&question.wants, Wants::Form(form)
                    if form["properties"]["approve"]["type"] == "boolean"));
                let answer = answer.clone();
                async move { answer }
            });
            let result = call.await.unwrap();
            assert_eq!(result.text(), expected, "{revision}, as a task: {as_task}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_to_visit_is_one() {
    let server = Server::start();
    for revision in [Revision::V2026_07_28, Revision::V2025_11_25] {
        let client = Client::connect(&server.url())
            .revision(revision)
            .on_question(|question| async move {
                match question.wants {
                    Wants::Url(url) if url == "https://example.com/sign-in" => {
                        Answer::Accept(serde_json::Value::Null)
                    }
                    _ => Answer::Cancel,
                }
            })
            .await
            .unwrap();
        let result = client.call("visit", json!({})).await.unwrap();
        assert_eq!(result.text(), "visited", "{revision}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_is_asked_once_though_the_server_is_killed_meanwhile() {
    for (revision, as_task) in WAYS {
        // Where nothing was said before, an older client has no event to go on from.
        let mut server = Server::start();
        let client = Client::connect(&server.url()).revision(revision).await.unwrap();
        let (asked, may_answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (count, wait) = (asked.clone(), may_answer.clone());
        let mut call = client.call("approve", json!({}));
        if as_task {
            call = call.as_task();
        }
        let call = call.on_question(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            let wait = wait.clone();
            async move {
                wait.notified().await;
                Answer::Accept(json!({ "approve": true }))
            }
        });
        let running = tokio::spawn(call.into_future());
        while asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        server.kill_and_restart();
        may_answer.notify_one();
        let result = running.await.unwrap();
        let result = result.unwrap_or_else(|error| panic!("{revision}, {as_task}: {error}"));
        assert_eq!(result.text(), "done", "{revision}, as a task: {as_task}");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{revision}, as a task: {as_task}");
        assert_eq!([server.count("before"), server.count("after")], [1, 1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_anybody_to_ask_a_plain_call_is_dismissed_and_a_task_waits_for_others() {
    let server = Server::start();
    let client = Client::connect(&server.url()).await.unwrap();
    assert_eq!(client.call("approve", json!({})).await.unwrap().text(), "dismissed");
    let call = client.call("approve", json!({})).as_task();
    let bookmark = call.bookmark();
    let running = tokio::spawn(call.into_future());
    let state = loop {
        if let Some(id) = bookmark.task_id() {
            let state = client.task(&id).get().await.unwrap();
            if !state.questions.is_empty() {
                break state;
            }
        }
        tokio::task::yield_now().await;
    };
    let key = state.questions[0].key.clone().unwrap();
    let answer = Answer::Accept(json!({ "approve": false }));
    client.task(&state.id).answer(&key, answer).await.unwrap();
    assert_eq!(running.await.unwrap().unwrap().text(), "left");
}
