//! The pure heart of Steadfast: it decides, and never acts.
//!
//! No I/O, no clock, no randomness, no async runtime. Everything here is a function of what it is
//! given, so a failure seen anywhere can be replayed from its inputs.
//!
//! * [`Event`] is one line of a task's append-only history; [`Json`] is a payload in it.
//! * [`Machine`] replays a history against what the task's code asks for ([`Call`]) and decides
//!   what happens next: which result is delivered, which step may start, what must be committed
//!   ([`Turn`]).
//! * [`Message`] is what reaches a task from outside: an answer, a signal, a child's end.
//! * [`Retry`], [`Status`] and [`View`] are the rules that everybody shares.

mod call;
mod event;
mod failure;
mod id;
mod json;
mod machine;
mod message;
mod retry;
mod status;
mod time;

pub use call::{Ask, Call, ChildSpec, Kind, Mode, Scope, Undo};
pub use event::{Carry, DecodeError, Event, Note, Record, decode, encode};
pub use failure::{Failure, FailureKind};
pub use id::{IdError, OpId, Principal, TaskId};
pub use json::Json;
pub use machine::{
    Deferred, Effect, Halt, Limits, Machine, OpPoll, PollKind, StepGrant, Turn, Urgency,
};
pub use message::{Action, Answer, Message, Outcome};
pub use retry::Retry;
pub use status::{Compensation, Progress, Status, View};
pub use time::{Moment, Timestamp, Ttl};
