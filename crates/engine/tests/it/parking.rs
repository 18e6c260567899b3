//! Waiting is free: a task with nothing but waits leaves memory.

use std::time::Duration;

use steadfast_engine::{
    ActivityContext, Context, Error, Result, Retry, Scope, Settings, Status, Tool,
};

use crate::support::{HOUR, Ledger, Place, counted, settings, tool};

async fn waits(ledger: Ledger, ctx: Context, what: String) -> Result<()> {
    ledger.add("polled from the top");
    match what.as_str() {
        "sleep" => ctx.sleep(HOUR).await,
        "event" => ctx.event("never").await?,
        "ask" => {
            ctx.ask::<u32>("?").await?;
        }
        "child" => ctx.child("t", "event").await?,
        "activity" => ctx.activity("later", &()).await?,
        "state" => {
            let some = |value: Option<&u32>| value.is_some();
            ctx.state(Scope::Task).wait_until("n", some).await?;
        }
        "retry" => {
            let step = ctx.step("fails", || async { Err::<(), _>(Error::new("no")) });
            step.retry(Retry::forever().first_delay(HOUR)).await?;
        }
        _ => {
            let (_, _) = steadfast_engine::join(ctx.sleep(HOUR), ctx.event::<()>("never")).await;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_wait_leaves_memory() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| {
        builder.tool(tool("t", &ledger, waits)).activity("later", |a: ActivityContext, (): ()| {
            a.complete_later();
            async { Ok(()) }
        })
    });
    for what in ["sleep", "event", "ask", "child", "activity", "state", "retry", "both"] {
        let id = life.begin("t", what).await;
        crate::support::within(life.parked(&id)).await;
        assert!(!life.get(&id).await.status.is_terminal(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_task_frees_its_place() {
    let place = Place::new();
    let ledger = Ledger::default();
    let settings = Settings { max_running: 1, ..settings() };
    let life = place.start_with(settings, |builder| builder.tool(tool("t", &ledger, waits)));
    for _ in 0..10 {
        let id = life.begin("t", "event").await;
        life.until(&id, Status::Waiting).await;
    }
    assert_eq!(life.tasks().counts().await.unwrap()[&Status::Waiting], 10);
}

#[tokio::test(start_paused = true)]
async fn a_task_with_a_step_in_flight_stays() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
            let ledger = noted.clone();
            async move {
                let long = ctx.step("long", || async {
                    tokio::time::sleep(HOUR).await;
                    Ok::<_, Error>(ledger.add("long"))
                });
                steadfast_engine::join(long, ctx.sleep(Duration::from_secs(60))).await.0
            }
        }))
    });
    life.run("t", ()).await;
    assert_eq!(ledger.count("long"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_stays_in_memory() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
            noted.add("polled from the top");
            let ledger = noted.clone();
            async move {
                for _ in 0..10 {
                    ctx.sleep(Duration::from_millis(20)).await;
                    counted(&ctx, &ledger, "tick").await?;
                }
                Ok(())
            }
        }))
    });
    life.run("t", ()).await;
    assert_eq!((ledger.count("tick"), ledger.count("polled from the top")), (10, 1));
}
