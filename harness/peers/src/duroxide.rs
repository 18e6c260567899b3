use std::{path::Path, sync::Arc, time::Duration};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    providers::sqlite::SqliteProvider, runtime::{Runtime, RuntimeOptions, registry::ActivityRegistry}};
use crate::{Result, load::Load};
fn env(k: &str, d: u64) -> u64 { std::env::var(k).ok().and_then(|v| v.parse().ok()).unwrap_or(d) }
pub(crate) async fn tasks_per_s(path: &Path, load: Load) -> Result<f64> {
    let extra = std::env::var("URL").unwrap_or_default();
    let url = format!("sqlite://{}?mode=rwc{extra}", path.display());
    let store = Arc::new(SqliteProvider::new(&url, None).await?);
    let activities = ActivityRegistry::builder()
        .register("step", |_: ActivityContext, i: String| async move { Ok(i) }).build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("three", |ctx: OrchestrationContext, mut v: String| async move {
            for _ in 0..3 { v = ctx.schedule_activity("step", v).await?; }
            Ok(v)
        }).build();
    let options = RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(env("POLL", 100)),
        orchestration_concurrency: env("OC", 2) as usize,
        worker_concurrency: env("WC", 2) as usize,
        worker_lock_timeout: Duration::from_secs(env("WL", 30)), max_attempts: 1000,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
    let client = Client::new(store);
    let wait = env("WAIT", 0);
    let rate = load.tasks_per_s(move |n| {
        let client = client.clone();
        async move {
            let id = format!("task-{n}");
            client.start_orchestration(&id, "three", "1").await?;
            if wait == 0 {
                client.wait_for_orchestration(&id, Duration::from_secs(60)).await?;
            } else {
                loop {
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                    if matches!(client.get_orchestration_status(&id).await?, OrchestrationStatus::Completed { .. }) { break }
                }
            }
            Ok(())
        }
    }).await?;
    runtime.shutdown(None).await;
    Ok(rate)
}
