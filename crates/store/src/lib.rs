//! What the engine asks of a store, a store in memory, and the suite that every store must pass.
//!
//! A store knows rows, not meaning: events, views and messages are bytes to it. What it does know
//! is who holds a task, which is how two processes are kept from running the same one:
//!
//! * A **desk** is one open handle on the store, in practice one process. A task lies on the desk
//!   that holds it, on the ready pile, or nowhere (parked, or over).
//! * A **lease** is the proof of holding: the task's key and its epoch. Each change of hands, and a
//!   cancel, raises the epoch; a write with an older one is refused as [`Refusal::Fenced`].
//!
//! See [`Store`] for the calls and for what is true when the process dies around each. [`moving`] is how
//! all that is in one store gets into another.

#[cfg(feature = "around")]
mod around;
mod change;
mod error;
mod join;
mod memory;
pub mod moving;
mod rows;
mod size;
mod store;
#[cfg(feature = "suite")]
pub mod suite;
mod write;

#[cfg(feature = "around")]
pub use around::Around;
pub use change::{Change, Changes, Which};
pub use error::{Error, Refusal, Result};
pub use join::{Join, Judge, Overruled, Parcel, Prepared, Work};
pub use memory::{Disk, Memory};
pub use rows::{
    ActivityRow, Caller, Claimed, Counts, Desk, Filter, Held, HistoryPage, InboxRow, Lease,
    ListPage, Order, Posted, QuestionRow, SESSION_SCOPE, SessionRow, StateRow, TaskKey, TaskRow,
    session_scope, task_scope,
};
pub use store::{BoxFuture, Store};
pub use write::{
    ActivityEnd, ActivityLease, Adopted, After, Bond, Cancel, ClaimActivities, ClaimTasks, Dedup,
    Effect, Keyed, LATE, NewTask, Parent, Poison, Resume, Retried, SendTo, Since, Started, Suspend,
    Swept, Touched, Turn, Turned,
};
