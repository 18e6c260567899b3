//! A server whose clock jumps.

use std::time::Duration;

use serde_json::json;
use steadfast::{
    mcp::Server,
    testing::{
        Effects, TestServer,
        client::{Answer, Revision},
        text, until, within,
    },
};
use tokio::time::Instant;

use crate::tools::make;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test(start_paused = true)]
async fn a_week_passes_by_itself_also_over_a_kill() {
    let mut server = TestServer::in_virtual_time(make(&Effects::new()));
    server.up().await;
    let begun = Instant::now();
    let task = server.start("week", &()).await;
    tokio::time::sleep(3 * DAY).await;
    server.kill_and_restart().await;
    assert_eq!(text(&server.wait(&task).await), "a week later");
    let took = begun.elapsed();
    assert!(7 * DAY <= took && took < 7 * DAY + Duration::from_secs(60), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_for_a_week_is_gone_after_it() {
    let mut server = TestServer::in_virtual_time(make(&Effects::new()));
    server.up().await;
    let task = server.start("work", &()).await;
    server.wait(&task).await;
    tokio::time::sleep(6 * DAY).await;
    assert!(server.tasks().get(&task).await.is_ok());
    tokio::time::sleep(2 * DAY).await;
    assert!(server.tasks().get(&task).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn two_runs_are_the_same() {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut server = TestServer::in_virtual_time(make(&Effects::new()));
        server.up().await;
        ids.push(server.start("work", &()).await);
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test(start_paused = true)]
async fn a_client_over_a_pipe_waits_for_a_week_and_is_asked() {
    let mut server = TestServer::in_virtual_time(make(&Effects::new()));
    server.up().await;
    for revision in Revision::ALL {
        let pipe = server.pipe(revision).await;
        let mut pipe = pipe.on_question(|question| {
            assert_eq!(question["message"], "May it be done?");
            Answer::Accept(json!({ "approved": true }))
        });
        let result = pipe.call("week", json!({})).await;
        assert_eq!(result["content"][0]["text"], "a week later", "{revision}");
        // Questions came later than 2025-03-26.
        if revision > Revision::V2025_03_26 {
            let result = pipe.call("approve", json!({})).await;
            assert_eq!(result["content"][0]["text"], "yes to anonymous", "{revision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pipe_keeps_what_it_hears() {
    let mut server = TestServer::in_virtual_time(make(&Effects::new()));
    server.up().await;
    let mut pipe = server.pipe(Revision::V2025_11_25).await;
    let params = json!({ "name": "week", "arguments": {}, "_meta": { "progressToken": "p" } });
    pipe.request("tools/call", params).await.unwrap();
    assert_eq!(pipe.heard()[0]["params"]["message"], "on it");
    assert!(pipe.request("nothing/known", json!({})).await.is_err());
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the pipe")]
async fn a_pipe_breaks_with_its_server() {
    let mut server = TestServer::in_virtual_time(make(&Effects::new()));
    server.up().await;
    let mut pipe = server.pipe(Revision::V2025_11_25).await;
    server.kill_and_restart().await;
    pipe.call("work", json!({})).await;
}

#[tokio::test]
#[should_panic(expected = "start_paused = true")]
async fn a_clock_that_runs_is_refused() {
    TestServer::in_virtual_time(|| Server::new("kit")).up().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the store in memory")]
async fn so_is_sqlite() {
    drop(TestServer::in_virtual_time(|| Server::new("kit")).on_sqlite());
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "days for pigs to fly")]
async fn a_hang_is_a_panic_that_says_what_was_waited_for() {
    until("pigs to fly", || false).await;
}

#[tokio::test(start_paused = true)]
async fn so_is_what_takes_too_long_with_the_line_that_waits() {
    let line = line!() + 1;
    let wait = async { within(3 * DAY, "nothing", std::future::pending::<()>()).await };
    let panic = tokio::spawn(wait).await.unwrap_err().into_panic();
    let said = panic.downcast_ref::<String>().unwrap();
    assert!(said.contains(&format!("virtual_time.rs:{line}:")), "{said}");
    assert!(said.ends_with(": waited 3 days for nothing"), "{said}");
}
