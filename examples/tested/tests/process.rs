//! To copy: the program itself is killed with `kill -9` while a client waits for its call, and started
//! again. The client hears nothing of it but the result.

use serde_json::json;
use steadfast::testing::{Effects, TestProcess, client::Revision, soon};

#[tokio::test]
async fn a_plain_call_is_answered_over_a_kill_of_the_server() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let mut server = TestProcess::cargo_bin(env!("CARGO_BIN_EXE_orders"));
        let effects = Effects::file(server.dir().join("ledger"));
        server.up().await;
        let client = server.connect().revision(revision).await.unwrap();
        let progress = Effects::new();
        let heard = progress.clone();
        let mut call =
            client.call("order", json!({ "item": "lamp" })).on_progress(move |progress| {
                heard.add(&progress.message.unwrap());
            });
        if revision.is_stateless() {
            // Without a session there is no stream to take up: the call is made again, and known by this.
            call = call.idempotency_key("the one order");
        }
        let call = tokio::spawn(call.into_future());
        effects.wait_for("pack", 1).await;
        // What the client has heard something on is a stream that it can take up.
        progress.wait_for("reserved", 1).await;

        server.kill().await;
        assert!(!call.is_finished());
        std::fs::write(server.dir().join("packed"), "").unwrap();
        server.up().await;

        let result = soon("the call", call).await.unwrap().unwrap();
        assert_eq!(result.text(), "lamp is on its way", "{revision}");
        // It died in the middle of packing; all else happened once.
        effects.assert_exactly([("reserve", 1), ("pack", 2), ("charge", 1)]);
    }
}

#[tokio::test]
async fn a_deploy_does_not_disturb_the_client_either() {
    let orders = TestProcess::cargo_bin(env!("CARGO_BIN_EXE_orders"));
    // The warehouse is slower than any deploy.
    let mut server = orders.args(["--drain-seconds", "0"]);
    let effects = Effects::file(server.dir().join("ledger"));
    server.up().await;
    let client = server.client().await;
    let call = client.call("order", json!({ "item": "lamp" })).as_task();
    let call = tokio::spawn(call.into_future());
    effects.wait_for("pack", 1).await;

    server.restart().await;
    effects.wait_for("pack", 2).await;
    std::fs::write(server.dir().join("packed"), "").unwrap();

    let result = soon("the call", call).await.unwrap().unwrap();
    assert_eq!(result.text(), "lamp is on its way");
    effects.assert_exactly([("reserve", 1), ("pack", 2), ("charge", 1)]);
}
