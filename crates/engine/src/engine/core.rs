//! What everything in an engine shares.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use steadfast_core::{Json, TaskId, Timestamp};
use steadfast_store::{Lease, Since, Store, TaskKey, Touched};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::Attached;
use crate::{Settings, World, registry::Registry, runner::Nudge, watch::Watchers};

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
    /// When the dispatcher will look by itself, in milliseconds since 1970.
    pub(crate) next_due: AtomicI64,
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

impl Core {
    /// When something was that has passed, as stores want to know it.
    pub(crate) fn since(&self, instant: Instant) -> Since {
        Since { moment: self.world.moment().minus(instant.elapsed()), instant }
    }

    pub(super) fn new(
        store: Arc<dyn Store>,
        world: Arc<dyn World>,
        settings: Settings,
        attached: Attached,
        registry: Registry,
    ) -> Core {
        Core {
            store,
            world,
            settings,
            attached,
            registry: RwLock::new(Arc::new(registry)),
            watchers: Arc::default(),
            running: Mutex::default(),
            by_id: Mutex::default(),
            places: AtomicUsize::new(0),
            ids: AtomicU64::new(0),
            backlog: AtomicBool::new(false),
            next_due: AtomicI64::new(i64::MAX),
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
        }
    }

    pub(crate) fn attached<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.attached.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// What this process can run now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this process takes up such tasks: it has the tool in a version that can run them, and is
    /// not to leave them to others.
    pub(crate) fn takes(&self, tool: &str, version: Option<u32>) -> bool {
        let has = self.registry().tools.get(tool).is_some_and(|tool| tool.serves(version));
        has && self.settings.max_running > 0 && self.settings.takes(tool)
    }

    /// Changes what this process can run.
    pub(super) fn change(&self, change: impl FnOnce(&mut Registry)) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut registry));
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
    pub(super) fn drain(&self) {
        self.draining.cancel();
        self.running().values().for_each(|nudge| nudge.set(Nudge::DRAIN));
    }

    /// Everything stops.
    pub(super) fn stop(&self) {
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
