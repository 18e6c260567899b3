//! Why a task stops.

use crate::{Failure, FailureKind};

/// Why the task can't go on by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Halt {
    /// The code asked for something other than what is recorded.
    NonDeterminism {
        /// What the history holds.
        recorded: String,
        /// What the code did.
        found: String,
    },
    /// The code went on although nothing durable was delivered.
    NotDurable {
        /// What it did then.
        found: String,
    },
    /// A limit was reached; the task fails with this.
    Limit(Failure),
    /// Something did not do the same the second time; the task fails with this.
    Unrepeatable(Failure),
}

impl Halt {
    /// The failure that the task shows.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Halt::NonDeterminism { recorded, found } => Failure::new(
                FailureKind::Usage,
                format!(
                    "the code no longer matches the history: recorded was {recorded}, found was \
                     {found}; restore the old code or gate the change with a version marker, then \
                     resume the task"
                ),
            ),
            Halt::NotDurable { found } => Failure::new(
                FailureKind::Usage,
                format!(
                    "the code awaited something that is not durable: {found}; wrap it in a step, \
                     then resume the task"
                ),
            ),
            Halt::Limit(failure) | Halt::Unrepeatable(failure) => failure.clone(),
        }
    }
}
