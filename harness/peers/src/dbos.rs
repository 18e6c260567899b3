//! DBOS on PostgreSQL.

use dbos::{Config, DBOS, RunOptions};

use crate::{
    Result,
    load::{End, Load},
    postgres::Place,
};

pub(crate) async fn tasks_per_s(place: Place<'_>, load: Load) -> Result<f64> {
    let dbos = DBOS::new(Config {
        schema: place.schema.into(),
        app_version: Some("1".into()),
        // As many as it has by default; with 24 or 64 it does no more here.
        max_connections: 10,
        // Workflows are run where they are started: no queue need be looked at.
        listen_queues: Some(Vec::new()),
        ..Config::new("peers", place.url)
    });
    let three = dbos.register_workflow("three", three)?;
    dbos.launch().await?;

    let rate = load
        .tasks_per_s(move |name| {
            let three = three.clone();
            async move {
                let options = RunOptions { workflow_id: Some(&name), ..RunOptions::default() };
                three.run_with("1".into(), options).await?;
                Ok(End::Completed)
            }
        })
        .await?;
    dbos.shutdown().await;
    Ok(rate)
}

async fn three(mut value: String) -> dbos::Result<String> {
    for _ in 0..3 {
        value = dbos::step("step", || async { Ok(value.clone()) }).await?;
    }
    Ok(value)
}
