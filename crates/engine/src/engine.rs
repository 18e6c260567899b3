//! The engine: what all tasks of a process share, and its life from start to shutdown.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{Json, Principal, TaskId, Timestamp};
use steadfast_store::{Lease, Store, TaskKey, Touched};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ActivityContext, CallError, Result, Settings, System, Tasks, Tool, World, dispatch,
    registry::{Function, Registry},
    runner::Nudge,
    watch::Watchers,
    worker,
};

/// What everything in the engine holds on to.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) settings: Settings,
    attached: Attached,
    /// Replaced whole when a tool comes or goes.
    registry: RwLock<Arc<Registry>>,
    pub(crate) watchers: Arc<Watchers>,
    /// Tasks in memory. A std mutex: held for a look-up only.
    running: Mutex<HashMap<TaskKey, Arc<Nudge>>>,
    /// The same by their ids, for those who wait for one to end.
    by_id: Mutex<HashMap<TaskId, Arc<Nudge>>>,
    places: AtomicUsize,
    /// The number of the last id that was made.
    ids: AtomicU64,
    /// Tasks queue for a place, so a new one must not overtake them.
    pub(crate) backlog: AtomicBool,
    pub(crate) dispatch: Notify,
    pub(crate) work: Notify,
    /// Activities in hand by number, with the epoch of their lease.
    activities: Mutex<HashMap<i64, (i64, CancellationToken)>>,
    /// How often something happened to a task that lies on our desk and has no runner yet.
    /// Changed and compared with `running` locked.
    missed: AtomicU64,
    /// Held for reading from a claim's commit until its runner is known, and for writing by whoever
    /// must know that there is nothing in between.
    pub(crate) handover: tokio::sync::RwLock<()>,
    /// The outcome of a write is not known: look at what is on our desk.
    pub(crate) doubt: Notify,
    /// No new turns.
    pub(crate) draining: CancellationToken,
    /// Everything stops.
    pub(crate) stopped: CancellationToken,
    /// Turns and activities.
    pub(crate) tasks: TaskTracker,
    /// The loops that feed them.
    pub(crate) loops: TaskTracker,
}

/// By their types.
type Attached = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

impl Core {
    pub(crate) fn attached<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.attached.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// What this process can run now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn running(&self) -> MutexGuard<'_, HashMap<TaskKey, Arc<Nudge>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn by_id(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<Nudge>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task in memory, by its id.
    pub(crate) fn live(&self, id: &TaskId) -> Option<Arc<Nudge>> {
        self.by_id().get(id).cloned()
    }

    /// Forgets a task that left memory, unless another run of it has come already.
    pub(crate) fn delist(&self, key: TaskKey, nudge: &Arc<Nudge>) {
        let same = |held: &Arc<Nudge>| Arc::ptr_eq(held, nudge);
        let mut running = self.running();
        if running.get(&key).is_some_and(same) {
            running.remove(&key);
            if nudge.has_news() {
                // Perhaps for the next holder, who is not known yet.
                self.miss();
            }
        }
        drop(running);
        let mut by_id = self.by_id();
        if by_id.get(&nudge.id).is_some_and(same) {
            by_id.remove(&nudge.id);
        }
    }

    /// A new task's id: 128 random bits, behind a number that rises with the time, and with every id
    /// of the same millisecond.
    pub(crate) fn new_id(&self) -> TaskId {
        let now = u64::try_from(self.world.now().0).unwrap_or(0) << 12;
        let next = |last: u64| now.max(last + 1);
        let update = |last: u64| Some(next(last));
        let last = self.ids.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
        let (Ok(last) | Err(last)) = last;
        TaskId::numbered(next(last), self.world.random())
    }

    pub(crate) fn in_hand(&self) -> MutexGuard<'_, HashMap<i64, (i64, CancellationToken)>> {
        self.activities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up to `wanted` places for running tasks.
    pub(crate) fn take_places(&self, wanted: usize) -> usize {
        self.take_of_free(|free| wanted.min(free))
    }

    /// The same, but leaves half of those that are free.
    pub(crate) fn take_places_in_part(&self, wanted: usize) -> usize {
        self.take_of_free(|free| wanted.min(free.div_ceil(2)))
    }

