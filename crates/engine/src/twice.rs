//! Effect validation: what was not the same the second time, and how that is said.
//!
//! Values may be secret, so messages and the log say where two of them differ. The values are in the
//! failure's detail, for the operator, whose histories hold them anyway.

mod calls;
mod json;

pub(crate) use calls::calls;
use json::{clipped, values};
use steadfast_core::{Failure, FailureKind, Json, Outcome, Retry, TaskId};

/// How the second time differed from the first.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    what: String,
    detail: Option<String>,
}

impl Difference {
    pub(crate) fn new(what: impl Into<String>) -> Difference {
        Difference { what: what.into(), detail: None }
    }

    pub(crate) fn detail(mut self, detail: Option<String>) -> Difference {
        self.detail = detail;
        self
    }

    /// What the task, or the activity, fails with. Also says so in the log.
    pub(crate) fn report(self, task: &TaskId, subject: &str, hint: &str) -> Failure {
        let Difference { what, detail } = self;
        let message = format!("effect validation: {subject} {what}. {hint}");
        tracing::warn!(target: "steadfast::effects", %task, "{message}");
        Failure { detail, ..Failure::new(FailureKind::Unrepeatable, message).permanently() }
    }
}

/// Whether an attempt is the last, and so worth a second run: what fails and is tried again is run
/// again anyway.
pub(crate) fn is_last(outcome: &Outcome, attempt: u32, retry: Option<&Retry>) -> bool {
    let gives_up = |failure, retry: &Retry| retry.after(attempt, failure, 0).is_none();
    match outcome {
        Ok(_) => true,
        Err(failure) => retry.is_none_or(|retry| gives_up(failure, retry)),
    }
}

/// Compares what a closure did the first and the second time. Two results of one that `varies` are
/// the same.
pub(crate) fn outcomes(first: &Outcome, second: &Outcome, varies: bool) -> Option<Difference> {
    Some(match (first, second) {
        (Ok(_), Ok(_)) if varies => return None,
        (Ok(first), Ok(second)) => results(first, second)?,
        (Ok(_), Err(failure)) => Difference::new(format!(
            "succeeded the first time and failed the second, with {}",
            said(failure)
        ))
        .detail(failure.detail.clone()),
        (Err(failure), Ok(_)) => Difference::new(format!(
            "failed the first time, with {}, and succeeded the second",
            said(failure)
        )),
        // The text of an error may name an address or a time.
        (Err(first), Err(second)) if (first.kind, &first.code) == (second.kind, &second.code) => {
            return None;
        }
        (Err(first), Err(second)) => errors(first, second),
    })
}

/// Compares what a function returned the first and the second time. It has no excuse for another
/// text either: whatever happens outside is recorded.
pub(crate) fn returned(first: &Outcome, second: &Outcome) -> Option<Difference> {
    match (first, second) {
        (Err(first), Err(second)) => (first != second).then(|| errors(first, second)),
        _ => outcomes(first, second, false),
    }
}

/// Compares the inputs with which a function continues as new.
pub(crate) fn next_inputs(first: Option<&Json>, second: Option<&Json>) -> Option<Difference> {
    match (first, second) {
        (None, None) => None,
        (Some(first), Some(second)) => {
            let other = values(first, second)?;
            let what = format!("continued as new with another input, {}", other.place);
            Some(Difference::new(what).detail(Some(other.detail)))
        }
        (Some(_), None) => Some(Difference::new("continued as new the first time only")),
        (None, Some(_)) => Some(Difference::new("continued as new the second time only")),
    }
}

fn results(first: &Json, second: &Json) -> Option<Difference> {
    let other = values(first, second)?;
    let what = format!("had another result the second time, {}", other.place);
    Some(Difference::new(what).detail(Some(other.detail)))
}

fn errors(first: &Failure, second: &Failure) -> Difference {
    let what = format!(
        "failed the first time with {} and the second time with {}",
        said(first),
        said(second)
    );
    let data = [first, second].map(|failure| failure.data.as_ref().map(|data| data.text()));
    let data = data.map(|data| clipped(data.unwrap_or("nothing")));
    Difference::new(what).detail(Some(format!("data: {}, then {}", data[0], data[1])))
}

fn said(failure: &Failure) -> String {
    let code = failure.code.as_ref().map(|code| format!(" (code {})", clipped(code)));
    format!("{:?}{}", clipped(&failure.message), code.unwrap_or_default())
}
