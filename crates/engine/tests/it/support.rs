//! An engine on a store in memory, that can be killed and started again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use steadfast_engine::{
    Builder, Engine, Principal, Settings, Simulated, Status, TaskId, TaskInfo, Tasks, Timestamp,
};
use steadfast_store::{Disk, Memory, Store as _};

/// Counts effects outside the engine, so that they survive its death.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<String, u32>>>);

impl Ledger {
    pub(crate) fn add(&self, what: &str) -> u32 {
        let mut map = self.0.lock().unwrap();
        let count = map.entry(what.to_owned()).or_insert(0);
        *count += 1;
        *count
    }

    pub(crate) fn count(&self, what: &str) -> u32 {
        self.0.lock().unwrap().get(what).copied().unwrap_or(0)
    }
}

/// A disk, and a clock that goes on from one life of the process to the next.
pub(crate) struct Place {
    pub(crate) disk: Disk,
    begun: tokio::time::Instant,
    lives: AtomicU64,
}

/// One life of a process.
pub(crate) struct Life {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<Memory>,
}

pub(crate) fn ada() -> Principal {
    Principal::new("ada").unwrap()
}

/// Small numbers, so that tests see parking and limits.
pub(crate) fn settings() -> Settings {
    Settings { park_after: Duration::from_millis(50), ..Settings::default() }
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { disk: Disk::new(), begun: tokio::time::Instant::now(), lives: AtomicU64::new(0) }
    }

    /// Begins a life of a process with these tools.
    pub(crate) fn start(&self, tools: impl FnOnce(Builder) -> Builder) -> Life {
        self.start_with(settings(), tools)
    }

    pub(crate) fn start_with(
        &self,
        settings: Settings,
        tools: impl FnOnce(Builder) -> Builder,
    ) -> Life {
        let store = Arc::new(self.disk.open());
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        let epoch = Timestamp(1_800_000_000_000).plus(self.begun.elapsed());
        let world = Simulated::new(epoch, life);
        let builder = Engine::builder(store.clone()).settings(settings).world(world);
        Life { engine: tools(builder).start(), store }
    }
}

impl Life {
    pub(crate) fn tasks(&self) -> Tasks {
        self.engine.tasks(ada())
    }

    /// Dies: nothing it still does reaches the disk.
    pub(crate) async fn kill(self) {
        self.store.kill();
        let store = Arc::downgrade(&self.store);
        drop(self.engine);
        drop(self.store);
        // Its futures end at their next await, and must before the next life begins.
        while store.strong_count() > 0 {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Starts a task and waits for its end.
    pub(crate) async fn run(&self, tool: &str, input: impl serde::Serialize) -> TaskInfo {
        let started = self.tasks().start(tool, &input).await.unwrap();
        self.end(&started.id).await
    }

    pub(crate) async fn end(&self, id: &TaskId) -> TaskInfo {
        within(self.tasks().wait(id)).await.unwrap()
    }

    /// Waits until the task has this status.
    pub(crate) async fn until(&self, id: &TaskId, status: Status) -> TaskInfo {
        within(self.tasks().wait_for(id, |info| info.status == status)).await.unwrap()
    }

    /// Waits until the task has left memory.
    pub(crate) async fn parked(&self, id: &TaskId) {
        loop {
            let caller = steadfast_store::Caller { principal: None, now: Timestamp(0) };
            let row = self.store.get(caller, id.clone()).await.unwrap();
            if row.desk.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// In virtual time a hang shows as a jump of years; this makes it a failure.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let years = Duration::from_secs(10 * 365 * 24 * 3600);
    tokio::time::timeout(years, future).await.expect("it hangs")
}

pub(crate) fn output<T: serde::de::DeserializeOwned>(info: &TaskInfo) -> T {
    assert_eq!(info.status, Status::Completed, "{info:?}");
    info.output.as_ref().expect("an output").read().expect("of the right type")
}
