//! Durable MCP servers: tools are async functions that survive crashes, deploys and week-long waits.
//!
//! A call of a tool is a task. Each step's result is recorded in one SQLite file, or in PostgreSQL; after a crash the
//! function goes on from the last recorded step.
//!
//! ```
//! use std::time::Duration;
//! use steadfast::prelude::*;
//!
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct Order { item: String, amount: f64 }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Approval { approved: bool }
//!
//! async fn charge(order: &Order, key: &str) -> Result<String> {
//!     Ok(format!("{key}: {} for {}", order.item, order.amount))
//! }
//!
//! /// Submit a purchase order. Orders over $1,000 need approval.
//! #[tool]
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
//! let server = Server::new("orders")
//!     .tool(purchase_order)
//!     .start(Engine::builder(steadfast::sqlite(path)?))?;
//! // `server.serve_stdio()` and `server.router()` are for clients. From Rust:
//! let tasks = server.engine().tasks(Principal::new("ada")?);
//! let order = Order { item: "lamp".into(), amount: 40.0 };
//! let task = tasks.start("purchase_order", &order).await?;
//! let ended = tasks.wait(&task.id).await?;
//! assert_eq!(ended.status, Status::Completed);
//! server.shutdown(Duration::from_secs(5)).await;
//! # Ok(()) }
//! ```
//!
//! * [`tool`](prelude::tool), [`prompt`](prelude::prompt) and [`resource`](prelude::resource) make of
//!   functions what a [`Server`](prelude::Server) offers.
//! * [`Context`](prelude::Context) is what a durable tool can do: steps, sleeps, events, questions,
//!   children, activities, durable state; and transactions, which record a step together with rows of your
//!   own: [`in_sqlite`](prelude::in_sqlite), [`in_postgres`](prelude::in_postgres).
//! * [`Tasks`](prelude::Tasks) is how tasks are started, watched and steered from Rust.
//! * [`Engine`](prelude::Engine) runs them on a store: [`sqlite()`](fn@sqlite), [`postgres`], or [`memory`] for tests. It needs no
//!   server: [`engine`] has a `Context` and a `Tool` of its own.
//! * `testing`, with the feature of that name, is a kit for tests of servers: up, down, kill, a client,
//!   effects that are counted, virtual time.

mod flags;
mod keys;
mod place;
mod run;

use std::{path::Path, sync::Arc};

pub use flags::Flags;
pub use run::Run;

pub use steadfast_engine as engine;
pub use steadfast_mcp as mcp;
pub use steadfast_postgres as postgres;
pub use steadfast_sqlite as sqlite;
pub use steadfast_sqlite::{Durability, OpenError, Options};
pub use steadfast_store as store;
#[cfg(feature = "testing")]
pub use steadfast_testing as testing;

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

/// What a server with durable tools needs: `use steadfast::prelude::*;`
///
/// [`Context`](prelude::Context) and [`Tool`](prelude::Tool) are those of a server; the engine's own,
/// for tasks without a client, are in [`engine`].
pub mod prelude {
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use steadfast_engine::{
        Action, ActivityContext, Answer, Attempt, CallError, Either, Engine, Error, Event,
        FailureKind, Json, ListTasks, OpenQuestion, Order as SortOrder, Principal, Reply,
        RerunFrom, Result, Retry, Scope, Status, TaskId, TaskInfo, Tasks, Timestamp, Ttl, join,
        join_all, race, race_all,
    };
    pub use steadfast_macros::{prompt, resource, tool};
    pub use steadfast_postgres::in_postgres;
    pub use steadfast_sqlite::in_sqlite;

    pub use crate::{Flags, Run};
    pub use steadfast_mcp::{
        Annotations, AnswerProgress, Auth, Bearer, CallResult, Caller, Completing, Content,
        Contents, Context, CredentialKey, Icon, Identity, NoInput, OfCall, Output, Prompt,
        PromptMessage, PromptOutput, PromptResult, Resource, ResourceOutput, Role, RootsWatch,
        Running, Sample, SampleMessage, SampleReply, Secret, Server, Structured, TaskSupport,
        Template, Tool, ToolAnnotations, UrlReply, protocol_error,
    };
}

/// For the code that the attributes write.
#[doc(hidden)]
pub mod __private {
    pub use schemars;
    pub use serde;
    pub use steadfast_engine::Ttl;
    pub use steadfast_mcp::{
        Icon, NoInput, Prompt, Resource, TaskSupport, Template, Tool, ToolAnnotations,
        macros::{is_object, result, value},
    };

    /// What a template finds in a URI.
    pub type Values = std::collections::BTreeMap<String, String>;
}
