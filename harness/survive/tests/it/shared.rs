//! Sessions in two processes that share a store.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    client::{Client, Response},
    server::{Beside, Place, Server},
};

on_each_store!(
    one_that_is_used_elsewhere_is_not_idle,
    what_was_set_in_one_process_is_not_overwritten_by_the_other,
    one_that_was_ended_is_ended_everywhere_at_once,
    one_that_was_ended_in_a_process_that_is_gone_is_ended,
    what_was_set_in_one_process_is_known_in_the_other,
    what_is_set_in_both_at_once_is_kept,
);

/// Two processes, and a client of whose session both have a copy.
fn both(place: Place, flags: &[&str]) -> (Server, Beside, Client) {
    let one = Server::on(place, 10, flags);
    let two = one.beside();
    let client = Client::connect(one.address(), "2025-11-25");
    assert_eq!(ping(&client, two.address), 200);
    (one, two, client)
}

fn ping(client: &Client, to: SocketAddr) -> u16 {
    client.request(to, json!(1), "ping", json!({})).status
}

/// Uses a session in one process for this long.
fn use_for(client: &Client, to: SocketAddr, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        assert_eq!(ping(client, to), 200, "after {:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ask(client: &Client, to: SocketAddr, method: &str, params: Value) {
    let done = client.request(to, json!(2), method, params).last();
    assert_eq!(done["result"], json!({}), "{done}");
}

fn subscribe(client: &Client, to: SocketAddr) {
    ask(client, to, "resources/subscribe", json!({ "uri": "test://board" }));
}

/// Somebody else changes what is watched.
fn publish(to: SocketAddr) {
    let client = Client::connect(to, "2025-11-25");
    let done = client.call(to, json!(1), "publish", json!({})).last();
    assert!(done["result"].is_object(), "{done}");
}

fn is_told(stream: &mut Response) {
    let (_, message) = stream.message().expect("a message");
    assert_eq!(message["method"], "notifications/resources/updated", "{message}");
}

/// The first process has not seen it for three times as long as a session may be idle.
fn one_that_is_used_elsewhere_is_not_idle(place: Place) {
    let (one, two, client) = both(place, &["--session-idle-seconds", "1"]);
    use_for(&client, two.address, Duration::from_secs(3));
    assert_eq!(ping(&client, one.address()), 200);
}

/// The second process has a copy from before, and writes down again and again that it is in use.
fn what_was_set_in_one_process_is_not_overwritten_by_the_other(place: Place) {
    let (mut one, two, client) = both(place, &["--session-idle-seconds", "2"]);
    let stream = client.listen(two.address);
    subscribe(&client, one.address());
    // Longer than it takes to write that down.
    use_for(&client, two.address, Duration::from_millis(1_200));
    drop((stream, two));
    one.kill_and_restart();
    let mut stream = client.listen(one.address());
    publish(one.address());
    is_told(&mut stream);
}

fn one_that_was_ended_is_ended_everywhere_at_once(place: Place) {
    for _ in 0..20 {
        let (one, two, client) = both(place, &[]);
        let stream = client.listen(two.address);
        assert_eq!(client.end(one.address()), 204);
        assert_eq!(ping(&client, two.address), 404);
        assert_eq!(stream.rest().len(), 0, "and its stream ends");
    }
}

/// Who was not there when the other process went has looked before it counts itself alone.
fn one_that_was_ended_in_a_process_that_is_gone_is_ended(place: Place) {
    let (one, two, client) = both(place, &[]);
    let other = Client::connect(one.address(), "2025-11-25");
    assert_eq!(client.end(two.address), 204);
    drop(two);
    // A commit, by which the process sees that it is alone.
    publish(one.address());
    assert_eq!(ping(&client, one.address()), 404);
    assert_eq!(ping(&other, one.address()), 200);
}

/// A stream that is open in one process follows what is set in the other.
fn what_was_set_in_one_process_is_known_in_the_other(place: Place) {
    let (one, two, client) = both(place, &[]);
    let mut stream = client.listen(two.address);
    subscribe(&client, one.address());
    for from in [one.address(), two.address] {
        publish(from);
        is_told(&mut stream);
    }
    ask(&client, one.address(), "logging/setLevel", json!({ "level": "debug" }));
    one.open("second");
    let said = client.call(two.address, json!(3), "work", json!({ "number": 1 })).rest();
    let texts: Vec<&Value> = said.iter().map(|said| &said["params"]["data"]).collect();
    assert!(texts.contains(&&json!("a detail")), "{said:?}");
}

/// Each adds what the other does not know of yet.
fn what_is_set_in_both_at_once_is_kept(place: Place) {
    let (mut one, two, client) = both(place, &[]);
    let names: Vec<String> = (0..20).map(|n| format!("test://files/{n}")).collect();
    std::thread::scope(|scope| {
        for (n, to) in [one.address(), two.address].into_iter().enumerate() {
            let (names, client) = (&names, &client);
            scope.spawn(move || {
                for (id, uri) in names.iter().enumerate().skip(n).step_by(2) {
                    let done = client.request(
                        to,
                        json!(100 + id),
                        "resources/subscribe",
                        json!({ "uri": uri }),
                    );
                    assert_eq!(done.last()["result"], json!({}));
                }
            });
        }
    });
    drop(two);
    one.kill_and_restart();
    let mut stream = client.listen(one.address());
    let other = Client::connect(one.address(), "2025-11-25");
    for name in names {
        other.call(one.address(), json!(1), "announce", json!({ "uri": name })).last();
        let (_, message) = stream.message().expect("a message");
        assert_eq!(message["params"]["uri"], name, "{message}");
    }
}
