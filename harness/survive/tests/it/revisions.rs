//! What streams look like in each revision, byte by byte. Clients before 2025-11-25 choke on an event
//! without a message, and don't know that they may be sent away; later ones do.

use serde_json::{Value, json};

use crate::{client::Client, server::Server};

const OLDER: [&str; 2] = ["2025-06-18", "2025-03-26"];

/// Every event of a stream has a message, and nothing says when to come back.
fn has_only_messages(bytes: &str, what: &str) {
    // The sizes of chunks are lines of their own, and stand between events.
    let is_field = |line: &&str| line.contains(':') || line.is_empty();
    let lines: Vec<&str> = bytes.lines().filter(is_field).collect();
    for event in lines.split(|line| line.is_empty()).filter(|event| !event.is_empty()) {
        let data = event.iter().find_map(|line| line.strip_prefix("data:"));
        let message = data.map(serde_json::from_str::<Value>);
        assert!(matches!(message, Some(Ok(Value::Object(_)))), "{what}: {event:?}");
        assert!(!event.iter().any(|line| line.starts_with("retry")), "{what}: {event:?}");
    }
    assert!(!bytes.contains("retry:"), "{what}: {bytes}");
}

fn call(client: &Client, server: &Server, number: u64) -> crate::client::Response {
    client.call(server.address(), json!(number), "work", json!({ "number": number }))
}

/// A newer client that calls later, and has been sent away: so long ago have others called.
fn is_sent_away(server: &Server) {
    let newer = Client::connect(server.address(), "2025-11-25");
    let said = call(&newer, server, 9).rest();
    assert!(said.iter().all(|message| message["id"].is_null()), "no answer yet: {said:?}");
}

#[test]
fn older_clients_get_nothing_but_messages_and_are_never_sent_away() {
    for version in OLDER {
        for life in [None, Some("200")] {
            let flags: Vec<&str> = life.iter().flat_map(|life| ["--stream-life", *life]).collect();
            let what = format!("{version}, {flags:?}");
            let mut server = Server::with(&flags);
            let client = Client::connect(server.address(), version);
            let own = client.listen(server.address());
            let params = json!({ "uri": "test://board" });
            client.request(server.address(), json!(1), "resources/subscribe", params).last();
            let post = call(&client, &server, 2);
            let mut broken = call(&client, &server, 3);
            let (event, _) = broken.message().unwrap();
            drop(broken);
            let resumed = client.resume(server.address(), &event.unwrap());
            assert_eq!(resumed.status, 200, "{what}");
            if life.is_some() {
                is_sent_away(&server);
            }
            server.until("second", 2);
            server.open("second");
            for (stream, id) in [(post, 2), (resumed, 3)] {
                let bytes = stream.bytes();
                has_only_messages(&bytes, &what);
                assert!(bytes.contains(&format!("\"id\":{id}")), "{what}: answered: {bytes}");
            }
            client.call(server.address(), json!(4), "publish", json!({})).last();
            // So that its end is reached.
            server.kill();
            let bytes = own.bytes();
            has_only_messages(&bytes, &what);
            assert_eq!(bytes.matches("resources/updated").count(), 1, "{what}: {bytes}");
        }
    }
}

/// The same after a kill, for a stream that begins with its resumption.
#[test]
fn older_clients_that_take_up_a_stream_after_a_kill_get_nothing_but_messages() {
    for version in OLDER {
        let mut server = Server::with(&["--stream-life", "200"]);
        let client = Client::connect(server.address(), version);
        let params = json!({ "uri": "test://board" });
        client.request(server.address(), json!(1), "resources/subscribe", params).last();
        let mut own = client.listen(server.address());
        client.call(server.address(), json!(2), "publish", json!({})).last();
        let (heard, _) = own.message().unwrap();
        let (event, _) = call(&client, &server, 3).message().unwrap();
        server.kill_and_restart();
        let own = client.resume(server.address(), &heard.unwrap());
        let resumed = client.resume(server.address(), &event.unwrap());
        assert_eq!([own.status, resumed.status], [200, 200]);
        is_sent_away(&server);
        server.open("second");
        let bytes = resumed.bytes();
        has_only_messages(&bytes, version);
        assert!(bytes.contains("\"id\":3"), "{version}: answered: {bytes}");
        client.call(server.address(), json!(4), "publish", json!({})).last();
        server.kill();
        let bytes = own.bytes();
        has_only_messages(&bytes, version);
        assert_eq!(bytes.matches("resources/updated").count(), 1, "{version}: {bytes}");
    }
}

/// Again and again, at any point of the call; all that is said reaches it once.
#[test]
fn a_client_of_2025_11_25_is_sent_away_and_comes_back() {
    let server = Server::with(&["--stream-life", "200"]);
    let client = Client::connect(server.address(), "2025-11-25");
    let mut stream = call(&client, &server, 1);
    let (mut all, mut last, mut times) = (String::new(), String::new(), 0);
    let said = |all: &str| all.matches("notifications/").count();
    while !all.contains("\"result\"") {
        let bytes = stream.bytes();
        let fields: Vec<&str> = bytes.lines().filter(|line| line.contains(':')).collect();
        assert!(fields[0].starts_with("id: "), "{bytes}");
        assert_eq!(fields[1..3], ["retry: 2000", "data:"], "{bytes}");
        if let Some(id) = fields.iter().filter_map(|line| line.strip_prefix("id: ")).next_back() {
            last = id.to_owned();
        }
        (all, times) = (all + &bytes, times + 1);
        // All that can be said before the gate has been, and it came back for nothing as well.
        if times > 3 && said(&all) == 3 {
            server.open("second");
        }
        stream = client.resume(server.address(), &last);
    }
    assert_eq!((said(&all), all.matches("\"result\"").count()), (4, 1), "{all}");
    assert_eq!([server.count("first"), server.count("second"), server.count("last")], [1, 1, 1]);
}
