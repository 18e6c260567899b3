//! To copy: a tool with steps is killed, and its effects are counted exactly.

use std::sync::Arc;

use steadfast::{
    prelude::*,
    testing::{Effects, TestServer, text},
};

/// The world outside, which outlives the server: it counts, and can be slow.
#[derive(Clone)]
struct Shop {
    effects: Effects,
    /// What never comes back, the first time.
    hangs_at: &'static str,
}

impl Shop {
    async fn does(&self, what: &str) -> Result<()> {
        if self.effects.add(what) == 1 && what == self.hangs_at {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// What is tested.
#[tool]
async fn order(ctx: Context, item: String) -> Result<String> {
    // A server's outside is attached to its engine, so that a test can put another in its place.
    let shop: Arc<Shop> = ctx.attached().ok_or_else(|| Error::new("there is no shop"))?;
    ctx.step("reserve", || shop.does("reserve")).await?;
    ctx.event::<()>("paid").await?;
    let charged = ctx.step("charge", || shop.does("charge")).at_most_once().await;
    match charged {
        // It may have happened, and must not happen twice: somebody looks.
        Err(error) if error.is_unfinished() => ctx.step("look", || shop.does("look")).await?,
        charged => charged?,
    }
    ctx.step("ship", || shop.does("ship")).await?;
    Ok(format!("{item} is on its way"))
}

/// The server of each life, all with the same shop.
fn server(effects: &Effects, hangs_at: &'static str) -> TestServer {
    let shop = Shop { effects: effects.clone(), hangs_at };
    TestServer::new(move || {
        let shop = shop.clone();
        Server::new("orders").tool(order).engine(|engine| engine.attach(shop))
    })
}

#[tokio::test]
async fn killed_between_two_steps_each_is_done_once() {
    let effects = Effects::new();
    let mut server = server(&effects, "nothing");
    server.up().await;
    let task = server.start("order", &serde_json::json!({ "item": "lamp" })).await;
    // The task waits for the event, or is about to: the step before it is recorded with that.
    let waits = |info: &TaskInfo| info.status == Status::Waiting;
    server.tasks().wait_for(&task, waits).await.unwrap();

    server.kill().await;
    effects.assert_exactly([("reserve", 1)]);
    server.up().await;

    server.tasks().signal(&task, Event::new("paid", &())).await.unwrap();
    assert_eq!(text(&server.wait(&task).await), "lamp is on its way");
    effects.assert_exactly([("reserve", 1), ("charge", 1), ("ship", 1)]);
}

#[tokio::test]
async fn killed_in_a_step_it_is_done_again_unless_it_is_at_most_once() {
    for (killed_in, counts) in [
        ("reserve", [("reserve", 2), ("charge", 1), ("look", 0), ("ship", 1)]),
        ("charge", [("reserve", 1), ("charge", 1), ("look", 1), ("ship", 1)]),
        ("ship", [("reserve", 1), ("charge", 1), ("look", 0), ("ship", 2)]),
    ] {
        let effects = Effects::new();
        // On SQLite here, for a change.
        let mut server = server(&effects, killed_in).on_sqlite();
        server.up().await;
        let task = server.start("order", &serde_json::json!({ "item": "lamp" })).await;
        server.tasks().signal(&task, Event::new("paid", &())).await.unwrap();
        effects.wait_for(killed_in, 1).await;

        server.kill_and_restart().await;

        assert_eq!(text(&server.wait(&task).await), "lamp is on its way");
        effects.assert_exactly(counts);
    }
}
