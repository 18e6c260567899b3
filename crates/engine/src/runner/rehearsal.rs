//! Effect validation of a task's function: it is run again from its own history, and must come to
//! the same point by the same way.

use std::sync::Arc;

use steadfast_core::{Failure, Halt, Json, Machine, Outcome, PollKind, Record, Turn, View};

use super::{Root, Runner};
use crate::{
    Context, Tool,
    context::{Asked, Shared},
    registry::ToolFn,
    twice::{self, Difference},
};

const HINT: &str = "After a crash it would not go on as it began: take time and chance from \
                    ctx.now(), ctx.random() and ctx.uuid(), and do in a step what depends on \
                    anything else outside";

/// What it takes to run a task's function again.
pub(super) struct Rehearsal {
    run: ToolFn,
    /// All turns that were sent, whole.
    history: Vec<Record>,
    /// How much there was the last time.
    seen: usize,
}

impl Rehearsal {
    pub(super) fn new(tool: &Tool, history: &[Record]) -> Rehearsal {
        Rehearsal { run: tool.run.clone(), history: history.to_vec(), seen: 0 }
    }
}

/// Where the code came to, and how.
struct Came<'a> {
    asked: Asked,
    /// What it returned, unless it waits.
    returned: Option<&'a Outcome>,
    next_input: Option<Json>,
    /// Whether it was beyond what had been recorded before.
    live: bool,
}

impl Runner {
    /// A turn is on its way to the store, or a part of it was refused. Until it is known which, the code
    /// is not polled.
    pub(super) fn keep_for_rehearsal(&mut self, turn: &Turn) {
        let Some(rehearsal) = &mut self.rehearsal else { return };
        rehearsal.history.truncate(usize::try_from(turn.first).unwrap_or(usize::MAX));
        rehearsal.history.extend(turn.records().cloned());
    }

    /// Runs the code again up to where it rests now. Often at first, and then whenever the history has
    /// grown by an eighth, so that a long task takes a few times as long and not its square.
    pub(super) fn rehearse(&mut self) {
        let Some(rehearsal) = &mut self.rehearsal else { return };
        let machine = self.shared.machine();
        let rests = machine.is_live() && machine.halted().is_none();
        if !rests || self.returned || self.frozen.is_some() {
            return;
        }
        let length = rehearsal.history.len() + machine.pending().len();
        if length.saturating_sub(rehearsal.seen) * 8 < length {
            return;
        }
        rehearsal.seen = length;
        drop(machine);
        if let Some(failure) = self.run_again(None) {
            self.shared.machine().reject(failure);
        }
    }

    /// The code returned, before that is recorded: the failure in its place if it does not do so again.
    pub(super) fn rehearse_end(&self, kind: PollKind, outcome: &Outcome) -> Option<Failure> {
        self.rehearsal.as_ref()?;
        // Whatever made it return was not durable: the machine says so better.
        let astray = kind == PollKind::Wake || self.shared.machine().halted().is_some();
        if astray { None } else { self.run_again(Some(outcome)) }
    }

    fn run_again(&self, returned: Option<&Outcome>) -> Option<Failure> {
        let rehearsal = self.rehearsal.as_ref()?;
        let machine = self.shared.machine();
        let history = rehearsal.history.iter().chain(machine.pending()).cloned().collect();
        let (next_input, live) = (machine.next_input().cloned(), machine.is_live());
        drop(machine);
        let first = Came { asked: self.shared.asked(), returned, next_input, live };
        let unlike = second_run(&self.shared, &rehearsal.run, history, &first)?;
        let subject = format!("the tool {:?}, run again from its own history,", self.shared.tool);
        Some(unlike.report(&self.shared.id, &subject, HINT))
    }
}

/// Replays a history to its end. Nothing starts during a replay: no closure runs, and what the
/// machine would ask of the world goes with it.
fn second_run(
    task: &Shared,
    run: &ToolFn,
    history: Vec<Record>,
    first: &Came<'_>,
) -> Option<Difference> {
    let limits = task.core.settings.task;
    let machine = Machine::new(history, View::default(), limits)
        .identified_by(&task.id)
        .passing_progress(task.machine().passes_progress());
    let input = machine.input().cloned().unwrap_or_else(Json::null);
    let shared = Arc::new(task.again(machine));
    let (context, run) = (Context { shared: shared.clone() }, run.clone());
    let mut root = Root::new(Box::pin(async move { run(context, input).await }));
    let returned = replay(&shared, &mut root);
    let unlike = match returned {
        Err(failure) => {
            Some(Difference::new("panicked the second time").detail(failure.detail.clone()))
        }
        Ok(returned) => {
            let next_input = shared.machine().next_input().cloned();
            // If the first did not get beyond its history either, the machine has the same to say of it.
            let halt = settle(&mut shared.machine(), &returned, task).filter(|_| first.live);
            let asked = shared.asked();
            let second = Came { asked, returned: returned.as_ref(), next_input, live: first.live };
            compare(first, &second, halt)
        }
    };
    shared.machine().close();
    root.drop_future();
    unlike
}

/// Polls the code once for each result, until it returns or the history is used up.
fn replay(shared: &Shared, root: &mut Root) -> Result<Option<Outcome>, Failure> {
    loop {
        shared.machine().begin_poll(PollKind::Delivery, shared.now());
        if let Some(outcome) = root.poll()? {
            return Ok(Some(outcome));
        }
        let delivered = shared.machine().deliver();
        match delivered {
            None => return Ok(None),
            Some(op) => op.into_iter().for_each(|op| shared.wakers.wake(op)),
        }
    }
}

/// Lets the machine say whether something of the history is left.
fn settle(machine: &mut Machine, returned: &Option<Outcome>, task: &Shared) -> Option<Halt> {
    match returned {
        Some(outcome) => machine.finish(outcome.clone(), task.now()),
        None => drop(machine.go_live()),
    }
    machine.halted().cloned()
}

fn compare(first: &Came<'_>, second: &Came<'_>, halt: Option<Halt>) -> Option<Difference> {
    let ends = || match (first.returned, second.returned) {
        (None, None) => None,
        (Some(_), None) => Some(Difference::new("did not return the second time")),
        (None, Some(_)) => Some(Difference::new("returned too early the second time")),
        (Some(a), Some(b)) => {
            let next = twice::next_inputs(first.next_input.as_ref(), second.next_input.as_ref());
            next.or_else(|| twice::returned(a, b))
        }
    };
    let halted = || halt.as_ref().map(halted);
    twice::calls(&first.asked, &second.asked).or_else(halted).or_else(ends)
}

fn halted(halt: &Halt) -> Difference {
    Difference::new(match halt {
        Halt::NonDeterminism { recorded, found } => {
            format!("no longer matched it: recorded was {recorded}, found was {found}")
        }
        other => format!("stopped: {}", other.failure()),
    })
}
