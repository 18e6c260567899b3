//! Bounds on names and texts. Anything that may be larger is a payload, and bounded by
//! [`Settings::max_payload`](crate::Settings::max_payload).

use steadfast_core::FailureKind;

use crate::{CallError, Error};

/// The longest name or key, in bytes: of tools, steps, activities and undo functions; of tags (and
/// their values), events (and their ids), questions and state; idempotency keys. They stand in
/// indexes and in errors, and some of them in every event of a history.
pub const NAME: usize = 512;

/// Tags of one task.
pub const TAGS: usize = 64;

/// The longest trace context, in bytes. Every child of a task has it too.
pub const TRACE: usize = 8 << 10;

/// The longest text that a task says or fails with, or is cancelled or suspended for, in bytes. It
/// is for people, so a longer one is cut instead of refused.
pub const TEXT: usize = 64 << 10;

/// Something is over one of these limits.
#[derive(Debug)]
pub(crate) struct TooLong {
    what: &'static str,
    size: usize,
    limit: usize,
}

/// The author gets an error that is the same in every replay: the limits can't be set.
impl From<TooLong> for Error {
    fn from(TooLong { what, size, limit }: TooLong) -> Error {
        let message = format!("{what} has {size} bytes, over the limit of {limit}");
        Error::of(FailureKind::Limit, message).permanent()
    }
}

impl From<TooLong> for CallError {
    fn from(TooLong { what, limit, .. }: TooLong) -> CallError {
        CallError::TooLong { what, limit }
    }
}

/// Refuses a name or a key that is too long.
pub(crate) fn name(what: &'static str, name: &str) -> Result<(), TooLong> {
    check(what, name, NAME)
}

/// Refuses a trace context that is too long.
pub(crate) fn trace(trace: &str) -> Result<(), TooLong> {
    check("the trace context", trace, TRACE)
}

fn check(what: &'static str, text: &str, limit: usize) -> Result<(), TooLong> {
    let size = text.len();
    if size > limit { Err(TooLong { what, size, limit }) } else { Ok(()) }
}

/// A text that is kept: a longer one is cut, and says so.
pub(crate) fn clip(mut text: String) -> String {
    if text.len() > TEXT {
        let end = (0..=TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" … (cut)");
    }
    text
}
