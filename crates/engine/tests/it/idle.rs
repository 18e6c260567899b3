//! An engine with nothing to do does nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use steadfast_engine::{
    ActivityContext, Builder, Context, Engine, Error, Result, Retry, Simulated, Status, Timestamp,
    World,
};

use crate::support::{HOUR, Place, ada, settings, tool, within};

/// A world that counts how often it is asked for the time: every loop of the engine asks when it
/// wakes up.
struct Counting(Simulated, Arc<AtomicU64>);

impl World for Counting {
    fn now(&self) -> Timestamp {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.now()
    }

    fn random(&self) -> u128 {
        self.0.random()
    }
}

fn watched(place: &Place, tools: impl FnOnce(Builder) -> Builder) -> (Engine, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let world = Simulated::new(Timestamp(1_800_000_000_000), 77);
    let builder = Engine::builder(Arc::new(place.disk.open())).settings(settings());
    (tools(builder.world(Counting(world, asked.clone()))).start(), asked)
}

async fn at_rest(asked: &AtomicU64) {
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = asked.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let wakes = asked.load(Ordering::Relaxed) - before;
    assert!(wakes < 20 * 60, "{wakes} in a minute");
}

async fn waits(_: (), ctx: Context, (): ()) -> Result<()> {
    ctx.sleep(HOUR * 24).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_wake_nobody_up() {
    let place = Place::new();
    let (engine, asked) = watched(&place, |builder| builder.tool(tool("t", &(), waits)));
    for _ in 0..100 {
        engine.tasks(ada()).start("t", &()).await.unwrap();
    }
    at_rest(&asked).await;
}

async fn calls(_: (), ctx: Context, (): ()) -> Result<()> {
    let retry = Retry::forever().first_delay(Duration::from_secs(5));
    ctx.activity("work", &()).retry(retry).await
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_is_due_and_that_nobody_can_run_wakes_nobody_up() {
    let place = Place::new();
    let (engine, asked) = watched(&place, |builder| builder.tool(tool("t", &(), calls)));
    let worker = place.start(|builder| {
        builder.activity("work", |_: ActivityContext, (): ()| async {
            Err::<(), _>(Error::new("not yet"))
        })
    });
    let tasks = engine.tasks(ada());
    let id = tasks.start("t", &()).await.unwrap().id;
    within(tasks.wait_for(&id, |task| task.status == Status::Retrying)).await.unwrap();
    worker.kill().await;
    at_rest(&asked).await;
}
