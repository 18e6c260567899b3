//! Starting tasks.

use std::{
    collections::BTreeMap,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use serde::Serialize;
use steadfast_core::{Json, Record, Status, TaskId, Timestamp, Ttl, encode};
use steadfast_store::{Dedup, LATE, NewTask, Started, TaskRow};

use super::{
    CallError, Follow, Result, Tasks,
    new::{cancelled, new_task, retention, row, started},
};
use crate::{
    blob::About,
    engine::Core,
    finish::finish,
    limits::{self, clip},
    runner,
    watch::Watch,
};

/// How long a task is known at least that has a request key: longer than a copy of its request may
/// [wait](steadfast_store::LATE), also if the clocks of the processes are two minutes apart.
const KNOWN: Ttl = Ttl::Millis(150_000);

/// A task that is about to be started.
#[must_use = "a task is not started unless this is awaited"]
pub struct Start {
    tasks: Tasks,
    tool: String,
    input: std::result::Result<Json, String>,
    id: Option<TaskId>,
    idempotency_key: Option<String>,
    request_key: Option<String>,
    /// Whoever is cancelled that has this key is the answer.
    taken_back_by: Option<String>,
    asked: Option<Instant>,
    instead_of: Option<TaskId>,
    bound: bool,
    tags: BTreeMap<String, String>,
    ttl: Option<Ttl>,
    delay: Option<Duration>,
    trace: Option<String>,
    call: Option<std::result::Result<Json, String>>,
    session: Option<String>,
    unserved: bool,
    passing_progress: bool,
    /// Why it is cancelled from the first, and for how long it is there.
    cancelled: Option<(String, Duration)>,
}

/// A task that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedTask {
    /// Its id.
    pub id: TaskId,
    /// False if its key was used before: then this is the task of that time.
    pub new: bool,
    /// The key of that task was [freed](Tasks::free) since, but after this was [asked for](Start::asked).
    pub freed: bool,
    /// When it was accepted, if it is new.
    pub created: Option<Timestamp>,
    /// When it will be removed, if it is new and that is known.
    pub expires: Option<Timestamp>,
}

impl Tasks {
    /// Starts a task. Once this returns, the id resolves until the task expires, come what may.
    pub fn start<I: Serialize + ?Sized>(&self, tool: impl Into<String>, input: &I) -> Start {
        Start {
            tasks: self.clone(),
            tool: tool.into(),
            input: Json::of(input).map_err(|error| error.to_string()),
            id: None,
            idempotency_key: None,
            request_key: None,
            taken_back_by: None,
            asked: None,
            instead_of: None,
            bound: false,
            tags: BTreeMap::new(),
            ttl: None,
            delay: None,
            trace: None,
            call: None,
            session: None,
            unserved: false,
            passing_progress: false,
            cancelled: None,
        }
    }
}

impl Start {
    /// Its id, instead of 128 random bits.
    pub fn id(mut self, id: TaskId) -> Start {
        self.id = Some(id);
        self
    }

