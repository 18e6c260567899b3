//! What an author's code returns when it fails, and what it gets when an operation does.

use std::fmt;

use serde::Serialize;
use steadfast_core::{Failure, FailureKind, Json};

/// The result of a task, a step, or a durable operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that can be recorded and that comes back the same after a crash.
///
/// Any `std::error::Error` turns into one with `?`. Its text is kept, with those of its sources.
/// Give it a [code](Error::code) to let retry rules go by it.
///
/// ```
/// use steadfast_engine::Error;
/// let busy = Error::new("the printer is busy").code("busy");
/// let hopeless = Error::new("there is no such printer").permanent();
/// ```
#[derive(Clone, PartialEq)]
pub struct Error(pub(crate) Box<Failure>);

impl Error {
    /// An error with a message, of which 64 KiB are kept.
    pub fn new(message: impl fmt::Display) -> Error {
        Error::of(FailureKind::Error, message)
    }

    pub(crate) fn of(kind: FailureKind, message: impl fmt::Display) -> Error {
        Error(Box::new(Failure::new(kind, crate::limits::clip(message.to_string()))))
    }

    /// Names it, for [`Retry::only`](crate::Retry::only) and its like.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Error {
        self.0.code = Some(crate::limits::clip(code.into()));
        self
    }

    /// Adds structured detail for the caller. What is larger than a payload may be is left out when the
    /// error is recorded, and the message says so.
    #[must_use]
    pub fn data(mut self, data: &impl Serialize) -> Error {
        self.0.data = Json::of(data).ok();
        self
    }

    /// Says that no retry can help.
    #[must_use]
    pub fn permanent(mut self) -> Error {
        self.0.permanent = true;
        self
    }

    /// What kind of thing went wrong.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        self.0.kind
    }

    /// Whether this is an at-most-once step that was started in an earlier life of the process and
    /// whose end was never recorded: it may have taken effect, and will not be run again.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.0.kind == FailureKind::Unfinished
    }

    /// Whether it ran out of time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.0.kind == FailureKind::TimedOut
    }

    /// The author's name for it.
    #[must_use]
    pub fn code_name(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// Whether a retry can help.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.0.permanent
    }

    /// What is recorded of it.
    #[must_use]
    pub fn failure(&self) -> &Failure {
        &self.0
    }

    pub(crate) fn recorded(failure: Failure) -> Error {
        Error(Box::new(failure))
    }

    pub(crate) fn into_failure(self) -> Failure {
        *self.0
    }

    /// What is recorded of an error of the author's, with data of at most this many bytes. The rest of
    /// it stays, whatever its data: retry rules, and those who look for the cause, go by it.
    pub(crate) fn recorded_within(self, most: usize) -> Failure {
        let mut failure = self.into_failure();
        if let Some(data) = failure.data.take_if(|data| data.text().len() > most) {
            let size = data.text().len();
            failure.message += &format!(
                " (its data has {size} bytes of JSON, over the limit of {most}: left out)"
            );
        }
        failure
    }
}

/// `Error` itself is deliberately no `std::error::Error`, so that this can exist and `?` works on
/// everything.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Error {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors already quote their cause.
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        Error::new(text)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Short where a program that ends with it shows it to its user.
        match self.0.kind {
            FailureKind::Error => f.write_str(&self.0.message)?,
            kind => write!(f, "{kind:?} error: {}", self.0.message)?,
        }
        if let Some(code) = &self.0.code {
            write!(f, " (code {code})")?;
        }
        Ok(())
    }
}
