//! A server in the test.

use std::time::Duration;

use serde_json::json;
use steadfast::{
    mcp::Server,
    prelude::{Auth, Principal},
    testing::{
        Effects, TestServer,
        client::{Answer, Revision},
        soon, text,
    },
};

use crate::tools::make;

#[tokio::test]
async fn a_killed_server_leaves_nothing_behind_but_what_was_durable() {
    for sqlite in [false, true] {
        let effects = Effects::new();
        let mut server = TestServer::new(make(&effects));
        if sqlite {
            server = server.on_sqlite();
        }
        server.up().await;
        let (address, old) = (server.address(), server.tasks());
        let task = server.start("hang", &()).await;
        effects.wait_for("begun", 1).await;

        server.kill().await;
        effects.assert_exactly([("begun", 1), ("dropped", 1)]);
        assert!(old.get(&task).await.is_err(), "the dead can't read");
        assert!(old.cancel(&task, None).await.is_err(), "nor write");
        assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nor listen");

        // Although somebody still holds what is left of its last life.
        server.up().await;
        assert_eq!(server.address(), address);
        assert_eq!(text(&server.wait(&task).await), "done");
        effects.assert_exactly([("begun", 2), ("dropped", 2)]);
        assert!(old.get(&task).await.is_err());
    }
}

#[tokio::test]
async fn connections_break_with_a_kill_and_a_session_is_taken_up() {
    let effects = Effects::new();
    let mut server = TestServer::new(make(&effects));
    server.up().await;
    let client = server.connect().revision(Revision::V2025_11_25).await.unwrap();
    let plain = tokio::spawn(client.call("plain", json!({})).into_future());
    effects.wait_for("begun", 1).await;

    server.kill().await;
    effects.assert_exactly([("begun", 1), ("dropped", 1)]);
    assert!(soon("a call that nobody knows of", plain).await.unwrap().is_err());

    server.up().await;
    assert_eq!(client.call("work", json!({})).await.unwrap().text(), "done");
}

#[tokio::test]
async fn a_call_goes_on_over_a_kill() {
    let effects = Effects::new();
    let mut server = TestServer::new(make(&effects));
    server.up().await;
    let client = server.client().await;
    let call = client.call("hang", json!({})).idempotency_key("this one");
    let call = tokio::spawn(call.into_future());
    effects.wait_for("begun", 1).await;
    server.kill_and_restart().await;
    assert_eq!(soon("the call", call).await.unwrap().unwrap().text(), "done");
    effects.assert_exactly([("begun", 2), ("dropped", 2)]);
}

#[tokio::test]
async fn what_a_tool_spawned_dies_with_its_server() {
    let effects = Effects::new();
    let mut server = TestServer::new(make(&effects));
    server.up().await;
    let task = server.start("spawn", &()).await;
    assert_eq!(text(&server.wait(&task).await), "spawned");
    effects.assert_exactly([]);
    server.kill().await;
    effects.assert_exactly([("dropped", 1)]);
}

#[tokio::test]
async fn in_good_order_a_step_is_finished_first() {
    for sqlite in [false, true] {
        let effects = Effects::new();
        let mut server = TestServer::new(make(&effects));
        if sqlite {
            server = server.on_sqlite();
        }
        server.up().await;
        let task = server.start("work", &()).await;
        effects.wait_for("begun", 1).await;
        server.down().await;
        assert!(!server.is_up());
        effects.assert_exactly([("begun", 1), ("done", 1)]);
        server.restart().await;
        assert_eq!(text(&server.wait(&task).await), "done");
        effects.assert_exactly([("begun", 1), ("done", 1)]);
    }
}

#[tokio::test]
async fn what_is_left_of_the_time_to_drain_is_cut_off() {
    let effects = Effects::new();
    let mut server = TestServer::new(make(&effects)).drain(Duration::from_millis(20));
    server.up().await;
    let task = server.start("hang", &()).await;
    effects.wait_for("begun", 1).await;
    server.restart().await;
    assert_eq!(text(&server.wait(&task).await), "done");
}

#[tokio::test]
async fn a_client_has_a_token_and_its_tasks_are_found_by_its_name() {
    let make = make(&Effects::new());
    let mut server = TestServer::new(move || {
        let ada = ("the-secret-of-ada".to_owned(), Principal::new("ada").unwrap());
        make().auth(Auth::tokens([ada]))
    });
    server.up().await;
    assert!(server.connect().await.is_err());
    let client = server.connect().bearer("the-secret-of-ada").await.unwrap();
    let call = client.call("approve", json!({})).as_task();
    let asked = call.on_question(|_| async { Answer::Accept(json!({ "approved": true })) });
    assert_eq!(asked.await.unwrap().text(), "yes to ada");
    assert_eq!(server.tasks_of("ada").list(Default::default()).await.unwrap().tasks.len(), 1);
    assert_eq!(server.tasks().list(Default::default()).await.unwrap().tasks.len(), 0);
}

#[tokio::test]
async fn questions_are_answered_and_tasks_cancelled_from_rust() {
    let mut server = TestServer::new(make(&Effects::new()));
    server.up().await;
    let task = server.start("approve", &()).await;
    let question = server.asked(&task).await;
    server.decline(&task, &question).await;
    assert_eq!(text(&server.wait(&task).await), "no");
    let task = server.start("week", &()).await;
    server.cancel(&task).await;
    assert_eq!(server.get(&task).await.status, steadfast::engine::Status::Cancelled);
}

#[tokio::test]
#[should_panic(expected = "the server is up already")]
async fn up_twice_is_a_mistake() {
    let mut server = TestServer::new(|| Server::new("kit"));
    server.up().await;
    server.up().await;
}

#[tokio::test]
#[should_panic(expected = "the server is not up")]
async fn a_server_that_is_not_up_has_no_tasks() {
    drop(TestServer::new(|| Server::new("kit")).tasks());
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "over HTTP the clock must run")]
async fn http_on_a_paused_clock_is_refused() {
    TestServer::new(|| Server::new("kit")).up().await;
}
