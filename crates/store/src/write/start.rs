//! What a task is started with, and what it is known by.

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
    /// The task that starts it. For a child in a [`Turn`](crate::Turn) the store fills in the key.
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
    /// [`Turn`](crate::Turn) is never held.
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
