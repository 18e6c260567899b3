//! What is written to a store. Each call is one atomic commit.

mod start;

use steadfast_core::{OpId, Status, TaskId, Timestamp};

pub use self::start::{Bond, Dedup, Keyed, LATE, NewTask, Parent, Since, Started};
use crate::{Lease, TaskKey};

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
