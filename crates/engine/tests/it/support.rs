//! An engine on a store in memory, that can be killed and started again.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::Event;
use steadfast_engine::{
    Action, Answer, Builder, Context, Engine, Error, Json, Order, Principal, Result, Settings,
    Simulated, Status, TaskId, TaskInfo, Tasks, Timestamp, Tool,
};
use steadfast_store::{Disk, Memory, Store};

use crate::slow::{Gates, Slow};

/// Effects outside the engine, in their order, so that they survive its death.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<String>>>);

impl Ledger {
    /// Notes an effect. The answer says how often it happened by now.
    pub(crate) fn add(&self, what: &str) -> u32 {
        self.0.lock().unwrap().push(what.to_owned());
        self.count(what)
    }

    pub(crate) fn count(&self, what: &str) -> u32 {
        self.0.lock().unwrap().iter().filter(|line| *line == what).count() as u32
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until it has happened.
    pub(crate) async fn has(&self, what: &str) {
        when(|| self.count(what) > 0).await;
    }
}

/// A tool that shares something with its test.
pub(crate) fn tool<S, I, O, F, Fut>(name: &str, shared: &S, function: F) -> Tool
where
    S: Clone + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize,
    F: Fn(S, Context, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
{
    let shared = shared.clone();
    Tool::new(name, move |ctx: Context, input: I| function(shared.clone(), ctx, input))
}

/// A step that does nothing but count itself.
pub(crate) async fn counted(ctx: &Context, ledger: &Ledger, name: &str) -> Result<u32> {
    ctx.step(name, || async { Ok::<_, Error>(ledger.add(name)) }).await
}

/// A step that counts itself and never ends.
pub(crate) async fn endless(ctx: &Context, ledger: &Ledger, name: &str) -> Result<()> {
    ctx.step(name, || async {
        ledger.add(name);
        std::future::pending::<Result<()>>().await
    })
    .await
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

pub(crate) fn bob() -> Principal {
    Principal::new("bob").unwrap()
}

/// A task that waits stays in memory for as long as a test takes.
pub(crate) fn staying() -> Settings {
    Settings { park_after: HOUR, ..settings() }
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
        self.start_on(store.clone(), store, settings, tools)
    }

    /// Begins a life whose store answers as the gates let it.
    pub(crate) fn start_slow(
        &self,
        settings: Settings,
        tools: impl FnOnce(Builder) -> Builder,
    ) -> (Life, Gates) {
        let store = Arc::new(self.disk.open());
        let gates = Gates::default();
        let slow = Arc::new(Slow { inner: store.clone(), gates: gates.clone() });
        (self.start_on(store, slow, settings, tools), gates)
    }

    /// Begins a life on a handle, seen through another store.
    pub(crate) fn start_on(
        &self,
        store: Arc<Memory>,
        seen: Arc<dyn Store>,
        settings: Settings,
        tools: impl FnOnce(Builder) -> Builder,
    ) -> Life {
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        let epoch = Timestamp(1_800_000_000_000).plus(self.begun.elapsed());
        let world = Simulated::new(epoch, life);
        let builder = Engine::builder(seen).settings(settings).world(world);
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

    /// Starts a task.
    pub(crate) async fn begin(&self, tool: &str, input: impl Serialize) -> TaskId {
        self.tasks().start(tool, &input).await.unwrap().id
    }

    /// Starts a task and waits for its end.
    pub(crate) async fn run(&self, tool: &str, input: impl Serialize) -> TaskInfo {
        let id = self.begin(tool, input).await;
        self.end(&id).await
    }

    pub(crate) async fn get(&self, id: &TaskId) -> TaskInfo {
        self.tasks().get(id).await.unwrap()
    }

    /// The events of a task, oldest first.
    pub(crate) async fn events(&self, id: &TaskId) -> Vec<Event> {
        let page = self.engine.operator().history(id, Order::OldestFirst, None, 1_000).await;
        page.unwrap().entries.into_iter().map(|entry| entry.event).collect()
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

/// In virtual time a hang shows as a jump of days; this makes it a failure.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(days(2), future).await.expect("it hangs")
}

/// Waits until something is so.
pub(crate) async fn when(condition: impl Fn() -> bool) {
    within(async {
        let mut looks = 0;
        while !condition() {
            looks += 1;
            // Closely at first, for those who measure; a hang must not take millions of looks.
            let pause = if looks < 2_000 { 1 } else { 1_000 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    })
    .await;
}

/// Lets everything come to rest.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_secs(10)).await;
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn days(days: u64) -> Duration {
    HOUR * 24 * u32::try_from(days).unwrap()
}

pub(crate) fn accept(content: impl Serialize) -> Answer {
    Answer { action: Action::Accept, content: Some(Json::of(&content).unwrap()) }
}

pub(crate) fn output<T: DeserializeOwned>(info: &TaskInfo) -> T {
    assert_eq!(info.status, Status::Completed, "{info:?}");
    info.output.as_ref().expect("an output").read().expect("of the right type")
}
