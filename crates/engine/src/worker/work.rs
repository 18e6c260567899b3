//! One run of a registered function, or two.

use std::sync::atomic::Ordering;

use steadfast_core::{Failure, FailureKind, Json, Outcome, Retry};
use tokio_util::sync::CancellationToken;

use super::ActivityContext;
use crate::{panic, registry::Function, twice};

const HINT: &str = "After the death of a worker it may run again: let its key make it idempotent, or \
                    call result_varies() in it if nothing but its result differs";

/// A function that is to be run.
pub(crate) struct Work<'a> {
    pub(crate) function: &'a Function,
    pub(crate) what: &'a str,
    pub(crate) name: &'a str,
    pub(crate) retry: &'a Retry,
}

impl Work<'_> {
    /// Runs one attempt; a panic is a failure.
    pub(crate) async fn run(&self, context: &ActivityContext, input: Json) -> Outcome {
        if context.core.settings.validate_effects {
            return Box::pin(self.twice(context, input)).await;
        }
        self.once(context.clone(), input).await
    }

    async fn once(&self, context: ActivityContext, input: Json) -> Outcome {
        let work = guarded(self.function, context, input);
        let Some(limit) = self.retry.attempt_timeout() else { return work.await };
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            let message = format!("the {} {:?} took longer than {limit:?}", self.what, self.name);
            Err(Failure::new(FailureKind::TimedOut, message))
        })
    }

    /// The attempt, and if it is the last then again, as after a death of the worker that came before
    /// the record. The first outcome is what counts.
    async fn twice(&self, context: &ActivityContext, input: Json) -> Outcome {
        let first = self.once(context.clone(), input.clone()).await;
        let last = twice::is_last(&first, context.attempt, Some(self.retry));
        if !last || context.later.is_cancelled() {
            return first;
        }
        // Whether somebody else completes it was said by the first.
        let again = ActivityContext { later: CancellationToken::new(), ..context.clone() };
        let second = self.once(again, input).await;
        let varies = context.varies.load(Ordering::Relaxed);
        let Some(unlike) = twice::outcomes(&first, &second, varies) else { return first };
        let subject = format!("the {} {:?}", self.what, self.name);
        Err(unlike.report(&context.task, &subject, HINT))
    }
}

/// Runs a function; a panic is a failure.
async fn guarded(function: &Function, context: ActivityContext, input: Json) -> Outcome {
    let future = panic::guard("the activity", || (function.run)(context, input))?;
    panic::guarded("the activity", future).await
}
