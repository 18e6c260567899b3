//! Copies of requests that come late: their client has made them again elsewhere.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_engine::{Engine, Keyed, ListTasks, Principal, TaskId};
use steadfast_mcp::Auth;
use steadfast_store::Disk;
use tokio::sync::Notify;

use crate::{
    bent::{Bent, Fails},
    pair::{Pair, in_time, taken_back},
    site::{Legacy, Site},
    tools::{Count, server},
};

fn hang() -> Value {
    json!({ "name": "hang", "arguments": {} })
}

fn add(a: u64) -> Value {
    json!({ "name": "add_durably", "arguments": { "a": a, "b": 2 } })
}

async fn sum(client: &Legacy, id: u64, a: u64) -> Value {
    client.result(id, "tools/call", add(a)).await["content"][0]["text"].clone()
}

/// What its call is found by, as it is in the store.
fn key(client: &Legacy, id: u64) -> String {
    let digest = id.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("request:{}:{digest:016x}", client.session)
}

/// Waits until the store knows that an id is free, and gives the call that had it last.
async fn until_free(site: &Site, client: &Legacy, id: u64) -> TaskId {
    let tasks = site.running.engine().tasks(Principal::new("anonymous").unwrap());
    let free = async {
        loop {
            match tasks.keyed(&key(client, id)).await.unwrap() {
                Some(Keyed { id, freed: Some(_) }) => return id,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    in_time(free).await
}

/// While it waits its client makes it again elsewhere, has the answer, and uses the id for something else.
#[tokio::test]
async fn a_copy_whose_id_was_used_for_another_since_does_nothing() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-11-25").await;
    let store = &pair.one.0;
    store.hold.store(1, Ordering::SeqCst);
    let elsewhere = async {
        in_time(store.come.notified()).await;
        assert_eq!(sum(&other, 7, 1).await, r#"{"total":3}"#);
        let first = until_free(&pair.two.1, &other, 7).await;
        assert_eq!(sum(&other, 7, 5).await, r#"{"total":7}"#);
        assert_ne!(until_free(&pair.two.1, &other, 7).await, first);
        store.go.notify_one();
    };
    let (copy, ()) = tokio::join!(client.request(7, "tools/call", add(1)), elsewhere);
    assert_eq!(copy.status, 503);
    assert_eq!(pair.tasks().await.len(), 2, "neither is done twice");
    // One that is made now is another.
    assert_eq!(sum(&client, 7, 1).await, r#"{"total":3}"#);
    assert_eq!(pair.tasks().await.len(), 3);
}

/// It has found the call, and looks at it when that is cancelled.
#[tokio::test]
async fn a_copy_of_what_is_taken_back_while_it_is_looked_at_does_nothing() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-11-25").await;
    let mut first = other.request(1, "tools/call", hang()).await.events();
    first.raw().await.expect("it has begun");
    let store = &pair.one.0;
    store.late.store(1, Ordering::SeqCst);
    let takes_back = async {
        in_time(store.come.notified()).await;
        other.say(&taken_back(1)).await;
        store.go.notify_one();
    };
    let copy = async { client.request(1, "tools/call", hang()).await.events().next().await };
    let (copy, ()) = tokio::join!(in_time(copy), takes_back);
    assert_eq!((copy, first.next().await), (None, None));
    assert_eq!((pair.count.get(), pair.tasks().await.len()), (1, 1));
}

/// Both are taken back by the word of it that comes to where one of them could not begin.
#[tokio::test]
async fn a_cancel_reaches_a_copy_elsewhere_if_the_one_that_is_here_begins_nothing() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-11-25").await;
    let (there, here) = (&pair.one.0, &pair.two.0);
    there.hold.store(1, Ordering::SeqCst);
    let copy = async { client.request(1, "tools/call", hang()).await.events().next().await };
    let second = async { other.request(1, "tools/call", hang()).await.events().next().await };
    let told = taken_back(1);
    let elsewhere = async {
        in_time(there.come.notified()).await;
        here.hold.store(1, Ordering::SeqCst);
        here.fail.store(1, Ordering::SeqCst);
        let goes_on = async {
            in_time(here.come.notified()).await;
            // Who takes it back waits for the start.
            let waits = other.say(&told);
            let fails = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                here.go.notify_one();
            };
            tokio::join!(waits, fails);
        };
        tokio::join!(second, goes_on);
        there.go.notify_one();
    };
    let (copy, ()) = tokio::join!(in_time(copy), elsewhere);
    assert_eq!((copy, pair.count.get()), (None, 0), "nothing of it ran");
}

/// The word that takes back what comes too late to begin has nothing to do.
#[tokio::test]
async fn who_comes_too_late_is_told_to_come_again() {
    let store = Bent::new(Disk::new().open());
    let engine = Engine::builder(Arc::new(store.clone()));
    let site = Site::of(server(&Count::default()), engine).await;
    let client = Legacy::open(&site, "2025-11-25", json!({})).await;
    store.fail(Fails::LateAt(&["start"]));
    let refused = client.request(1, "tools/call", add(1)).await;
    assert_eq!(refused.status, 503);
    let error = refused.json().await["error"]["message"].clone();
    assert_eq!(error, "the request came too late; make it again");
    client.say(&taken_back(1)).await;
    store.until_failed(2).await;
    store.fail(Fails::Nowhere);
    assert_eq!(sum(&client, 1, 1).await, r#"{"total":3}"#);
}

/// An author's check may take its time, when the request is here already.
#[tokio::test]
async fn a_copy_that_waited_for_who_it_is_from_does_nothing() {
    let (come, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (comes, goes) = (come.clone(), go.clone());
    let held = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let holds = held.clone();
    let slow = Auth::hook(move |_| {
        let (come, go, held) = (comes.clone(), goes.clone(), holds.clone());
        async move {
            if held.swap(false, Ordering::SeqCst) {
                come.notify_one();
                go.notified().await;
            }
            Principal::new("ada").ok()
        }
    });
    let disk = Disk::new();
    let at_once = Auth::hook(|_| async { Principal::new("ada").ok() });
    let one = Site::on(server(&Count::default()).auth(slow), &disk).await;
    let two = Site::on(server(&Count::default()).auth(at_once), &disk).await;
    let client = Legacy::open_as(&one, "2025-11-25", json!({}), Some("t")).await;
    let other = client.of(client.session.clone()).at(&two);
    held.store(true, Ordering::SeqCst);
    let elsewhere = async {
        in_time(come.notified()).await;
        assert_eq!(sum(&other, 1, 1).await, r#"{"total":3}"#);
        let tasks = two.running.engine().tasks(Principal::new("ada").unwrap());
        let free = async {
            let freed = async || tasks.keyed(&key(&other, 1)).await.unwrap().unwrap().freed;
            while freed().await.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time(free).await;
        go.notify_one();
    };
    let (copy, ()) = tokio::join!(sum(&client, 1, 1), elsewhere);
    assert_eq!(copy, r#"{"total":3}"#);
    let all = one.running.engine().operator().list(ListTasks::default()).await.unwrap().tasks;
    assert_eq!(all.len(), 1, "it was done once");
}

/// It was here when the first of its batch was.
#[tokio::test]
async fn a_copy_that_waited_for_its_turn_in_a_batch_does_nothing() {
    let pair = Pair::held_at("start").await;
    let (client, other) = pair.client("2025-03-26").await;
    let request = |id: u64, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    let batch = json!([request(1, hang()), request(2, add(1))]);
    let elsewhere = async {
        pair.until_open().await;
        let hangs = pair.tasks().await.remove(0).id;
        assert_eq!(sum(&other, 2, 1).await, r#"{"total":3}"#);
        until_free(&pair.two.1, &other, 2).await;
        pair.one.1.signal(&json!({ "taskId": hangs.as_str() }), "go").await;
    };
    let answers = async { client.post(&batch).await.json().await };
    let (answers, ()) = tokio::join!(in_time(answers), elsewhere);
    assert_eq!(answers[1]["result"]["content"][0]["text"], r#"{"total":3}"#, "{answers}");
    assert_eq!(pair.tasks().await.len(), 2, "each was done once");
}

/// What has the id of its request is another call, that nobody took back.
#[tokio::test]
async fn a_key_is_not_that_of_a_call_that_was_cancelled_under_its_requests_id() {
    // Nobody hears that it is over.
    let pair = Pair::held_at("unbind").await;
    pair.one.0.hold.store(1, Ordering::SeqCst);
    let (client, other) = pair.client("2025-11-25").await;
    let mut lost = client.request(7, "tools/call", hang()).await.events();
    lost.raw().await.expect("it has begun");
    let hangs = pair.tasks().await.remove(0).id;
    let operator = pair.one.1.running.engine().operator();
    operator.cancel(&hangs, Some("no more".into())).await.unwrap();
    let mut params = add(1);
    params["_meta"] = json!({ "dev.steadfast/idempotency-key": "k" });
    for _ in 0..2 {
        let made = other.result(7, "tools/call", params.clone()).await;
        assert_eq!(made["content"][0]["text"], r#"{"total":3}"#, "{made}");
    }
    assert_eq!(pair.tasks().await.len(), 2);
}
