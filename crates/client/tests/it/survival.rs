//! Calls in the middle of which the server is killed.

use std::sync::{Arc, Mutex};

use serde_json::json;
use steadfast_client::{Client, Error, Revision};

use crate::server::Server;

async fn connect(server: &Server, revision: Revision) -> Client {
    Client::connect(&server.url()).revision(revision).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_call_of_a_session_is_taken_up_by_itself_after_a_kill() {
    for revision in [Revision::V2025_11_25, Revision::V2025_06_18, Revision::V2025_03_26] {
        let mut server = Server::start();
        let client = connect(&server, revision).await;
        let said = Arc::new(Mutex::new(Vec::new()));
        let (one, two) = (said.clone(), said.clone());
        // More than a float can hold.
        let call = client
            .call("work", json!({ "number": 9_007_199_254_740_993_u64 }))
            .on_progress(move |progress| one.lock().unwrap().push(progress.message.unwrap()))
            .on_log(move |log| two.lock().unwrap().push(log.data.as_str().unwrap().to_owned()));
        let bookmark = call.bookmark();
        let running = tokio::spawn(call.into_future());
        server.until_async("second", 1).await;
        // Before 2025-11-25 nothing can be taken up until something was said.
        while said.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(bookmark.last_event_id().is_some());
        server.kill_and_restart();
        server.open("second");
        let result = running.await.unwrap().unwrap();
        assert_eq!(result.text(), "9007199254740993", "{revision}");
        assert_eq!(*said.lock().unwrap(), ["one", "it begins", "two"], "{revision}");
        assert_eq!([server.count("first"), server.count("last")], [1, 1], "{revision}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_on_over_a_server_that_is_stopped_and_started_again() {
    let mut server = Server::with(&["--drain-seconds", "1"]);
    let old = connect(&server, Revision::V2025_11_25).await;
    let new = connect(&server, Revision::V2026_07_28).await;
    let plain = tokio::spawn(old.call("work", json!({ "number": 1 })).into_future());
    let task = tokio::spawn(new.call("work", json!({ "number": 2 })).as_task().into_future());
    server.until_async("second", 2).await;
    server.stop();
    server.up();
    server.open("second");
    assert_eq!(plain.await.unwrap().unwrap().text(), "1");
    assert_eq!(task.await.unwrap().unwrap().text(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_taken_up_in_another_process_by_session_and_event() {
    let mut server = Server::start();
    let client = connect(&server, Revision::V2025_11_25).await;
    let call = client.call("work", json!({ "number": 7 }));
    let bookmark = call.bookmark();
    let running = tokio::spawn(call.into_future());
    server.until_async("second", 1).await;
    while bookmark.last_event_id().is_none() {
        tokio::task::yield_now().await;
    }
    let session = client.session_id().unwrap().to_owned();
    let event = bookmark.last_event_id().unwrap();
    running.abort();
    drop(client);
    server.kill_and_restart();
    let client = Client::reconnect(&server.url(), &session, Revision::V2025_11_25).await.unwrap();
    server.open("second");
    assert_eq!(client.resume(&event).await.unwrap().text(), "7");
    // Its other requests have ids that the first process had not.
    assert!(!client.list_tools().await.unwrap().is_empty());
    let wrong = client.resume("nonsense").await.unwrap_err();
    assert!(matches!(wrong, Error::Status { status: 400, .. }), "{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_either_generation_is_waited_for_over_a_kill() {
    for revision in [Revision::V2026_07_28, Revision::V2025_11_25] {
        let mut server = Server::start();
        let client = connect(&server, revision).await;
        let call = client.call("work", json!({ "number": 5 })).as_task();
        let bookmark = call.bookmark();
        let running = tokio::spawn(call.into_future());
        server.until_async("second", 1).await;
        while bookmark.task_id().is_none() {
            tokio::task::yield_now().await;
        }
        server.kill_and_restart();
        server.open("second");
        let result = running.await.unwrap().unwrap();
        assert_eq!(result.text(), "5", "{revision}");
        assert_eq!([server.count("first"), server.count("last")], [1, 1], "{revision}");
        // And it is still there for who has only its id.
        let task = client.task(&bookmark.task_id().unwrap());
        assert_eq!(task.wait().await.unwrap().text(), "5", "{revision}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_up_yet_is_waited_for_and_no_longer_than_wanted() {
    let mut server = Server::down();
    let url = server.url();
    let short = Client::connect(&url).patience(std::time::Duration::from_millis(200)).await;
    assert!(matches!(short, Err(Error::Unreachable { .. })), "{short:?}");
    let connecting = tokio::spawn(async move { Client::connect(&url).await });
    server.up();
    let client = connecting.await.unwrap().unwrap();
    let result = client.call("greet", json!({ "name": "Ada" })).await.unwrap();
    assert_eq!(result.text(), "Hello, Ada!");
}

/// Nothing says what has become of it, and the client does not guess.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_call_without_a_key_is_not_made_twice() {
    let mut server = Server::start();
    let client = connect(&server, Revision::V2026_07_28).await;
    let running = tokio::spawn(client.call("work", json!({ "number": 5 })).into_future());
    server.until_async("second", 1).await;
    server.kill_and_restart();
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error}");
    assert_eq!(server.count("first"), 1);
}
