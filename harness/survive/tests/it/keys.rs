//! Requests that have found the call of another by an idempotency key: their streams are their own.

use serde_json::{Value, json};

use crate::{
    client::{Client, Response},
    server::Server,
};

/// Calls `work` with the key `k`.
fn keyed(client: &Client, server: &Server, id: u64, token: &str) -> Response {
    let meta = json!({ "dev.steadfast/idempotency-key": "k", "progressToken": token });
    let params = json!({ "name": "work", "arguments": { "number": 3 }, "_meta": meta });
    client.request(server.address(), json!(id), "tools/call", params)
}

fn begin_stateless(server: &Server) -> Response {
    let (to, number) = (server.address(), json!({ "number": 3 }));
    let client = Client::stateless(None);
    client.call_stateless(to, json!(1), "work", number, Some("k"), json!({}))
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

fn tokens(messages: &[Value]) -> Vec<&Value> {
    let all = messages.iter().map(|message| &message["params"]["progressToken"]);
    all.filter(|token| !token.is_null()).collect()
}

fn take_back(client: &Client, server: &Server, id: u64) {
    let params = json!({ "requestId": id });
    let method = "notifications/cancelled";
    client.say(server.address(), &json!({ "jsonrpc": "2.0", "method": method, "params": params }));
}

/// Whoever began the call: another session, one of another revision, or the same under another id.
#[test]
fn the_stream_of_who_found_the_call_can_be_taken_up() {
    for begun in ["stateless", "elsewhere", "here"] {
        let mut server = Server::start();
        let client = Client::connect(server.address(), "2025-11-25");
        let other = Client::connect(server.address(), "2025-11-25");
        let first = match begun {
            "stateless" => begin_stateless(&server),
            "elsewhere" => keyed(&other, &server, 1, "one"),
            _ => keyed(&client, &server, 1, "one"),
        };
        server.until("second", 1);
        let mut second = keyed(&client, &server, 2, "two");
        let event = second.next().unwrap().id.unwrap();
        server.kill_and_restart();
        drop((first, second));
        assert_eq!(other.resume(server.address(), &event).status, 400, "{begun}: it is another's");
        let resumed = client.resume(server.address(), &event);
        assert_eq!(resumed.status, 200, "{begun}");
        server.open("second");
        let said = resumed.rest();
        let last = said.last().unwrap();
        assert_eq!((text(last), &last["id"]), ("3", &json!(2)), "{begun}: {last}");
        assert!(tokens(&said).iter().all(|token| *token == "two"), "{begun}: {said:?}");
        assert!(begun == "stateless" || !tokens(&said).is_empty(), "{begun}: {said:?}");
        assert_eq!([server.count("first"), server.count("last")], [1, 1], "{begun}");
    }
}

#[test]
fn who_found_the_call_can_take_it_back() {
    for (killed, resumed) in [(false, false), (false, true), (true, true), (true, false)] {
        let mut server = Server::start();
        let client = Client::connect(server.address(), "2025-11-25");
        let other = Client::connect(server.address(), "2025-11-25");
        let mut first = keyed(&other, &server, 1, "one");
        let begun = first.next().unwrap().id.unwrap();
        server.until("second", 1);
        let mut second = keyed(&client, &server, 2, "two");
        let event = second.next().unwrap().id.unwrap();
        if killed {
            server.kill_and_restart();
            first = other.resume(server.address(), &begun);
        }
        let resumed = resumed.then(|| client.resume(server.address(), &event));
        take_back(&client, &server, 2);
        let said = resumed.unwrap_or(second).rest();
        assert!(said.iter().all(|message| message["id"].is_null()), "killed: {killed}: {said:?}");
        // To who made it, it has failed.
        let failed = first.last();
        assert_eq!(failed["id"], 1, "killed: {killed}: {failed}");
        let failed = failed["error"].is_object() || failed["result"]["isError"] == true;
        assert!(failed, "killed: {killed}");
        let again = client.resume(server.address(), &event).rest();
        assert!(again.iter().all(|message| message["id"].is_null()), "nor later: {again:?}");
        server.open("second");
        let other = client.call(server.address(), json!(3), "work", json!({ "number": 4 }));
        assert_eq!(text(&other.last()), "4");
        assert_eq!(server.count("last"), 1, "killed: {killed}: only that of the other");
    }
}
