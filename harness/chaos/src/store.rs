//! What is in the store when all is over.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use steadfast::{
    engine::{Compensation, Engine, Order, Tasks},
    prelude::{ListTasks, TaskInfo},
    store::Store,
};
use steadfast_core::Event;

use crate::{Error, world::World};

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) info: TaskInfo,
    /// How often the end of each step is in its history.
    pub(crate) recorded: BTreeMap<String, u32>,
    /// When it first was, in milliseconds.
    pub(crate) recorded_at: BTreeMap<String, i64>,
    /// It does not know whether its step that runs at most once did.
    pub(crate) unsure: bool,
    /// Its history, a line each.
    pub(crate) history: Vec<String>,
}

impl Task {
    /// Whether this answer is right about the step that runs at most once.
    pub(crate) fn says(&self, answer: &str) -> bool {
        answer.ends_with(if self.unsure { " unsure" } else { " sure" })
    }
}

/// Waits until every task has ended and taken back what it has to, and reads them all, by the number of
/// their call. What has not ended by then is there as it is.
pub(crate) async fn settled(world: &World) -> Result<BTreeMap<u64, Vec<Task>>, Error> {
    let store: Arc<dyn Store> = match world.database_options() {
        Some(options) => Arc::new(options.open().await?),
        None => steadfast::sqlite(world.store())?,
    };
    // It has no tools, so it looks on.
    let engine = Engine::builder(store).start();
    let tasks = engine.operator();
    let begun = Instant::now();
    let all = loop {
        let all = list(&tasks).await?;
        if all.iter().all(is_over) || begun.elapsed() > world.patience() {
            break all;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    let mut by_number: BTreeMap<u64, Vec<Task>> = BTreeMap::new();
    for info in all {
        let (number, task) = read(&tasks, info).await?;
        by_number.entry(number).or_default().push(task);
    }
    engine.shutdown(Duration::from_secs(1)).await;
    Ok(by_number)
}

fn is_over(info: &TaskInfo) -> bool {
    info.status.is_terminal() && !matches!(info.compensation, Some(Compensation::Running { .. }))
}

async fn list(tasks: &Tasks) -> Result<Vec<TaskInfo>, Error> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let order = Order::OldestFirst;
        let page = tasks.list(ListTasks { cursor, order, limit: 1_000, ..ListTasks::default() });
        let page = page.await?;
        // A client's word that it takes a request back which has not come is no call.
        all.extend(page.tasks.into_iter().filter(|info| info.tool != "request:cancelled"));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(all);
        }
    }
}

async fn read(tasks: &Tasks, info: TaskInfo) -> Result<(u64, Task), Error> {
    // Longer than any history here.
    let history = tasks.history(&info.id, Order::OldestFirst, None, 1_000).await?;
    let mut task = Task {
        info,
        recorded: BTreeMap::new(),
        recorded_at: BTreeMap::new(),
        unsure: false,
        history: Vec::new(),
    };
    let mut number = 0;
    for entry in history.entries {
        match &entry.event {
            Event::Started { input, .. } => {
                let input: Value = input.read().unwrap_or_default();
                number = number_of(&input).or(number_of(&input["values"])).unwrap_or_default();
            }
            Event::StepCompleted { name, .. } | Event::StepFailed { name, .. } => {
                *task.recorded.entry(name.clone()).or_default() += 1;
                task.recorded_at.entry(name.clone()).or_insert(entry.at.0);
                task.unsure |= matches!(entry.event, Event::StepFailed { .. });
            }
            _ => {}
        }
        task.history.push(format!("{:?} {:?}", entry.at, entry.event));
    }
    Ok((number, task))
}

/// The number of a call. Prompts and resources have it as a text.
fn number_of(input: &Value) -> Option<u64> {
    let number = &input["number"];
    number.as_u64().or_else(|| number.as_str()?.parse().ok())
}
