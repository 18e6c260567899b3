use std::{path::Path, sync::Arc, time::Duration};
use durare::{DurableContext, DurableEngine, SqliteProvider, WorkflowOptions};
use sqlx::sqlite::*;
use crate::{Result, load::Load};
fn env(k: &str, d: u64) -> u64 { std::env::var(k).ok().and_then(|v| v.parse().ok()).unwrap_or(d) }
pub(crate) async fn tasks_per_s(path: &Path, load: Load) -> Result<f64> {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true).foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal).synchronous(if env("FULL",0)==1 {SqliteSynchronous::Full} else {SqliteSynchronous::Normal}).busy_timeout(Duration::from_secs(5));
    let pool = SqlitePoolOptions::new().max_connections(env("CONN", 5) as u32).connect_with(options).await?;
    let mut builder = DurableEngine::builder(Arc::new(SqliteProvider::from_pool(pool)));
    builder.register("three", |ctx: DurableContext, mut v: String| async move {
        for _ in 0..3 { v = ctx.step("step", || async move { Ok(v) }).await?; }
        Ok(v)
    });
    let engine = Arc::new(builder.build().await?);
    let callers = engine.clone();
    let rate = load.tasks_per_s(move |n| {
        let engine = callers.clone();
        async move {
            let h = engine.start::<_, String>("three", "1", WorkflowOptions::with_id(format!("task-{n}"))).await?;
            h.await?;
            Ok(())
        }
    }).await?;
    engine.shutdown(Duration::from_secs(5)).await?;
    Ok(rate)
}