    /// If this principal has started this tool with this key before, that task is the answer.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Start {
        self.idempotency_key = Some(key.into());
        self
    }

    /// If this principal has started a task of any tool with this key before, that task is the answer:
    /// until it is gone, or the key was [freed](Tasks::free) before this was [asked for](Start::asked). In
    /// place of an idempotency key. A task that has one is there for two and a half minutes after its end at least,
    /// whatever is said of its life.
    pub fn request_key(mut self, key: impl Into<String>) -> Start {
        self.request_key = Some(key.into());
        self
    }

    /// When it was asked for, if that is longer ago: a key that was freed since is not free for it. It may
    /// have been asked for elsewhere as well, and be done. With a key it is refused as [late](CallError::Late) if
    /// it is longer ago than [`LATE`](steadfast_store::LATE).
    pub fn asked(mut self, at: Instant) -> Start {
        self.asked = Some(at);
        self
    }

    /// If a task of this principal with this other request key was cancelled, that is the answer.
    pub fn unless_cancelled(mut self, request_key: impl Into<String>) -> Start {
        self.taken_back_by = Some(request_key.into());
        self
    }

    /// If this task has its request key, it leaves it to this one, freed or not.
    pub fn instead_of(mut self, id: TaskId) -> Start {
        self.instead_of = Some(id);
        self
    }

    /// It is of no use without this process: if that ends first, the task is cancelled, and takes back
    /// what it did. Unless it is [freed](Tasks::free) before. It stays in memory.
    pub fn bound_to_process(mut self) -> Start {
        self.bound = true;
        self
    }

    /// A tag to find it by.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Start {
        self.tags.insert(name.into(), value.into());
        self
    }

    /// How long it is kept after it ends; raised to the tool's own retention if that is longer.
    pub fn ttl(mut self, ttl: impl Into<Ttl>) -> Start {
        self.ttl = Some(ttl.into());
        self
    }

    /// Begins only after this long.
    pub fn delay(mut self, delay: Duration) -> Start {
        self.delay = Some(delay);
        self
    }

    /// A trace context to go with it, and with its children.
    pub fn trace(mut self, trace: impl Into<String>) -> Start {
        self.trace = Some(trace.into());
        self
    }

    /// What the task and its children may want to know of the call that started it: who called, and
    /// what the caller can do. It never changes, and a replay sees the same.
    pub fn call<T: Serialize + ?Sized>(mut self, call: &T) -> Start {
        self.call = Some(Json::of(call).map_err(|error| error.to_string()));
        self
    }

    /// The session that it is started in, for [`Scope::Session`](crate::Scope::Session). Its children are
    /// in it too.
    pub fn session(mut self, id: impl Into<String>) -> Start {
        self.session = Some(id.into());
        self
    }

    /// Starts it although this process has no such tool: another one will run it.
    pub fn even_if_unserved(mut self) -> Start {
        self.unserved = true;
        self
    }

    /// How far the task says it is is not recorded by itself: who [follows](Start::and_follow) it here hears
    /// it, and it is seen with the next commit. For those who can't come back for what they missed.
    pub fn passing_progress(mut self) -> Start {
        self.passing_progress = true;
        self
    }

    /// It is cancelled from the first, for this reason: it never runs, and is there for so long. Who starts
    /// another with its [request key](Start::request_key) meanwhile finds it. Its tool need not exist.
    pub fn cancelled(mut self, reason: impl Into<String>, kept: Duration) -> Start {
        self.cancelled = Some((reason.into(), kept));
        self
    }

    /// Starts it, and follows it from its beginning.
    pub async fn and_follow(self) -> Result<(StartedTask, Follow)> {
        let tasks = self.tasks.clone();
        let (started, watch) = self.run(true).await?;
        let follow = match watch {
            Some(watch) => Follow::new_task(tasks, started.id.clone(), watch),
            None => tasks.follow(&started.id, 0).await?,
        };
        Ok((started, follow))
    }

    fn check_limits(&self) -> Result<()> {
        limits::name("the tool's name", &self.tool)?;
        if let Some(session) = &self.session {
            limits::name("the session's id", session)?;
        }
        let keys = [&self.idempotency_key, &self.request_key, &self.taken_back_by];
        for key in keys.into_iter().flatten() {
            limits::name("the idempotency key", key)?;
        }
        if self.tags.len() > limits::TAGS {
            return Err(CallError::TooManyTags { limit: limits::TAGS });
        }
        for (name, value) in &self.tags {
            limits::name("the name of a tag", name)?;
            limits::name("the value of a tag", value)?;
        }
        Ok(self.trace.as_deref().map_or(Ok(()), limits::trace)?)
    }

    async fn run(self, watched: bool) -> Result<(StartedTask, Option<Watch>)> {
        let core = self.tasks.core.clone();
        if core.draining.is_cancelled() {
            return Err(CallError::ShuttingDown);
        }
        self.check_limits()?;
        let asked = self.asked.unwrap_or_else(Instant::now);
        if self.request_key.is_some() && asked.elapsed() > LATE {
            return Err(CallError::Late);
        }
        let input = self.input.map_err(CallError::Payload)?;
        let limit = core.settings.max_payload;
        if input.text().len() > limit {
            return Err(CallError::TooLarge { what: "the input", limit });
        }
        let call = self.call.transpose().map_err(CallError::Payload)?;
        if call.as_ref().is_some_and(|call| call.text().len() > limit) {
            return Err(CallError::TooLarge { what: "what is said of the call", limit });
        }
        let served = core.registry().tools.contains_key(&self.tool);
        if !served && !self.unserved && self.cancelled.is_none() {
            return Err(CallError::NoSuchTool(self.tool));
        }
        let now = core.world.now();
        let id = self.id.unwrap_or_else(|| core.new_id());
        let wake = self.delay.map(|delay| now.plus(delay));
        let first = started(&core, input, now);
        let about = About {
            parent: None,
            rerun_of: None,
            trace: self.trace,
            call,
            session: self.session,
            origin: None,
            passing_progress: self.passing_progress,
            retention: match self.request_key {
                Some(_) => retention(&core, &self.tool, self.ttl).max(KNOWN),
                None => retention(&core, &self.tool, self.ttl),
            },
        };
        let key = match (self.request_key, self.idempotency_key) {
            (Some(key), _) => Some(request_key(&key)),
            (None, key) => key.map(|key| format!("{}\n{key}", self.tool)),
        };
        let mut task = NewTask {
            tags: self.tags,
            owner: self.tasks.principal.clone(),
            dedup: key.map(|key| {
                let unless = self.taken_back_by.as_deref().map(request_key);
                Dedup { key, unless, asked: core.since(asked), instead_of: self.instead_of }
            }),
            bound: self.bound,
            wake,
            ..new_task(&core, id, &self.tool, &about, now, vec![encode(&first)])
        };
        if let Some((reason, kept)) = self.cancelled {
            task = cancelled(task, clip(reason), kept);
        } else if wake.is_none() && served && core.settings.takes(&self.tool) && hold(&core) {
            (task.hold, task.status) = (true, Status::Running);
        }
        let whole = core.clone();
        finish(&core, async move { begin(&whole, task, vec![first], watched).await }).await
    }
}

