//! Durable tasks: async functions that survive crashes, deploys and week-long waits.
//!
//! A task is an ordinary async function. Each step's result is recorded in one SQLite file; after a
//! crash the function goes on from the last recorded step.
//!
//! ```
//! use std::time::Duration;
//! use steadfast::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order { item: String, amount: f64 }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Approval { approved: bool }
//!
//! async fn charge(order: &Order, key: &str) -> Result<String> {
//!     Ok(format!("{key}: {} for {}", order.item, order.amount))
//! }
//!
//! async fn purchase_order(ctx: Context, order: Order) -> Result<String> {
//!     if order.amount > 1000.0 {
//!         let reply = ctx.ask::<Approval>(format!("Approve {}?", order.item)).await?;
//!         if !reply.accepted().is_some_and(|answer| answer.approved) {
//!             return Ok("rejected".into());
//!         }
//!     }
//!     let order = &order;
//!     ctx.step("charge the card", |attempt: Attempt| async move { charge(order, attempt.key()).await })
//!         .at_most_once()
//!         .await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("orders.db");
//! let engine = Engine::builder(steadfast::sqlite(path)?)
//!     .tool(Tool::new("purchase_order", purchase_order))
//!     .start();
//! let tasks = engine.tasks(Principal::new("ada")?);
//! let order = Order { item: "lamp".into(), amount: 40.0 };
//! let task = tasks.start("purchase_order", &order).await?;
//! let ended = tasks.wait(&task.id).await?;
//! assert_eq!(ended.status, Status::Completed);
//! engine.shutdown(Duration::from_secs(5)).await;
//! # Ok(()) }
//! ```
//!
//! * [`Context`](prelude::Context) is what a task can do: steps, sleeps, events, questions, children,
//!   activities, durable state.
//! * [`Tasks`](prelude::Tasks) is how tasks are started, watched and steered.
//! * [`Engine`](prelude::Engine) runs them on a store: [`sqlite`], or [`memory`] for tests.

mod flags;
mod run;

use std::{path::Path, sync::Arc};

pub use flags::Flags;
pub use run::Run;

pub use steadfast_engine as engine;
pub use steadfast_sqlite::{Durability, OpenError, Options};
pub use steadfast_store as store;

/// Opens (or creates) a SQLite file as a store that survives a power cut. Several processes on one
/// machine may share the file.
pub fn sqlite(path: impl AsRef<Path>) -> Result<Arc<dyn store::Store>, OpenError> {
    Ok(Arc::new(Options::new(path.as_ref()).open()?))
}

/// A store in memory: for tests, and for tasks that may die with the process.
#[must_use]
pub fn memory() -> Arc<dyn store::Store> {
    Arc::new(store::Disk::new().open())
}

/// What a program with durable tasks needs: `use steadfast::prelude::*;`
pub mod prelude {
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use steadfast_engine::{
        Action, ActivityContext, Answer, Attempt, CallError, Context, Either, Engine, Error, Event,
        FailureKind, Json, ListTasks, OpenQuestion, Order as SortOrder, Principal, Reply,
        RerunFrom, Result, Retry, Scope, Settings, Status, TaskId, TaskInfo, Tasks, Timestamp,
        Tool, Ttl, join, join_all, race, race_all,
    };
}
