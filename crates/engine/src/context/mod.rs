//! What a task's code can do: the [`Context`].

mod activity;
mod ask;
mod child;
mod combine;
mod op;
mod second;
mod signal;
mod state;
mod step;
mod transaction;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use activity::ActivityCall;
pub(crate) use ask::check;
pub use ask::{Question, Reply};
pub use child::Child;
pub use combine::{Either, Join, JoinAll, Race, RaceAll, join, join_all, race, race_all};
pub(crate) use op::Wakers;
use serde::Serialize;
pub use signal::{Signal, Sleep};
pub use state::State;
use steadfast_core::{
    Call, FailureKind, Json, Machine, Note, OpId, Principal, Progress, Scope, TaskId, Timestamp,
};
use steadfast_store::TaskKey;
pub use step::{Attempt, Step, StepFn};
use tokio_util::sync::CancellationToken;
pub use transaction::Transaction;
pub(crate) use transaction::{Came, Joint, Verdict};

use crate::{Error, Result, engine::Core, limits::clip, registry::payload};

/// A task's view of the world, and all the durable operations it can ask for.
///
/// Cheap to clone. Operations are numbered in the order in which they are awaited (or handed to
/// [`join`], [`race`] and the like), and that order must be the same each time the code runs: what
/// depends on chance, time or the outside belongs in a [`step`](Context::step), or comes from
/// [`now`](Context::now), [`uuid`](Context::uuid) and [`random`](Context::random).
#[derive(Clone)]
pub struct Context {
    pub(crate) shared: Arc<Shared>,
}

/// What the running code and the engine that polls it have in common.
pub(crate) struct Shared {
    /// A std mutex: it is never held across an await, and both sides are on one thread at a time.
    pub(crate) machine: Mutex<Machine>,
    pub(crate) wakers: Wakers,
    pub(crate) core: Arc<Core>,
    pub(crate) key: TaskKey,
    /// Of the lease that it runs with.
    pub(crate) epoch: i64,
    pub(crate) id: TaskId,
    pub(crate) tool: String,
    pub(crate) owner: Option<Principal>,
    /// What the task was started with, for its children.
    pub(crate) trace: Option<String>,
    /// What is known of the call that started it, for itself and its children.
    pub(crate) call: Option<Json>,
    /// The session that it was started in, for itself and its children.
    pub(crate) session: Option<String>,
    /// The task that the call started.
    pub(crate) origin: TaskId,
    pub(crate) cancel: CancellationToken,
    /// With effect validation: all that the code asked for.
    pub(crate) asked: Option<Box<Mutex<Asked>>>,
    /// A closure is being run for the second time: what it says has been said.
    pub(crate) muted: AtomicBool,
    /// What transactions are to commit together with their ends.
    pub(crate) joints: Mutex<BTreeMap<OpId, Joint>>,
}

/// What a task's code asked for, by number.
pub(crate) type Asked = BTreeMap<OpId, Call>;

impl Shared {
    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        // A panic while it was held was in code of ours that has no lasting half-done state; the
        // task is failed anyway.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same task on another machine, for its code to be run again.
    pub(crate) fn again(&self, machine: Machine) -> Shared {
        Shared {
            machine: machine.into(),
            wakers: Wakers::default(),
            core: self.core.clone(),
            key: self.key,
            epoch: self.epoch,
            id: self.id.clone(),
            tool: self.tool.clone(),
            owner: self.owner.clone(),
            trace: self.trace.clone(),
            call: self.call.clone(),
            session: self.session.clone(),
            origin: self.origin.clone(),
            cancel: self.cancel.clone(),
            asked: Some(Box::default()),
            muted: AtomicBool::new(false),
            joints: Mutex::default(),
        }
    }

    /// What the code asked for so far; nothing unless effects are validated.
    pub(crate) fn asked(&self) -> Asked {
        let asked = self.asked.as_ref().map(|asked| asked.lock());
        asked.map(|asked| asked.unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    pub(crate) fn joints(&self) -> MutexGuard<'_, BTreeMap<OpId, Joint>> {
        self.joints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.core.world.now()
    }

    /// The store's name for a scope.
    pub(crate) fn scope(&self, scope: Scope) -> String {
        match scope {
            Scope::Task => steadfast_store::task_scope(&self.id),
            // Without a session nothing gets here.
            Scope::Session => {
                steadfast_store::session_scope(self.session.as_deref().unwrap_or_default())
            }
            Scope::Owner => match &self.owner {
                Some(owner) => format!("owner/{owner}"),
                None => "owner".into(),
            },
            Scope::Global => "global".into(),
        }
    }
}

impl Context {
    /// This task's id.
    #[must_use]
    pub fn task_id(&self) -> &TaskId {
        &self.shared.id
    }

    /// The name of the tool that this task runs.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.shared.tool
    }

    /// Whose task this is.
    #[must_use]
    pub fn owner(&self) -> Option<&Principal> {
        self.shared.owner.as_ref()
    }

    /// What was said of the call that started this task, or the task that started it: see
    /// [`Start::call`](crate::Start::call).
    #[must_use]
    pub fn call(&self) -> Option<&Json> {
        self.shared.call.as_ref()
    }

    /// The task that the [call](Context::call) started: this one, or that of which it is a child, a
    /// child's child, or a rerun.
    #[must_use]
    pub fn origin(&self) -> &TaskId {
        &self.shared.origin
    }

