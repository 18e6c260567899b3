//! Tasks as handles.

use std::sync::{Arc, Mutex};

use serde_json::json;
use steadfast_client::{Client, Error, Revision, Started, Status};

use crate::server::Server;

async fn started(client: &Client) -> steadfast_client::TaskHandle {
    match client.call("work", json!({ "number": 3 })).start().await.unwrap() {
        Started::Task(task) => task,
        Started::Done(result) => panic!("no task: {result:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_is_looked_at_and_cancelled_and_then_waiting_says_so() {
    let server = Server::start();
    for revision in [Revision::V2026_07_28, Revision::V2025_11_25] {
        let client = Client::connect(&server.url()).revision(revision).await.unwrap();
        let task = started(&client).await;
        assert_eq!(task.get().await.unwrap().status, Status::Working);
        task.cancel().await.unwrap();
        assert_eq!(task.get().await.unwrap().status, Status::Cancelled);
        let error = task.wait().await.unwrap_err();
        assert!(matches!(error, Error::Cancelled(_)), "{revision}: {error}");
        let unknown = client.task(&"0".repeat(32)).get().await.unwrap_err();
        assert!(matches!(unknown, Error::Rpc(ref error) if error.code == -32602), "{unknown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_tool_is_a_result_that_says_so() {
    let server = Server::start();
    for (revision, as_task) in [
        (Revision::V2026_07_28, true),
        (Revision::V2026_07_28, false),
        (Revision::V2025_11_25, true),
        (Revision::V2025_11_25, false),
    ] {
        let client = Client::connect(&server.url()).revision(revision).await.unwrap();
        let call = client.call("fail", json!({}));
        let result = if as_task { call.as_task() } else { call }.await.unwrap();
        assert!(result.is_error && result.text().contains("it can't be done"), "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_hears_how_it_stands() {
    let server = Server::start();
    let client = Client::connect(&server.url()).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = seen.clone();
    let task = started(&client).await;
    server.until_async("second", 1).await;
    let running = tokio::spawn(
        task.wait().on_status(move |state| keep.lock().unwrap().push(state)).into_future(),
    );
    while seen.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    server.open("second");
    assert_eq!(running.await.unwrap().unwrap().text(), "3");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.first().unwrap().message.as_deref(), Some("one"));
    assert_eq!(seen.last().unwrap().status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_no_task_answers_at_once() {
    let server = Server::start();
    let client = Client::connect(&server.url()).await.unwrap();
    let call = client.call("greet", json!({ "name": "Bob" }));
    match call.start().await.unwrap() {
        Started::Done(result) => assert_eq!(result.text(), "Hello, Bob!"),
        Started::Task(task) => panic!("a task: {}", task.id()),
    }
}
