//! Sessions in the store: what is kept, what is refused, and what can go wrong with it.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use steadfast_engine::{Engine, Timestamp};
use steadfast_mcp::Settings;
use steadfast_store::{Disk, SessionRow, Store};

use crate::{
    http::send,
    late::Late,
    site::{ACCEPT, JSON, Legacy, Site},
    tools::{Count, server},
    unsteady::Unsteady,
};

async fn on(disk: &Disk) -> Site {
    Site::on(server(&Count::default()), disk).await
}

async fn ping(client: &Legacy) -> u16 {
    client.request(1, "ping", json!({})).await.status
}

#[tokio::test]
async fn what_a_session_watches_is_kept() {
    let disk = Disk::new();
    let one = on(&disk).await;
    let client = Legacy::open(&one, "2025-11-25", json!({})).await;
    let resources = client.result(1, "resources/list", json!({})).await;
    let uri = resources["resources"][0]["uri"].as_str().unwrap().to_owned();
    client.result(2, "resources/subscribe", json!({ "uri": uri })).await;
    let two = on(&disk).await;
    let client = client.at(&two);
    let mut events = client.listen().await.events();
    two.running.resource_updated("test://another");
    two.running.resource_updated(&uri);
    let told = events.next().await.unwrap();
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], uri);
}

/// What is in the store may come from a later version, or be damaged: the client begins a new session.
#[tokio::test]
async fn one_that_can_not_be_read_is_not_there() {
    let disk = Disk::new();
    let store = disk.open();
    let site = on(&disk).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let wrong = json!({ "principal": "anonymous", "revision": "2099-01-01" }).to_string();
    for (n, body) in ["", "{", "null", "[]", wrong.as_str()].into_iter().enumerate() {
        let id = format!("{n:032x}");
        let row = SessionRow { id: id.clone(), expires: Timestamp(i64::MAX), body: body.into() };
        store.begin_session(row, 100).await.unwrap();
        assert_eq!(ping(&client.of(id)).await, 404, "{body:?}");
    }
    assert_eq!(ping(&client).await, 200);
}

/// It was read from the store, and ended before it came into memory.
#[tokio::test]
async fn one_that_is_ended_while_it_is_fetched_stays_ended() {
    let disk = Disk::new();
    let client = Legacy::open(&on(&disk).await, "2025-11-25", json!({})).await;
    let late = Late::new(disk.open(), Duration::from_millis(200));
    let site = Site::of(server(&Count::default()), Engine::builder(Arc::new(late))).await;
    let client = client.at(&site);
    let ended = async { client.end().await };
    let used = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ping(&client).await
    };
    let (ended, _) = tokio::join!(ended, used);
    assert_eq!(ended, 204);
    assert_eq!(ping(&client).await, 404);
}

#[tokio::test]
async fn without_the_store_a_client_is_told_to_come_back() {
    let store = Arc::new(Disk::new().open());
    let engine = Engine::builder(store.clone());
    let site = Site::of(server(&Count::default()), engine).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    store.kill();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
                         "clientInfo": { "name": "test", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let begun = send(site.address, "POST", &[JSON, ACCEPT], &body.to_string()).await;
    assert_eq!((begun.status, begun.header("retry-after")), (503, Some("1")));
    let unknown = client.of("0".repeat(32)).request(1, "ping", json!({})).await;
    assert_eq!((unknown.status, unknown.header("retry-after")), (503, Some("1")));
    assert_eq!(ping(&client).await, 200, "what is in memory needs no store");
    let level = client.error(2, "logging/setLevel", json!({ "level": "debug" })).await;
    assert_eq!(level["code"], -32603);
}

#[tokio::test]
async fn a_session_in_use_is_kept_and_one_that_is_not_goes() {
    let disk = Disk::new();
    let settings = Settings { session_idle: Duration::from_secs(2), ..Settings::default() };
    let site = Site::on(server(&Count::default()).settings(settings), &disk).await;
    let used = Legacy::open(&site, "2025-11-25", json!({})).await;
    let listens = Legacy::open(&site, "2025-11-25", json!({})).await;
    let _stream = listens.listen().await;
    let idle = Legacy::open(&site, "2025-11-25", json!({})).await;
    let store = disk.open();
    let is_there = async |client: &Legacy| {
        let now = site.running.engine().now();
        store.session(client.session.clone(), now).await.unwrap().is_some()
    };
    let gone = async {
        while is_there(&idle).await {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(ping(&used).await, 200);
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the idle one goes");
    assert!(is_there(&used).await && is_there(&listens).await);
    assert_eq!(ping(&idle).await, 404);
}

/// It is used once, and what writes that down fails.
#[tokio::test]
async fn a_use_that_could_not_be_written_is_written_later() {
    let disk = Disk::new();
    let store = Unsteady::new(disk.open(), "touch_session");
    let settings = Settings { session_idle: Duration::from_secs(2), ..Settings::default() };
    let server = server(&Count::default()).settings(settings);
    let site = Site::of(server, Engine::builder(store.clone())).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let look = disk.open();
    let expires = async || {
        let row = look.session(client.session.clone(), Timestamp(0)).await.unwrap();
        row.expect("the session").expires
    };
    let before = expires().await;
    store.fail.store(2, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(ping(&client).await, 200);
    let written = async {
        while expires().await == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), written).await.expect("it is tried again");
}

/// The first waits on its way to the store when the second comes.
#[tokio::test]
async fn of_two_changes_the_second_is_kept() {
    let disk = Disk::new();
    let store = Unsteady::new(disk.open(), "keep_session");
    let site = Site::of(server(&Count::default()), Engine::builder(store.clone())).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let set = async |id, level: &str| {
        client.result(id, "logging/setLevel", json!({ "level": level })).await
    };
    store.hold.store(1, std::sync::atomic::Ordering::SeqCst);
    let first = set(1, "debug");
    let second = async {
        store.come.notified().await;
        // Time enough to overtake the first, if that is possible.
        let go = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            store.go.notify_one();
        };
        tokio::join!(set(2, "error"), go)
    };
    tokio::join!(first, second);
    let row = disk.open().session(client.session.clone(), Timestamp(0)).await.unwrap().unwrap();
    let body: Value = serde_json::from_slice(&row.body).unwrap();
    assert_eq!(body["log_level"], 4, "{body}");
}

#[tokio::test]
async fn a_client_may_not_say_too_much_of_itself() {
    let site = on(&Disk::new()).await;
    let long = "x".repeat(64 << 10);
    for (capabilities, info) in [
        (json!({ "experimental": { "x": { "y": long } } }), json!({ "name": "n", "version": "1" })),
        (json!({}), json!({ "name": long, "version": "1" })),
    ] {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
                             "clientInfo": info });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let begun = send(site.address, "POST", &[JSON, ACCEPT], &body.to_string()).await;
        assert_eq!(begun.header("mcp-session-id"), None);
        let error: Value = begun.json().await["error"].clone();
        assert_eq!(error["code"], -32602);
        assert!(error["message"].as_str().unwrap().contains("65536 bytes"), "{error}");
    }
}

#[tokio::test]
async fn a_session_watches_no_more_than_a_thousand_resources() {
    let site = on(&Disk::new()).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    let watch = async |n: usize| {
        let params = json!({ "uri": format!("test://item/{n}") });
        client.request(1, "resources/subscribe", params).await.last().await
    };
    for n in 0..1_000 {
        assert_eq!(watch(n).await["result"], json!({}), "{n}");
    }
    let error = watch(1_000).await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("1000 resources"), "{error}");
    assert_eq!(watch(0).await["result"], json!({}), "one that it watches already");
}
