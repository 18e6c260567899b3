//! Duroxide on its SQLite provider.

use std::{sync::Arc, time::Duration};

use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    providers::{Provider, sqlite::SqliteProvider},
    runtime::{Runtime, RuntimeOptions, registry::ActivityRegistry},
};

use crate::{
    Result,
    load::{End, Load},
};

/// How often a caller looks whether its task has ended.
///
/// The client's own wait looks every 100 ms, and each look reads the whole history over one of the
/// provider's five connections. A task takes seconds at this load, so to look every half second
/// costs little.
const LOOK: Duration = Duration::from_millis(500);

/// Far above what a task takes: an engine that hangs is an error, not a slow figure.
const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> RuntimeOptions {
    RuntimeOptions {
        // A dispatcher that finds nothing sleeps this long, 100 ms as shipped. The queues are
        // seldom empty at this load, so it matters little.
        dispatcher_min_poll_interval: Duration::from_millis(10),
        // Two of each, as shipped. The provider reads before it writes in one deferred
        // transaction, so two writers at a time make one fail with `SQLITE_BUSY_SNAPSHOT` and
        // back off for 200 ms or more. One of each idles during a backoff; with eight or more the
        // conflicts grow until the engine gives up whole tasks.
        orchestration_concurrency: 2,
        worker_concurrency: 2,
        ..RuntimeOptions::default()
    }
}

pub(crate) async fn tasks_per_s(url: &str, load: Load) -> Result<f64> {
    // It takes no options of SQLite. It asks for `synchronous = WAL`, which is no level that SQLite
    // knows, and so runs with `NORMAL`.
    let store = Arc::new(SqliteProvider::new(url, None).await?);
    drive(store, options(), LOOK, load).await
}

/// Puts the load on a runtime over a store; each caller looks in intervals whether its task ended.
pub(crate) async fn drive(
    store: Arc<dyn Provider>,
    options: RuntimeOptions,
    look: Duration,
    load: Load,
) -> Result<f64> {
    let activities = ActivityRegistry::builder()
        .register("step", |_: ActivityContext, value: String| async move { Ok(value) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("three", |ctx: OrchestrationContext, mut value: String| async move {
            for _ in 0..3 {
                value = ctx.schedule_activity("step", value).await?;
            }
            Ok(value)
        })
        .build();
    let runtime =
        Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;

    let client = Client::new(store);
    let rate = load
        .tasks_per_s(move |name| {
            let client = client.clone();
            async move {
                client.start_orchestration(&name, "three", "1").await?;
                tokio::time::timeout(PATIENCE, end(&client, &name, look)).await?
            }
        })
        .await?;
    runtime.shutdown(None).await;
    Ok(rate)
}

async fn end(client: &Client, name: &str, look: Duration) -> Result<End> {
    loop {
        tokio::time::sleep(look).await;
        match client.get_orchestration_status(name).await? {
            OrchestrationStatus::Completed { .. } => return Ok(End::Completed),
            OrchestrationStatus::Failed { .. } => return Ok(End::Failed),
            OrchestrationStatus::Running { .. } | OrchestrationStatus::NotFound => {}
        }
    }
}