    fn take_of_free(&self, wish: impl Fn(usize) -> usize) -> usize {
        let most = self.settings.max_running;
        let mut taken = 0;
        let _ = self.places.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            taken = wish(most.saturating_sub(used));
            Some(used + taken)
        });
        taken
    }

    pub(crate) fn give_places(&self, places: usize) {
        if places > 0 {
            self.places.fetch_sub(places, Ordering::AcqRel);
            if self.backlog.load(Ordering::Acquire) {
                self.dispatch.notify_one();
            }
        }
    }

    /// What the store holds of a task in memory is not known: it is looked at when its runner is
    /// gone, since until then it is not taken for an orphan.
    pub(crate) fn doubt_of(&self, lease: Lease) {
        match self.running().get(&lease.key) {
            Some(nudge) if nudge.epoch == lease.epoch => nudge.set_doubt(),
            _ => self.doubt.notify_one(),
        }
    }

    /// After a write whose outcome is not known, what it may have done must be looked for.
    pub(crate) fn doubt_after(&self, error: &steadfast_store::Error) {
        if matches!(error, steadfast_store::Error::Unknown(_)) {
            self.doubt.notify_one();
        }
    }

    /// Something happened to a task that this process holds, before it had a runner to be told.
    /// Called with `running` locked.
    pub(crate) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::AcqRel);
    }

    /// To be read before a task is taken, and handed to [`enlist`](Core::enlist) after it.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Acquire)
    }

    /// Makes a runner known. If something happened between the taking of a task and now, it may
    /// have been to this one: it looks.
    pub(crate) fn enlist(&self, key: TaskKey, nudge: &Arc<Nudge>, missed: u64) {
        let mut running = self.running();
        if running.get(&key).is_some_and(|other| other.epoch > nudge.epoch) {
            // Cancelled before its runner was known, and what is left of it was taken up first.
            nudge.set(Nudge::LOST);
            return;
        }
        self.by_id().insert(nudge.id.clone(), nudge.clone());
        if let Some(before) = running.insert(key, nudge.clone()) {
            // What was meant for one of them may have been told to the other.
            before.set(Nudge::LOST);
            nudge.set(Nudge::LOOK);
        }
        // Looked at under the lock that `drain` and `stop` take after they said so.
        if self.draining.is_cancelled() {
            nudge.set(Nudge::DRAIN);
        }
        if self.stopped.is_cancelled() {
            nudge.stop();
        }
        if self.missed() != missed {
            nudge.set(Nudge::LOOK);
        }
    }

    /// No new turns.
    fn drain(&self) {
        self.draining.cancel();
        self.running().values().for_each(|nudge| nudge.set(Nudge::DRAIN));
    }

    /// Everything stops.
    fn stop(&self) {
        self.drain();
        self.stopped.cancel();
        self.running().values().for_each(|nudge| nudge.stop());
    }

    /// A notice that goes out with a turn.
    pub(crate) fn post(&self, body: &Json, at: Timestamp) -> steadfast_store::Effect {
        steadfast_store::Effect::Post {
            body: body.text().as_bytes().to_vec(),
            until: at.plus(self.settings.notice_life),
            most: self.settings.max_notices,
        }
    }

    /// Lets those who hold the tasks know that something happened to them.
    pub(crate) fn touched(&self, touched: &[Touched], why: u8) {
        // One that was cancelled is on the ready pile now, also if it was here until then.
        let mut elsewhere = why & Nudge::LOOK != 0 && !touched.is_empty();
        for task in touched {
            let running = self.running();
            match running.get(&task.key) {
                Some(nudge) if task.here => nudge.set(why),
                None if task.here => self.miss(),
                _ => elsewhere = true,
            }
            drop(running);
            self.watchers.changed(task.key);
        }
        if elsewhere {
            self.dispatch.notify_one();
        }
    }
}

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

    /// Starts the engine in the current tokio runtime. Tasks that were left by a process that ended
    /// or died are taken up at once.
    pub fn start(self) -> Engine {
        let core = Arc::new(Core {
            store: self.store,
            world: self.world,
            settings: self.settings,
            attached: self.attached,
            registry: RwLock::new(Arc::new(self.registry)),
            watchers: Arc::default(),
            running: Mutex::default(),
            by_id: Mutex::default(),
            places: AtomicUsize::new(0),
            ids: AtomicU64::new(0),
            backlog: AtomicBool::new(false),
            dispatch: Notify::new(),
            work: Notify::new(),
            activities: Mutex::default(),
            missed: AtomicU64::new(0),
            handover: tokio::sync::RwLock::default(),
            doubt: Notify::new(),
            draining: CancellationToken::new(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
            loops: TaskTracker::new(),
        });
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
        self.change(|registry| {
            registry.tools.insert(tool.name.clone(), tool);
        });
        self.core.dispatch.notify_one();
    }

    /// Takes no more tasks of a tool. Those in memory go on; others wait for a process that has it.
    pub fn remove_tool(&self, name: &str) {
        self.change(|registry| {
            registry.tools.remove(name);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Registry)) {
        let mut registry = self.core.registry.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut registry));
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
        let registry = self.core.registry();
        registry.tools.keys().chain(registry.functions.keys()).cloned().collect()
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
    /// Returns whether everything in flight had finished.
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
