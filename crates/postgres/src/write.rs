//! The calls that are committed together, one file per family.

mod activity;
mod cancel;
mod check;
mod effect;
mod halt;
mod mail;
mod nothing;
mod session;
mod start;
mod turn;

pub(crate) use self::{
    activity::{BeatActivity, EndActivity, RetryActivity},
    cancel::CancelTask,
    halt::{Purge, ResumeTask, SuspendTask},
    mail::{Answer, SendMail},
    nothing::Nothing,
    session::{BeginSession, EndSession, Post},
    start::{StartTask, Unbind},
    turn::TakeTurn,
};