impl IntoFuture for Start {
    type Output = Result<StartedTask>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.run(false).await.map(|(started, _)| started) })
    }
}

/// How a key that is of no one tool is written: no tool has an empty name.
pub(super) fn request_key(key: &str) -> String {
    format!("\n{key}")
}

/// Takes a place in memory for a new task, unless others queue for one.
fn hold(core: &Core) -> bool {
    let free = !core.backlog.load(Ordering::Acquire) && core.take_places(1) == 1;
    if !free {
        core.backlog.store(true, Ordering::Release);
    }
    free
}

/// Writes the task, and runs it here if it was to be held. If it is new it can be watched from its beginning.
pub(super) async fn begin(
    core: &Arc<Core>,
    task: NewTask,
    history: Vec<Record>,
    watched: bool,
) -> Result<(StartedTask, Option<Watch>)> {
    let hold = task.hold;
    let id = task.id.clone();
    let (created, expires) = (Some(task.created), task.expires);
    let bound = task.bound.then(|| core.store.desk());
    let row = hold.then(|| TaskRow { bound, ..row(&task) });
    let _hand = core.handover.read().await;
    if core.draining.is_cancelled() {
        // Looked at again under the lock that the shutdown takes before it closes the store.
        core.give_places(usize::from(hold));
        return Err(CallError::ShuttingDown);
    }
    let missed = core.missed();
    let result = core.store.start(task).await;
    match result {
        Ok(Started::New { key, lease, mail }) => {
            // Before it runs, so that nothing it says is missed.
            let watch = watched.then(|| core.watchers.watch(key));
            match (lease, row) {
                (Some(lease), Some(_)) if core.stopped.is_cancelled() => {
                    core.give_places(1);
                    runner::return_to_store(core, lease).await;
                }
                (Some(lease), Some(row)) => {
                    let row = TaskRow { key, epoch: lease.epoch, ..row };
                    runner::spawn_new(core, row, lease, history, missed);
                    if mail {
                        let here = steadfast_store::Touched { key, here: true };
                        core.touched(&[here], runner::Nudge::MAIL);
                    }
                }
                _ => {
                    core.give_places(usize::from(hold));
                    core.dispatch.notify_one();
                }
            }
            Ok((StartedTask { id, new: true, freed: false, created, expires }, watch))
        }
        Ok(Started::Existing { id, freed, .. }) => {
            core.give_places(usize::from(hold));
            Ok((StartedTask { id, new: false, freed, created: None, expires: None }, None))
        }
        Err(error) => {
            core.give_places(usize::from(hold));
            core.doubt_after(&error);
            Err(CallError::on(&id, error))
        }
    }
}
