//! What is written to a store. Each call is one atomic commit.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use steadfast_core::{Moment, OpId, Principal, Status, TaskId, Timestamp};

use crate::{Lease, Refusal, TaskKey};

/// A task to start.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Its id.
    pub id: TaskId,
    /// The tool it runs.
    pub tool: String,
    /// The tool's version; `None` if whoever starts it does not know. The first claim gives it one.
    pub version: Option<u32>,
    /// Whose it is.
    pub owner: Option<Principal>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// The task that starts it. For a child in a [`Turn`] the store fills in the key.
    pub parent: Option<Parent>,
    /// By what it is known if it was asked for before.
    pub dedup: Option<Dedup>,
    /// It is of no use without the process that starts it: [`TaskRow::bound`](crate::TaskRow::bound) is
    /// this handle's desk.
    pub bound: bool,
    /// Where it stands at first. One that has ended before it began lies nowhere, so that nobody takes it:
    /// it is there to be found by its key until it expires.
    pub status: Status,
    /// When it is accepted.
    pub created: Timestamp,
    /// When it is to begin, if that is later than `created`; otherwise it begins at once.
    pub wake: Option<Timestamp>,
    /// When it may be removed, if it has a limit while it runs.
    pub expires: Option<Timestamp>,
    /// Hold it at once; otherwise it goes to the ready pile (or waits for `wake`). A child in a
    /// [`Turn`] is never held.
    pub hold: bool,
    /// What never changes.
    pub about: Vec<u8>,
    /// What changes.
    pub view: Vec<u8>,
    /// The first events of its history.
    pub events: Vec<Vec<u8>>,
}

/// How long ago a task with a [dedup key](Dedup) may have been asked for when it is started. A copy of a request
/// that waits for longer does nothing: what it would be known by need not be kept for ever.
pub const LATE: Duration = Duration::from_secs(20);

/// By what a task is known that was asked for before: that one is the answer then. Whoever it is, one that was
/// asked for longer ago than [`LATE`] is refused.
///
/// A key that was freed is free for those who ask for it after that. Who had asked before, and only comes
/// now, finds the task that had it: its copy of the request may have waited in a process that stood still
/// while another was answered elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedup {
    /// One task of a principal has this key. One that expires at or before [`NewTask::created`] doesn't count.
    pub key: String,
    /// Another key. If a task of this principal has it that was cancelled, that is the answer as well.
    pub unless: Option<String>,
    /// When the task was asked for.
    pub asked: Since,
    /// A task that gives way to this one, whichever of the keys it has, and freed or not.
    pub instead_of: Option<TaskId>,
}

impl Dedup {
    /// Refuses it if it was asked for too long ago. Stores look when they decide, with the locks that they decide
    /// under: whoever waits for those may be stopped.
    pub fn in_time(&self) -> Result<(), Refusal> {
        match self.asked.instant.elapsed() > LATE {
            true => Err(Refusal::Late),
            false => Ok(()),
        }
    }
}

impl<S: Into<String>> From<S> for Dedup {
    /// Asked for just now, by one key: what was freed is free.
    fn from(key: S) -> Dedup {
        let asked = Since { moment: Moment::MAX, instant: Instant::now() };
        Dedup { key: key.into(), unless: None, asked, instead_of: None }
    }
}

/// A point in time that has passed, as the process knows it that saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// By its clock, for stores whose processes have one clock.
    pub moment: Moment,
    /// By how long ago it is, for stores that many clocks meet at and that have one of their own.
    pub instant: Instant,
}

/// Who has a dedup key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// The task.
    pub id: TaskId,
    /// For how long it has been free for others, if it was freed.
    pub freed: Option<Duration>,
}

/// Who started a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The task.
    pub key: TaskKey,
    /// By which operation.
    pub op: OpId,
    /// Whether the parent gets a message when the child ends.
    pub notify: bool,
}

/// What a task can be freed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// Its dedup key, which can be used again by those who ask for it from now on; see [`Dedup`].
    Key,
    /// The desk that it is bound to.
    Desk,
}

/// What became of a start.
#[derive(Clone, Debug)]
pub enum Started {
    /// It is there. With a lease if `hold` was asked for and it can begin now.
    New {
        /// Its number.
        key: TaskKey,
        /// Proof of holding it.
        lease: Option<Lease>,
        /// Messages kept for it from before its start were put into its inbox.
        mail: bool,
    },
    /// One of its keys was used before, for this task.
    Existing {
        /// Its number.
        key: TaskKey,
        /// Its id.
        id: TaskId,
        /// That was freed since, and after this was asked for.
        freed: bool,
    },
}

