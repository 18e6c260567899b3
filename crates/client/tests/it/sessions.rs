//! Sessions, tokens, streams, headers.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_client::{Client, Error, EventStream, Revision, Started, TaskHandle};

use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_taken_up_over_a_kill_and_ended() {
    let mut server = Server::start();
    let client = Client::connect(&server.url()).revision(Revision::V2025_11_25).await.unwrap();
    assert_eq!(client.server().unwrap()["serverInfo"]["name"], "under-test");
    server.kill_and_restart();
    assert_eq!(client.request("ping", json!({})).await.unwrap(), json!({}));
    client.end_session().await.unwrap();
    let error = client.request("ping", json!({})).await.unwrap_err();
    assert!(matches!(error, Error::Status { status: 404, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_and_a_wrong_one_refused() {
    let server = Server::with(&["--token-file", "tokens"]);
    let client = Client::connect(&server.url()).bearer("the-secret-of-ada").await.unwrap();
    assert!(!client.list_tools().await.unwrap().is_empty());
    let error = Client::connect(&server.url()).bearer("another").await.unwrap_err();
    assert!(matches!(error, Error::Status { status: 401, .. }), "{error}");
}

/// The next message that is of this method, while somebody looks at the task: only then it is asked for.
async fn next(events: &mut EventStream, task: &TaskHandle, method: &str) -> Value {
    let late = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        assert!(tokio::time::Instant::now() < late, "no {method} came");
        let message = tokio::select! {
            message = events.next() => message.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(50)) => {
                task.get().await.unwrap();
                continue;
            }
        };
        if message["method"] == method {
            return message;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_own_stream_goes_on_after_a_kill_and_brings_no_question_twice() {
    let mut server = Server::start();
    let client = Client::connect(&server.url()).revision(Revision::V2025_11_25).await.unwrap();
    let mut events = client.events().await.unwrap();
    let started = client.call("approve", json!({})).start().await.unwrap();
    let Started::Task(task) = started else { panic!("no task") };
    let asked = next(&mut events, &task, "elicitation/create").await;
    server.kill_and_restart();
    let answer = json!({ "action": "accept", "content": { "approve": true } });
    client.respond(&asked["id"], Ok(answer)).await.unwrap();
    assert_eq!(task.wait().await.unwrap().text(), "done");
    let started = client.call("approve", json!({})).start().await.unwrap();
    let Started::Task(other) = started else { panic!("no task") };
    let asked = next(&mut events, &other, "elicitation/create").await;
    let related = &asked["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], other.id(), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_a_tool_wants_as_headers_are_sent_so() {
    let server = Server::start();
    let client = Client::connect(&server.url()).await.unwrap();
    for region in ["north", "Zürich"] {
        let result = client.call("route", json!({ "region": region })).await.unwrap();
        assert_eq!(result.text(), format!("to {region}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_protocol_has_its_code_and_message() {
    let server = Server::start();
    for revision in Revision::ALL {
        let client = Client::connect(&server.url()).revision(revision).await.unwrap();
        let error = client.call("no_such", json!({})).await.unwrap_err();
        let Error::Rpc(error) = error else { panic!("{error}") };
        assert_eq!((error.code, error.message.as_str()), (-32602, "unknown tool: no_such"));
    }
}
