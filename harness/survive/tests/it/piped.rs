//! Calls over standard streams with an idempotency key: they go on without their process and their client,
//! and who makes them again under the key is answered. Only who says so cancels them.

use serde_json::{Value, json};
use steadfast::prelude::{Engine, ListTasks, Status};

use crate::{
    client::{Client, stateless_call},
    server::{Piped, Server},
};

const VERSIONS: [&str; 4] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];

/// A process that speaks `version`, and is asked to book under this key, if any.
fn book(server: &Server, version: &str, id: u64, key: Option<&str>) -> Piped {
    let mut piped = server.over_stdio();
    let arguments = json!({ "guest": "ada" });
    if version == "2026-07-28" {
        piped.say(&stateless_call(&json!(id), "book", &arguments, key, json!({})));
        return piped;
    }
    let info = json!({ "name": "survive", "version": "1" });
    let params = json!({ "protocolVersion": version, "clientInfo": info, "capabilities": {} });
    piped.say(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
    piped.response(&json!(0));
    let mut params = json!({ "name": "book", "arguments": arguments });
    if let Some(key) = key {
        params["_meta"] = json!({ "dev.steadfast/idempotency-key": key });
    }
    piped.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    piped
}

fn counts(server: &Server) -> [usize; 3] {
    ["room", "cancel room", "paid"].map(|effect| server.count(effect))
}

/// A call that is made anew is all there is: while it came to its end, the other had the time to.
fn is_taken_back(server: &Server, what: &str) {
    server.until("cancel room", 1);
    server.open("second");
    let response = book(server, "2025-11-25", 5, None).response(&json!(5));
    assert!(response["result"].is_object(), "{what}: {response}");
    assert_eq!(counts(server), [2, 1, 1], "{what}");
}

#[test]
fn with_a_key_the_work_goes_on_and_the_request_made_again_attaches_to_it() {
    for version in VERSIONS {
        for how in ["killed", "told to stop", "hung up"] {
            let server = Server::start();
            let first = book(&server, version, 1, Some("booking-1"));
            server.until("second", 1);
            match how {
                "killed" => first.kill(),
                "told to stop" => first.terminate(),
                _ => first.hang_up(),
            }
            // The step that was at work runs again, in the process that is left.
            server.until("second", 2);
            let mut again = book(&server, version, 7, Some("booking-1"));
            let mut other = book(&server, version, 8, None);
            server.until("room", 2);
            server.open("second");
            let response = again.response(&json!(7));
            let text = &response["result"]["content"][0]["text"];
            assert_eq!(text, "booked for ada", "{version}, {how}: {response}");
            other.response(&json!(8));
            assert_eq!(counts(&server), [2, 0, 2], "{version}, {how}: once each");
        }
    }
}

/// `notifications/cancelled`, of who made the call or of who attached to it in another process.
#[test]
fn with_a_key_it_is_cancelled_by_who_takes_the_request_back() {
    for version in VERSIONS {
        for attached in [false, true] {
            let server = Server::start();
            let mut piped = book(&server, version, 1, Some("booking-1"));
            server.until("second", 1);
            if attached {
                piped.kill();
                server.until("second", 2);
                piped = book(&server, version, 1, Some("booking-1"));
            }
            let taken_back = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                                     "params": { "requestId": 1, "reason": "changed my mind" } });
            piped.say(&taken_back);
            let what = format!("{version}, attached: {attached}");
            is_taken_back(&server, &what);
            // Whatever would be said to the request has been said before the answer to a later one.
            let said = later(&mut piped, version);
            assert!(said.iter().all(|message| message["id"] != 1), "{what}: {said:?}");
        }
    }
}

/// All that is said until a request is answered that is made now.
fn later(piped: &mut Piped, version: &str) -> Vec<Value> {
    let call = match version {
        "2026-07-28" => stateless_call(&json!(99), "who", &json!({}), None, json!({})),
        _ => json!({ "jsonrpc": "2.0", "id": 99, "method": "tools/call",
                     "params": { "name": "who", "arguments": {} } }),
    };
    piped.say(&call);
    piped.until_response(&json!(99))
}

#[test]
fn without_a_key_it_is_taken_back_when_the_process_is_told_to_stop() {
    for version in VERSIONS {
        let server = Server::start();
        let piped = book(&server, version, 1, None);
        server.until("second", 1);
        piped.terminate();
        is_taken_back(&server, version);
    }
}

/// Over HTTP, where nobody listens to it any more.
fn left_behind(flags: &[&str]) -> (Server, Client) {
    let mut server = Server::with(&[flags, &["--token-file", "tokens"]].concat());
    let ada = Client::connect_as(server.address(), "2025-11-25", Some("the-secret-of-ada"));
    let meta = json!({ "dev.steadfast/idempotency-key": "booking-1" });
    let params = json!({ "name": "book", "arguments": { "guest": "ada" }, "_meta": meta });
    let _left = ada.request(server.address(), json!(1), "tools/call", params);
    server.until("second", 1);
    server.kill_and_restart();
    server.until("second", 2);
    (server, ada)
}

#[test]
fn with_a_key_it_is_cancelled_by_the_companion_tool() {
    let (server, ada) = left_behind(&["--companions"]);
    let call = |id: u64, tool: &str, arguments: Value| {
        ada.call(server.address(), json!(id), tool, arguments).last()["result"].take()
    };
    let listed = call(2, "task_list", json!({}));
    let task = &listed["structuredContent"]["tasks"][0];
    assert_eq!(task["tool"], "book", "{listed}");
    let cancelled = call(3, "task_cancel", json!({ "task_id": task["task_id"] }));
    assert_ne!(cancelled["isError"], true, "{cancelled}");
    is_taken_back(&server, "by the tool");
    let status = call(4, "task_status", json!({ "task_id": task["task_id"] }));
    assert_eq!(status["structuredContent"]["status"], "cancelled", "{status}");
}

/// From another process on the same store.
#[test]
fn with_a_key_it_is_cancelled_by_the_operator() {
    let (server, _) = left_behind(&[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let engine = Engine::builder(steadfast::sqlite(server.store()).unwrap()).start();
        let tasks = engine.operator();
        let task = tasks.list(ListTasks::default()).await.unwrap().tasks.remove(0);
        assert_eq!(task.tool, "book");
        tasks.cancel(&task.id, Some("maintenance".into())).await.unwrap();
        assert_eq!(tasks.get(&task.id).await.unwrap().status, Status::Cancelled);
        engine.shutdown(std::time::Duration::from_secs(5)).await;
    });
    is_taken_back(&server, "by the operator");
}
