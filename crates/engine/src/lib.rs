//! The engine of Steadfast: it runs tasks, and lets them wait.
//!
//! A task is an async function and its history. [`Engine`] takes tasks from a
//! [`Store`](steadfast_store::Store), polls their functions against their histories, and commits
//! what happens; [`Context`] is what a function can do; [`Tasks`] is how they are started, watched
//! and steered.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! use steadfast_engine::{Context, Engine, Principal, Result, Tool};
//!
//! async fn greet(ctx: Context, name: String) -> Result<String> {
//!     let shout = ctx.step("shout", || async { Ok::<_, std::io::Error>(name.to_uppercase()) }).await?;
//!     ctx.sleep(Duration::from_millis(10)).await;
//!     Ok(format!("HELLO {shout}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(steadfast_store::Disk::new().open());
//! let engine = Engine::builder(store).tool(Tool::new("greet", greet)).start();
//! let tasks = engine.tasks(Principal::new("ada")?);
//! let task = tasks.start("greet", "world").await?;
//! let ended = tasks.wait(&task.id).await?;
//! assert_eq!(ended.output.unwrap().text(), "\"HELLO WORLD\"");
//! # engine.shutdown(Duration::from_secs(1)).await;
//! # Ok(()) }
//! ```

mod blob;
mod context;
mod dispatch;
mod engine;
mod error;
mod finish;
pub mod limits;
mod panic;
mod registry;
mod runner;
mod settings;
mod tasks;
mod twice;
mod watch;
mod worker;
mod world;

pub use context::{
    ActivityCall, Attempt, Child, Context, Either, Join, JoinAll, Question, Race, RaceAll, Reply,
    Signal, Sleep, State, Step, StepFn, Transaction, join, join_all, race, race_all,
};
pub use engine::{Builder, Engine};
pub use error::{Error, Result};
pub use registry::Tool;
pub use settings::Settings;
pub use steadfast_core::{
    Action, Answer, Compensation, Failure, FailureKind, Json, Limits, Moment, OpId, Principal,
    Progress, Retry, Scope, Status, TaskId, Timestamp, Ttl,
};
pub use steadfast_store::{Bond, Keyed, Order};
pub use tasks::{
    CallError, Event, Follow, Heard, HistoryEntry, HistoryList, ListTasks, OpenQuestion, RerunFrom,
    Start, StartedTask, TaskInfo, TaskList, Tasks,
};
pub use watch::Said;
pub use worker::ActivityContext;
pub use world::{Simulated, System, World};
