//! Duroxide on its provider for PostgreSQL.

use std::{sync::Arc, time::Duration};

use duroxide::runtime::RuntimeOptions;
use duroxide_pg::PostgresProvider;

use crate::{Result, duroxide::drive, load::Load, postgres::Place};

/// How often a caller looks whether its task has ended: a task takes seconds at this load.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) async fn tasks_per_s(place: Place<'_>, load: Load) -> Result<f64> {
    let store = PostgresProvider::new_with_schema(place.url, Some(place.schema)).await?;
    let options = RuntimeOptions {
        // As on SQLite; two of each is what it ships with, and with 8 or 16 it does no more here.
        dispatcher_min_poll_interval: Duration::from_millis(10),
        orchestration_concurrency: 2,
        worker_concurrency: 2,
        ..RuntimeOptions::default()
    };
    drive(Arc::new(store), options, LOOK, load).await
}
