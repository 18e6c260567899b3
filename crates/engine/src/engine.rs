//! The engine: its life from start to shutdown.

mod core;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    future::Future,
    sync::Arc,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{Json, Principal, TaskId, Timestamp};
use steadfast_store::Store;

pub(crate) use self::core::Core;
use crate::{
    ActivityContext, CallError, Result, Settings, System, Tasks, Tool, World, dispatch,
    registry::{Function, Registry},
    worker,
};

/// By their types.
type Attached = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// Runs durable tasks on a store.
///
/// Cheap to clone; all clones are the same engine. It stops when [`shutdown`](Engine::shutdown) is
/// called or when the last clone is dropped, which is as safe as a crash and loses as little.
#[derive(Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
    _guard: Arc<StopOnDrop>,
}

struct StopOnDrop(Arc<Core>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// An engine to be: tools, activities and settings.
#[must_use = "an engine does nothing until it is started"]
pub struct Builder {
    store: Arc<dyn Store>,
    world: Arc<dyn World>,
    settings: Settings,
    attached: Attached,
    registry: Registry,
}

impl Builder {
    /// Registers a tool.
    pub fn tool(mut self, tool: Tool) -> Builder {
        self.registry.tools.insert(tool.name.clone(), tool);
        self
    }

    /// Registers a function that tasks can call as an activity or name as an undo.
    pub fn activity<I, O, F, Fut>(mut self, name: impl Into<String>, function: F) -> Builder
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        F: Fn(ActivityContext, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        self.registry.functions.insert(name.into(), Function::new(function));
        self
    }

    /// Other settings than the defaults.
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// The settings as they are now.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// How long notices are kept for those who come back.
    pub fn notice_life(mut self, life: Duration) -> Builder {
        self.settings.notice_life = life;
        self
    }

    /// For development: whatever a crash may run again is run twice, to expose what does not bear it.
    ///
    /// * The closure of a [step](crate::Context::step), an activity and an undo function run a second time
    ///   right after the first, with the same key. The first result is recorded. Steps that run at most
    ///   once run once.
    /// * The tool's function is run again from its own history, without its closures, and must ask for the
    ///   same in the same order and return the same.
    ///
    /// What differs fails its task (or its activity) as
    /// [`Unrepeatable`](crate::FailureKind::Unrepeatable), with where and how; it is also a warning in the
    /// log, with the target `steadfast::effects`. Neither says values, which may be secret: an operator
    /// finds them in the failure's detail.
    pub fn validate_effects(mut self) -> Builder {
        self.settings.validate_effects = true;
        self
    }

    /// Something that the code of tasks can get at in this process, by its type:
    /// [`Context::attached`](crate::Context::attached). It is not durable, and one of a type.
    pub fn attach<T: Send + Sync + 'static>(mut self, value: T) -> Builder {
        self.attached.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Another clock and other dice, for simulations.
    pub fn world(mut self, world: impl World) -> Builder {
        self.world = Arc::new(world);
        self
    }

    /// What is registered so far that tasks and activities can be taken up of, by name.
    #[must_use]
    pub fn registered(&self) -> Vec<String> {
        self.registry.names()
    }

    /// Starts the engine in the current tokio runtime. Tasks that were left by a process that ended
    /// or died are taken up at once.
    pub fn start(self) -> Engine {
        let Builder { store, world, settings, attached, registry } = self;
        let core = Arc::new(Core::new(store, world, settings, attached, registry));
        dispatch::spawn(&core);
        worker::spawn(&core);
        // An engine before this one may have left something on this handle's desk.
        core.doubt.notify_one();
        Engine { _guard: Arc::new(StopOnDrop(core.clone())), core }
    }
}

impl Engine {
    /// Begins to build an engine on a store.
    pub fn builder(store: Arc<dyn Store>) -> Builder {
        Builder {
            store,
            world: Arc::new(System),
            settings: Settings::default(),
            attached: Attached::new(),
            registry: Registry::default(),
        }
    }

    /// The tasks of one principal: to anybody else they do not exist.
    #[must_use]
    pub fn tasks(&self, principal: Principal) -> Tasks {
        Tasks::new(self.core.clone(), Some(principal))
    }

    /// An operator's view: bound to no principal, it sees and steers everything.
    #[must_use]
    pub fn operator(&self) -> Tasks {
        Tasks::new(self.core.clone(), None)
    }

    /// Registers one more tool, in place of one of the same name. Tasks of it that nobody here could
    /// run are taken up.
    pub fn add_tool(&self, tool: Tool) {
        self.core.change(|registry| {
            registry.tools.insert(tool.name.clone(), tool);
        });
        self.core.dispatch.notify_one();
    }

    /// Takes no more tasks of a tool. Those in memory go on; others wait for a process that has it.
    pub fn remove_tool(&self, name: &str) {
        self.core.change(|registry| {
            registry.tools.remove(name);
        });
    }

    /// Whether the store answers, and takes what is written: an error says what is wrong with it.
    pub async fn check(&self) -> steadfast_store::Result<()> {
        const SOON: Duration = Duration::from_secs(2);
        match tokio::time::timeout(SOON, self.core.store.check()).await {
            Ok(answered) => answered,
            Err(_) => Err(steadfast_store::Error::Unavailable("it does not answer".into())),
        }
    }

    /// What is registered here that tasks and activities can be taken up of, by name.
    #[must_use]
    pub fn registered(&self) -> Vec<String> {
        self.core.registry().names()
    }

    /// The store that it runs on.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.core.store
    }

    /// An id for a task that is yet to be [started](crate::Start::id) with it.
    #[must_use]
    pub fn new_id(&self) -> TaskId {
        self.core.new_id()
    }

    /// What time it is, by the clock that it runs by.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.core.world.now()
    }

    /// Changes whenever a task of any principal may have begun to ask something, or a notice may have been
    /// put up, in this process or in another.
    #[must_use]
    pub fn news(&self) -> tokio::sync::watch::Receiver<u64> {
        self.core.watchers.hear_news()
    }

    /// Puts up a notice for whoever reads them, in any process: see [`notices`](Engine::notices).
    pub async fn post<T: Serialize + ?Sized>(
        &self,
        notice: &T,
    ) -> std::result::Result<(), CallError> {
        let body = Json::of(notice).map_err(|error| CallError::Payload(error.to_string()))?;
        let settings = &self.core.settings;
        let until = self.core.world.now().plus(settings.notice_life);
        let body = body.text().as_bytes().to_vec();
        let posted = self.core.store.post(body, until, settings.max_notices).await;
        posted.map_err(CallError::Store)?;
        self.core.watchers.news();
        Ok(())
    }

    /// The notices behind this number, oldest first, with the number of the last that there ever was. What
    /// can't be read is null.
    pub async fn notices(
        &self,
        behind: u64,
        limit: usize,
    ) -> std::result::Result<(Vec<(u64, Json)>, u64), CallError> {
        let posted = self.core.store.posted(behind, limit).await.map_err(CallError::Store)?;
        let read = |body: Vec<u8>| {
            let text = String::from_utf8(body).unwrap_or_default();
            Json::parse(text).unwrap_or_else(|_| Json::null())
        };
        let notices = posted.notices.into_iter().map(|(number, body)| (number, read(body)));
        Ok((notices.collect(), posted.last))
    }

    /// Ends in good order: no new turns, steps and activities in flight have `deadline` to finish,
    /// and what is left is handed back so that another process (or the next start) goes on with it.
    /// Returns whether everything in flight had finished. The store is [closed](Store::close) then:
    /// through its handle tasks can be looked at, and nothing else; the next engine needs another one.
    pub async fn shutdown(&self, deadline: Duration) -> bool {
        let core = &self.core;
        core.drain();
        core.tasks.close();
        core.loops.close();
        let drained = tokio::time::timeout(deadline, core.tasks.wait()).await.is_ok();
        core.stop();
        core.tasks.wait().await;
        core.loops.wait().await;
        // Whoever is still at starting a task is done after this.
        let _alone = core.handover.write().await;
        if let Err(error) = core.store.close().await {
            tracing::warn!(%error, "tasks could not be handed back; they will be taken over");
        }
        drained
    }
}
