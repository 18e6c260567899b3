//! Calls that are taken back.

use serde_json::json;
use steadfast_client::{Call, CallResult, Canceller, Client, Error, Revision};

use crate::server::Server;

const SESSIONS: [Revision; 3] =
    [Revision::V2025_11_25, Revision::V2025_06_18, Revision::V2025_03_26];

async fn connect(server: &Server, revision: Revision) -> Client {
    Client::connect(&server.url()).revision(revision).await.unwrap()
}

type Running = tokio::task::JoinHandle<Result<CallResult, Error>>;

fn begin(call: Call) -> (Canceller, Running) {
    let canceller = call.canceller();
    (canceller, tokio::spawn(call.into_future()))
}

/// Another call comes to its end, so that one which was cancelled had the time to.
async fn is_the_only_one(server: &Server, client: &Client, what: &str) {
    server.open("second");
    assert_eq!(client.call("work", json!({ "number": 2 })).await.unwrap().text(), "2", "{what}");
    assert_eq!(server.count("last"), 1, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_call_is_taken_back_and_its_work_stops() {
    let keyed = SESSIONS.map(|revision| (revision, Some("k")));
    let plain = SESSIONS.map(|revision| (revision, None));
    for (revision, key) in keyed.into_iter().chain(plain).chain([(Revision::V2026_07_28, None)]) {
        let server = Server::start();
        let client = connect(&server, revision).await;
        let mut call = client.call("work", json!({ "number": 1 }));
        if let Some(key) = key {
            call = call.idempotency_key(key);
        }
        let (canceller, running) = begin(call);
        server.until_async("second", 1).await;
        canceller.cancel().await.unwrap();
        let ended = running.await.unwrap();
        assert!(matches!(ended, Err(Error::Cancelled(_))), "{revision}: {ended:?}");
        // In 2026-07-28 it is taken back by hanging up, which nobody acknowledges.
        server.until_async("stopped", 1).await;
        is_the_only_one(&server, &client, &format!("{revision}, {key:?}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_key_in_2026_07_28_the_work_goes_on_and_who_takes_it_back_is_told() {
    let server = Server::start();
    let client = connect(&server, Revision::V2026_07_28).await;
    let call = client.call("work", json!({ "number": 1 })).idempotency_key("k");
    let (canceller, running) = begin(call.clone());
    server.until_async("second", 1).await;
    let refused = canceller.cancel().await;
    assert!(matches!(refused, Err(Error::Setup(_))), "{refused:?}");
    assert!(matches!(running.await.unwrap(), Err(Error::Cancelled(_))));
    server.open("second");
    server.until_async("last", 1).await;
    assert_eq!([server.count("first"), server.count("second")], [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_never_sent_is_not() {
    for revision in [Revision::V2026_07_28, Revision::V2025_11_25] {
        let server = Server::start();
        let client = connect(&server, revision).await;
        let call = client.call("work", json!({ "number": 1 }));
        call.canceller().cancel().await.unwrap();
        assert!(matches!(call.await, Err(Error::Cancelled(_))), "{revision}");
        is_the_only_one(&server, &client, revision.name()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_once_it_is_known() {
    for revision in [Revision::V2026_07_28, Revision::V2025_11_25] {
        let server = Server::start();
        let client = connect(&server, revision).await;
        let call = client.call("work", json!({ "number": 1 })).as_task();
        let bookmark = call.bookmark();
        let (canceller, running) = begin(call);
        while bookmark.task_id().is_none() {
            tokio::task::yield_now().await;
        }
        canceller.cancel().await.unwrap();
        let ended = running.await.unwrap();
        assert!(matches!(ended, Err(Error::Cancelled(_))), "{revision}: {ended:?}");
        is_the_only_one(&server, &client, revision.name()).await;
    }
}
