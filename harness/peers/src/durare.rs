//! Durare on SQLite.

use std::{sync::Arc, time::Duration};

use durare::{DurableContext, DurableEngine, SqliteProvider, WorkflowOptions};

use crate::{
    Result,
    load::{End, Load},
};

pub(crate) async fn tasks_per_s(url: &str, load: Load) -> Result<f64> {
    // The pool as shipped, five connections with `synchronous=NORMAL`. One connection does less
    // than half of it; 8, 10 and 16 differ from five by no more than runs do among themselves.
    // A pool of one's own could run with `FULL`: about 60 percent of this.
    let provider = Arc::new(SqliteProvider::connect(url).await?);
    let mut builder = DurableEngine::builder(provider);
    builder.register("three", |ctx: DurableContext, mut value: String| async move {
        for _ in 0..3 {
            value = ctx.step("step", || async move { Ok(value) }).await?;
        }
        Ok(value)
    });
    // Not launched: that starts dispatchers of queues and schedules, which have nothing to do here
    // but to poll.
    let engine = Arc::new(builder.build().await?);

    let starter = engine.clone();
    let rate = load
        .tasks_per_s(move |name| {
            let engine = starter.clone();
            async move {
                // Started directly, not on a queue: a queue adds a poll and a write to each task.
                // The handle then awaits the running task itself and never polls.
                let options = WorkflowOptions::with_id(name);
                engine.start::<_, String>("three", "1", options).await?.await?;
                Ok(End::Completed)
            }
        })
        .await?;
    engine.shutdown(Duration::from_secs(5)).await?;
    Ok(rate)
}