/// What a task does in one turn: all of it or nothing.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Proof of holding it. A stale one refuses the turn as fenced.
    pub lease: Lease,
    /// When.
    pub at: Timestamp,
    /// The number of the first of `events`.
    pub first: u64,
    /// Events to append.
    pub events: Vec<Vec<u8>>,
    /// Remove the whole history first; `first` is 0 then. What its operations left goes with it, as
    /// their numbers will be used again: questions, activities and watches, messages that are for
    /// an operation or for a watch, and the telling of children started so far. Other messages stay.
    pub restart: bool,
    /// Remove messages up to this number.
    pub consumed: Option<i64>,
    /// The new status and view, if they changed. The status of a suspended task stays suspended
    /// until it ends or is resumed, and that of one that has ended stays for ever.
    pub view: Option<(Status, Vec<u8>)>,
    /// Forget the deaths counted so far: it made progress.
    pub progress: bool,
    /// What else is to be done.
    pub effects: Vec<Effect>,
    /// What becomes of the lease.
    pub after: After,
}

/// What becomes of a task after a turn.
#[derive(Clone, Debug)]
pub enum After {
    /// It stays on the desk.
    Keep,
    /// It leaves the desk, to be ready again at `wake` or when a message comes. If there are
    /// messages behind `consumed` it goes to the ready pile at once. A halted task (see
    /// [`Status::is_halted`]) waits for its resume instead.
    Park {
        /// When it is due.
        wake: Option<Timestamp>,
    },
    /// It leaves the desk for the ready pile. A halted task waits for its resume instead.
    Yield,
    /// It ended. Its questions, activities and watches are removed (also those that came with this
    /// turn), its inbox emptied, and its parent told if it wants to know and has not ended.
    End {
        /// How.
        status: Status,
        /// When it may be removed.
        expires: Option<Timestamp>,
        /// What [`TaskRow::end`](crate::TaskRow::end) will be.
        end: Vec<u8>,
        /// The message to the parent.
        tell: Vec<u8>,
        /// It stays on the desk for what is still to do, until it is parked with no wake.
        keep: bool,
    },
}

/// Something that becomes true together with a turn's events.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Puts up a notice; see [`Store::post`](crate::Store::post).
    Post {
        /// What it says.
        body: Vec<u8>,
        /// How long.
        until: Timestamp,
        /// How many there may be.
        most: usize,
    },
    /// Opens a question.
    OpenQuestion {
        /// Its key: unique among all questions the task ever asked.
        key: String,
        /// Who asks.
        op: OpId,
        /// The question.
        body: Vec<u8>,
    },
    /// Removes a question; nothing if it is not open.
    CloseQuestion {
        /// Which.
        key: String,
    },
    /// Removes an open question. If it is not open the turn is refused as
    /// [`Guard`](crate::Refusal::Guard).
    ExpireQuestion {
        /// Who asked.
        op: OpId,
        /// Which.
        key: String,
    },
    /// Queues an activity.
    ScheduleActivity {
        /// Who waits.
        op: OpId,
        /// The registered function.
        name: String,
        /// The secret that lets somebody outside end it.
        token: String,
        /// The rest.
        body: Vec<u8>,
    },
    /// Removes an activity, wherever it is; nothing if it is gone.
    CancelActivity {
        /// Who waited.
        op: OpId,
    },
    /// Starts a child. Its `parent` must be set; the store puts in this task's key. If a task with
    /// its id exists, or one with its dedup key, nothing is started, and the parent gets `exists`
    /// as the child's message, whether or not it wants to be told of the end.
    StartTask {
        /// The child.
        task: Box<NewTask>,
        /// The message if the id is taken.
        exists: Vec<u8>,
    },
    /// Cancels a task, as [`Store::cancel`](crate::Store::cancel) does, whoever it belongs to and
    /// even if it has expired; nothing if it has ended, is not there, or is this task.
    CancelTask {
        /// Which.
        id: TaskId,
        /// How.
        cancel: Box<Cancel>,
    },
    /// Writes a value, or removes it, and puts `notice` into the inbox of all who watch it, this
    /// task included. Where the same notice still lies in an inbox, the new one takes its place
    /// with a new number: a holder that has read the old one, but not yet consumed it, will see it
    /// again.
    WriteState {
        /// Whose.
        scope: String,
        /// Under which key.
        key: String,
        /// The value.
        value: Option<Vec<u8>>,
        /// What the watchers are told.
        notice: Vec<u8>,
    },
    /// The same, unless its version is no longer `expect`: then the turn is refused as
    /// [`Guard`](crate::Refusal::Guard).
    SwapState {
        /// Who writes.
        op: OpId,
        /// Whose.
        scope: String,
        /// Under which key.
        key: String,
        /// The value.
        value: Option<Vec<u8>>,
        /// The version that was read; 0 if the key was never written.
        expect: u64,
        /// What the watchers are told.
        notice: Vec<u8>,
    },
    /// From now on this task is told of changes of a key.
    Watch {
        /// Whose.
        scope: String,
        /// Which key.
        key: String,
    },
    /// No longer.
    Unwatch {
        /// Whose.
        scope: String,
        /// Which key.
        key: String,
    },
    /// Puts a message into a task's inbox, if that task is there, has not ended, does not expire at
    /// or before this turn, and belongs to the same principal (any, if this task has none).
    Send {
        /// To whom.
        to: TaskId,
        /// The message.
        body: Vec<u8>,
    },
}

