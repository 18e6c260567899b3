//! Streams that are hung up on purpose, so that no connection is long.

use serde_json::json;

use crate::{client::Client, server::Server};

/// Clients of earlier revisions don't come back, and are not sent away.
#[test]
fn a_client_that_knows_how_is_sent_away_and_comes_back() {
    let server = Server::with(&["--stream-life-seconds", "1"]);
    let work = |client: &Client, number: u64| {
        client.call(server.address(), json!(1), "work", json!({ "number": number }))
    };
    let earlier = Client::connect(server.address(), "2025-06-18");
    let patient = work(&earlier, 6);
    let client = Client::connect(server.address(), "2025-11-25");
    let mut stream = work(&client, 5);
    let mut last = None;
    while let Some(event) = stream.next() {
        let answered = event.message.is_some_and(|message| !message["id"].is_null());
        assert!(!answered, "it is at work");
        last = event.id.or(last);
    }
    server.open("second");
    let resumed = client.resume(server.address(), &last.unwrap());
    for (stream, number) in [(resumed, "5"), (patient, "6")] {
        let answer = stream.last();
        assert_eq!(answer["result"]["content"][0]["text"], number, "{answer}");
    }
    assert_eq!([server.count("first"), server.count("last")], [2, 2]);
}
