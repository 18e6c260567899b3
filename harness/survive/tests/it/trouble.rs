//! Processes that share a database, one of which does not hear, stands still, or is cut off.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::{
    between::Between,
    client::Client,
    replicas::{modern, task, until},
    server::{Beside, Place, Server},
};

/// Two processes, the first of which is behind something that can go wrong.
fn pair(lease: u64) -> (Server, Beside, Between) {
    let between = Between::new();
    let mut one = Server::prepared(Place::Postgres, lease, &[]);
    one.up_by(Some(between.port), &[]);
    let two = one.beside();
    (one, two, between)
}

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}"))
}

/// By looking, when it is not told.
#[test]
fn an_answer_elsewhere_is_found_by_who_does_not_hear() {
    let (one, two, between) = pair(600);
    between.deafen();
    let client = Client::connect(one.address(), "2025-11-25");
    let mut stream = client.call(one.address(), json!(1), "approve", json!({}));
    let (_, question) = stream.message().expect("a question");
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": yes });
    client.say(two.address, &answer);
    let response = stream.rest().pop().unwrap();
    assert_eq!(text(&response), "done");
    assert_eq!([one.count("before"), one.count("after")], [1, 1]);
    assert!(between.unheard() > 0, "nothing was said, so nothing was tried");
}

/// What a step did is taken back when its process has let go of it, not before: that would leave it half done.
#[test]
fn what_is_cancelled_elsewhere_is_taken_back_when_its_step_has_stopped() {
    let (one, two, between) = pair(600);
    between.deafen();
    let made = task(one.address(), "hang", json!({}));
    one.until("hangs", 1);
    let cancelled = modern(two.address, "tasks/cancel", &made, json!({ "taskId": made })).last();
    assert!(cancelled["result"].is_object(), "{cancelled}");
    one.until("unhung", 1);
    assert_eq!(one.effects(), ["hangs", "let go", "unhung"]);
    assert!(between.unheard() > 0, "nothing was said, so nothing was tried");
}

/// Its step goes on where it was when it wakes up. What it writes then does not count, and it begins anew.
#[test]
fn who_stood_still_in_a_step_for_longer_than_its_lease_changes_nothing() {
    let (one, two, _) = pair(2);
    let made = task(one.address(), "work", json!({ "number": 6 }));
    one.until("second", 1);
    one.stop();
    one.until("second", 2);
    one.go_on();
    // For both.
    one.open("second");
    let done = until(two.address, &made, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "6");
    // It is there for others again.
    let next = task(one.address(), "short", json!({ "number": 1 }));
    until(one.address(), &next, "completed");
    assert_eq!([one.count("first"), one.count("second"), one.count("last")], [1, 2, 1]);
}

/// It was made again elsewhere, and answered.
#[test]
fn a_copy_of_a_request_that_could_not_get_to_the_database_does_nothing() {
    let (one, two, between) = pair(600);
    let client = Client::connect(two.address, "2025-11-25");
    let number = json!({ "number": 5 });
    // How many tasks there are is counted once, and known then.
    client.call(one.address(), json!(0), "short", number.clone()).last();
    between.hold(true);
    let copy = client.call_ahead(one.address(), json!(1), "short", number.clone());
    between.until_held(&client.session);
    let done = client.call(two.address, json!(1), "short", number).last();
    assert_eq!(text(&done), "5");
    between.hold(false);
    assert_eq!(text(&copy().last()), "5");
    assert_eq!(one.count("short"), 2, "that before, and one of these two");
}

/// Streams that were open when the database was away go on when it is back, however little their clients
/// noticed: what is asked and what changes after that is heard.
#[test]
fn who_was_cut_off_goes_on_with_its_streams() {
    let (one, two, between) = pair(600);
    let client = Client::connect(one.address(), "2025-11-25");
    let made = task(two.address, "work", json!({ "number": 8 }));
    let wanted = json!({ "taskIds": [made], "resourceSubscriptions": ["test://board"] });
    let params = json!({ "notifications": wanted });
    let mut listening = modern(one.address(), "subscriptions/listen", "", params);
    assert_eq!(listening.message().unwrap().1["params"]["notifications"], wanted);
    let params = json!({ "name": "approve", "arguments": {}, "task": {} });
    let mine = client.request(two.address, json!(1), "tools/call", params).last();
    let mine = json!({ "taskId": mine["result"]["task"]["taskId"] });
    let mut own = client.listen(one.address());
    between.cut(true);
    // Others do something meanwhile, of which it hears nothing.
    task(two.address, "publish", json!({}));
    one.open("second");
    until(two.address, &made, "completed");
    thread::sleep(Duration::from_millis(500));
    between.cut(false);
    let (mut updates, mut completed) = (0, false);
    while updates == 0 || !completed {
        let (_, message) = listening.message().expect("a message");
        updates += u32::from(message["method"] == "notifications/resources/updated");
        completed |= message["params"]["status"] == "completed";
    }
    // Now its client is to be asked on its own stream.
    client.request(one.address(), json!(2), "tasks/get", mine.clone()).last();
    let question = loop {
        let (_, message) = own.message().expect("a question");
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    client.say(two.address, &json!({ "jsonrpc": "2.0", "id": question["id"], "result": yes }));
    let done = client.request(two.address, json!(3), "tasks/result", mine).last();
    assert_eq!(text(&done), "done");
}