/// A task that got a message, was cancelled or became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touched {
    /// Which.
    pub key: TaskKey,
    /// This handle's desk holds it, or held it until it was cancelled. If not, it is on the ready
    /// pile, on another's desk, or halted.
    pub here: bool,
}

/// What a turn led to.
#[derive(Clone, Debug, Default)]
pub struct Turned {
    /// Tasks that others should look at, each once, by number. A new child counts, unless it waits
    /// for its time; the task itself if it got a message and is still held.
    pub touched: Vec<Touched>,
    /// There are new activities to run.
    pub activities: bool,
    /// Activities on this handle's desk that were cancelled, by number.
    pub cancelled: Vec<i64>,
    /// With [`After::Park`]: messages had come, so it went to the ready pile.
    pub ready: bool,
}

/// A message to a task.
#[derive(Clone, Debug)]
pub struct SendTo {
    /// To whom.
    pub id: TaskId,
    /// The message.
    pub body: Vec<u8>,
    /// If there is no such task: keep it until then, for a task of the same principal with this id
    /// (any principal, if an operator sends). A task of somebody else is no such task. It is handed
    /// over if the task is created before that time.
    pub keep_until: Option<Timestamp>,
}

/// How to cancel.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// When.
    pub at: Timestamp,
    /// The event to append.
    pub event: Vec<u8>,
    /// The new view.
    pub view: Vec<u8>,
    /// What [`TaskRow::end`](crate::TaskRow::end) will be.
    pub end: Vec<u8>,
    /// The message to the parent.
    pub tell: Vec<u8>,
    /// When it may be removed.
    pub expires: Option<Timestamp>,
    /// Its dedup key is freed by it.
    pub frees: Option<Since>,
}

/// How to suspend.
#[derive(Clone, Debug)]
pub struct Suspend {
    /// When.
    pub at: Timestamp,
    /// The new view.
    pub view: Vec<u8>,
}

/// How to resume.
#[derive(Clone, Debug)]
pub struct Resume {
    /// When.
    pub at: Timestamp,
    /// The new view.
    pub view: Vec<u8>,
}

/// What to take from the ready pile.
#[derive(Clone, Debug)]
pub struct ClaimTasks {
    /// Tools that this process has, with the lowest and highest version it can run. A task that has
    /// no version yet gets the highest.
    pub tools: Vec<(String, u32, u32)>,
    /// At most this many. Owners take turns.
    pub limit: usize,
    /// Parked tasks due at or before this are ready too.
    pub now: Timestamp,
}

impl ClaimTasks {
    /// The version that a task of this tool gets if it has none yet; `None` if the tool is not among
    /// those asked for.
    #[must_use]
    pub fn newest(&self, tool: &str) -> Option<u32> {
        let asked = self.tools.iter().filter(|(name, low, high)| name == tool && low <= high);
        asked.map(|(_, _, high)| *high).max()
    }
}

/// What becomes of a task that too many processes died with.
#[derive(Clone, Debug)]
pub struct Poison {
    /// At this many deaths without progress, or more.
    pub deaths: u32,
    /// When.
    pub at: Timestamp,
    /// Its view then; its status is [`Status::Stuck`].
    pub view: Vec<u8>,
}

/// What was taken from a dead desk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Tasks that are ready again.
    pub ready: u64,
    /// Tasks that were set aside.
    pub poisoned: u64,
    /// Activities that are ready again.
    pub activities: u64,
}

/// What to take from the activity queue.
#[derive(Clone, Debug)]
pub struct ClaimActivities {
    /// Functions that this process has.
    pub names: Vec<String>,
    /// At most this many.
    pub limit: usize,
    /// Those due at or before this, and those whose heartbeat is overdue.
    pub now: Timestamp,
}

/// Proof of holding an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityLease {
    /// Which.
    pub key: i64,
    /// Since which change of hands.
    pub epoch: i64,
}

/// The end of an activity.
#[derive(Clone, Debug)]
pub struct ActivityEnd {
    /// Proof of holding it, or of knowing its token (the row's epoch as it was read).
    pub lease: ActivityLease,
    /// The message to the task.
    pub body: Vec<u8>,
}

/// Another attempt at an activity.
#[derive(Clone, Debug)]
pub struct Retried {
    /// Proof of holding it.
    pub lease: ActivityLease,
    /// When it is due.
    pub due: Timestamp,
    /// The message to the task.
    pub body: Vec<u8>,
}

/// What a sweep removed, and what it left.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Tasks that had ended and are gone.
    pub removed: u64,
    /// Tasks that have expired and have not ended, wherever they are: the engine cancels them.
    pub overdue: Vec<TaskId>,
    /// There may be more: the limit was reached, or it is as much as the store removes at once.
    pub more: bool,
}
