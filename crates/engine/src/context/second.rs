//! Effect validation of a step: its closure runs a second time.

use std::sync::Arc;

use steadfast_core::{Outcome, Retry, StepGrant};

use super::{Shared, StepFn, op::Op, step};
use crate::{panic, twice};

const HINT: &str = "After a crash it may run again: let the attempt's key make it idempotent, take \
                    ids and times from ctx before the step, or mark it at_most_once(), or \
                    result_varies() if nothing but its result differs";

/// What the second run of a step goes by.
pub(super) struct Second {
    pub(super) retry: Option<Retry>,
    pub(super) varies: bool,
}

impl Second {
    /// Runs an attempt, and if it is the last then again, as after a crash that came before the record:
    /// with the same key and number. The first outcome is what counts; none means that the second was
    /// another, and that the task is stopped for it.
    pub(super) async fn run<'a, Args, F: StepFn<'a, Args>>(
        &self,
        shared: &Arc<Shared>,
        name: &str,
        op: &Op,
        function: &mut F,
        grant: StepGrant,
    ) -> Option<Outcome> {
        let first = step::run(shared, name, op, function, grant, false).await;
        if !twice::is_last(&first, grant.attempt, self.retry.as_ref()) {
            return Some(first);
        }
        let again = step::run(shared, name, op, function, grant, true);
        let second = panic::guarded("the step", again).await;
        let Some(unlike) = twice::outcomes(&first, &second, self.varies) else {
            return Some(first);
        };
        let (op, tool) = (op.id, &shared.tool);
        let subject = format!("the step {name:?} (operation {op} of the tool {tool:?})");
        let failure = unlike.report(&shared.id, &subject, HINT);
        shared.machine().reject(failure);
        None
    }
}
