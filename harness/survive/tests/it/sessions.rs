//! Sessions outlive the server, and nothing else brings them back.

use serde_json::{Value, json};

use crate::{client::Client, server::Server};

fn ping(server: &Server, client: &Client) -> u16 {
    client.request(server.address(), json!(1), "ping", json!({})).status
}

#[test]
fn the_old_id_works_after_a_kill() {
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let mut server = Server::start();
        let client = Client::connect(server.address(), version);
        server.kill_and_restart();
        assert_eq!(ping(&server, &client), 200, "{version}");
        server.kill_and_restart();
        assert_eq!(ping(&server, &client), 200, "{version}, again");
    }
}

/// What was said in `initialize`, and what came of it, is what a tool knows of its caller.
#[test]
fn its_client_is_known_by_what_it_said_when_it_began() {
    for (asks_for, has) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        // One that we don't know gets the newest that has sessions.
        ("2099-01-01", "2025-11-25"),
    ] {
        let mut server = Server::for_two();
        let open = |server: &Server, name: &str, can: &Value| {
            let info = json!({ "name": name, "version": "7", "title": "Kept as it is" });
            let ada = Some("the-secret-of-ada");
            let client = Client::introduced(server.address(), asks_for, ada, &info, can);
            Client { version: has, ..client }
        };
        let can = json!({ "elicitation": { "form": {}, "url": {} }, "roots": { "listChanged": true },
                          "experimental": { "x": { "deep": [1, null] } } });
        let client = open(&server, "survive", &can);
        let other = open(&server, "other", &json!({}));
        let who = |server: &Server, client: &Client| -> Value {
            let said = client.call(server.address(), json!(1), "who", json!({})).last();
            let text = said["result"]["content"][0]["text"].as_str();
            serde_json::from_str(text.unwrap_or_default()).unwrap_or(said)
        };
        let info = json!({ "name": "survive", "version": "7", "title": "Kept as it is" });
        let expected = json!({ "principal": "ada", "revision": has, "client": info,
                               "capabilities": can });
        let others = who(&server, &other);
        assert_eq!(who(&server, &client), expected);
        server.kill_and_restart();
        assert_eq!(who(&server, &client), expected, "{asks_for}, after a kill");
        assert_eq!(who(&server, &other), others, "{asks_for}, after a kill");
        assert_eq!(
            [&others["client"]["name"], &others["capabilities"]],
            [&json!("other"), &json!({})]
        );
    }
}

#[test]
fn unknown_or_ended_is_404_before_and_after() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let other =
        Client { session: "0".repeat(32), ..Client::connect(server.address(), "2025-11-25") };
    let strange =
        Client { session: "no/such".into(), ..Client::connect(server.address(), "2025-11-25") };
    for restart in [false, true] {
        if restart {
            server.kill_and_restart();
        }
        assert_eq!(ping(&server, &other), 404);
        assert_eq!(ping(&server, &strange), 404);
    }
    assert_eq!(client.end(server.address()), 204);
    assert_eq!(ping(&server, &client), 404);
    server.kill_and_restart();
    assert_eq!(ping(&server, &client), 404, "what was ended stays so");
    assert_eq!(client.end(server.address()), 404);
}

#[test]
fn it_stays_its_principals() {
    let mut server = Server::for_two();
    let ada = Client::connect_as(server.address(), "2025-11-25", Some("the-secret-of-ada"));
    let bob = Client {
        session: ada.session.clone(),
        version: ada.version,
        token: Some("the-secret-of-bob"),
    };
    server.kill_and_restart();
    assert_eq!(ping(&server, &bob), 404);
    assert_eq!(bob.end(server.address()), 404);
    assert_eq!(ping(&server, &ada), 200);
}

/// The log level is set below the default: what is said at that level is heard after the restart.
#[test]
fn the_log_level_is_kept() {
    let mut server = Server::start();
    let client = Client::connect(server.address(), "2025-11-25");
    let set = json!({ "level": "debug" });
    client.request(server.address(), json!(1), "logging/setLevel", set).last();
    server.kill_and_restart();
    server.open("second");
    let said = client.call(server.address(), json!(2), "work", json!({ "number": 1 })).rest();
    let texts: Vec<&Value> = said.iter().map(|said| &said["params"]["data"]).collect();
    assert!(texts.contains(&&json!("a detail")), "{said:?}");
}

#[test]
fn one_that_is_idle_for_too_long_is_over() {
    let mut server = Server::with(&["--session-idle-seconds", "1"]);
    let client = Client::connect(server.address(), "2025-11-25");
    server.kill();
    // Longer than it may be idle, and than it takes to write down that it was used.
    std::thread::sleep(std::time::Duration::from_millis(1_400));
    server.up();
    assert_eq!(ping(&server, &client), 404);
}