    /// What the program gave the engine for the code of its tasks: see
    /// [`Builder::attach`](crate::Builder::attach).
    #[must_use]
    pub fn attached<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.shared.core.attached()
    }

    /// Fires when the task is cancelled. For work that a step started elsewhere; the step's own
    /// future is dropped at its next await.
    #[must_use]
    pub fn cancelled(&self) -> CancellationToken {
        self.shared.cancel.clone()
    }

    pub(crate) fn max_payload(&self) -> usize {
        self.shared.core.settings.max_payload
    }

    pub(crate) fn payload<T: Serialize + ?Sized>(&self, what: &str, value: &T) -> Result<Json> {
        payload(what, value, self.max_payload())
    }

    /// The time, the same in every replay: that of the last result the code got.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.machine().now()
    }

    /// A random number, the same in every replay.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.shared.machine().draw()
    }

    /// A random (version 4) UUID, the same in every replay.
    #[must_use]
    pub fn uuid(&self) -> String {
        let mut machine = self.shared.machine();
        let bits = u128::from(machine.draw()) << 64 | u128::from(machine.draw());
        let hex = format!("{bits:032x}");
        // The version digit and the two variant bits, as RFC 9562 has them.
        let variant = ["8", "9", "a", "b"][(bits >> 62 & 3) as usize];
        format!(
            "{}-{}-4{}-{variant}{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[13..16],
            &hex[17..20],
            &hex[20..]
        )
    }

    /// Says what the task is doing. Shown as its status message.
    pub fn status(&self, text: impl Into<String>) {
        self.note(Note::Status(clip(text.into())));
    }

    /// Says how far the task is. A number that is not finite counts as 0.
    pub fn progress(&self, done: f64, total: Option<f64>, text: Option<&str>) {
        let done = if done.is_finite() { done } else { 0.0 };
        let total = total.filter(|total| total.is_finite());
        self.note(Note::Progress(Progress {
            done,
            total,
            text: text.map(|text| clip(text.into())),
        }));
    }

    /// Writes a line to the task's log. 64 KiB of it are kept, as of a status.
    pub fn log(&self, level: &str, text: impl Into<String>) {
        self.note(Note::Log { level: clip(level.into()), text: clip(text.into()) });
    }

    /// Sets a mark on the task for whoever serves it: [`TaskInfo::marks`](crate::TaskInfo::marks).
    pub fn mark<T: Serialize + ?Sized>(&self, name: impl Into<String>, value: &T) -> Result<()> {
        let name = name.into();
        crate::limits::name("the mark's name", &name)?;
        let value = self.payload("the mark", value)?;
        self.note(Note::Mark { name, value });
        Ok(())
    }

    /// Puts up a notice for whoever reads them, in any process: once, with the next commit, and not again
    /// in a replay. In a step that runs again it is put up again.
    pub fn notice<T: Serialize + ?Sized>(&self, notice: &T) -> Result<()> {
        let notice = self.payload("the notice", notice)?;
        self.note(Note::Notice(notice));
        Ok(())
    }

    fn note(&self, note: Note) {
        if self.shared.muted.load(Ordering::Relaxed) {
            return;
        }
        let mut machine = self.shared.machine();
        let now = self.shared.now();
        machine.clock(now);
        machine.note(note);
    }

    /// Which version of the code this task follows at the change named `change`: `newest` for a
    /// task that comes here for the first time, 0 for one that went past this point before the
    /// marker was there. The first answer holds for the task's whole life.
    ///
    /// ```
    /// # use steadfast_engine::{Context, Result};
    /// # async fn old(_: &Context) -> Result<()> { Ok(()) }
    /// # async fn new(_: &Context) -> Result<()> { Ok(()) }
    /// # async fn tool(ctx: Context, _: ()) -> Result<()> {
    /// if ctx.version("two-phase charge", 1) >= 1 { new(&ctx).await } else { old(&ctx).await }
    /// # }
    /// ```
    #[must_use]
    pub fn version(&self, change: &str, newest: u32) -> u32 {
        self.shared.machine().version(change, newest)
    }

    /// Ends this run and begins anew with another input and an empty history. Unread events, the
    /// task's state and the undo functions recorded so far are kept.
    ///
    /// Return what it returns: `return ctx.continue_as_new(&next);`
    pub fn continue_as_new<I: Serialize + ?Sized, O>(&self, input: &I) -> Result<O> {
        let input = self.payload("the next input", input)?;
        self.shared.machine().continue_as_new(input);
        Err(Error::of(FailureKind::Usage, "the task continues as new"))
    }

    /// Sleeps, if need be for weeks: a sleeping task takes no memory.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        let until = self.now().plus(duration);
        self.sleep_until(until)
    }

    /// Sleeps until a point in time.
    pub fn sleep_until(&self, until: Timestamp) -> Sleep {
        Sleep::new(self, until)
    }

    /// Durable key-value state of this task, of its session, of its principal, or shared by all.
    #[must_use]
    pub fn state(&self, scope: Scope) -> State {
        State::new(self.clone(), scope)
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("task", &self.shared.id).finish_non_exhaustive()
    }
}

/// Turns a recorded outcome into what the author gets.
fn outcome<T: serde::de::DeserializeOwned>(outcome: steadfast_core::Outcome) -> Result<T> {
    match outcome {
        Ok(json) => crate::registry::read(&json),
        Err(failure) => Err(Error::recorded(failure)),
    }
}
