//! What is left to do after the end: cancelling children, and taking steps back.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use steadfast_core::{
    Compensation, Event, Failure, FailureKind, OpId, Record, Retry, Status, TaskId, Undo, View,
    encode,
};
use steadfast_store::{After, Effect, Lease, TaskRow, Turn};

use super::{effects, park, turn::insist};
use crate::{blob, engine::Core, tasks::cancel_write, worker};

/// What a history says is still to be done.
#[derive(Default)]
struct Left {
    children: BTreeMap<OpId, TaskId>,
    /// Oldest first.
    undos: Vec<Undo>,
    done: u32,
    failed: Option<Failure>,
}

fn left(history: &[Record]) -> Left {
    let mut left = Left::default();
    for record in history {
        match &record.event {
            Event::Started { carry: Some(carry), .. } => left.undos.clone_from(&carry.undos),
            Event::ChildStarted { op, id, detached: false, .. } => {
                left.children.insert(*op, id.clone());
            }
            Event::ChildCompleted { op, .. }
            | Event::ChildFailed { op, .. }
            | Event::Dropped { op } => {
                left.children.remove(op);
            }
            Event::UndoRecorded { undo, .. } => left.undos.push(undo.clone()),
            Event::Undone { failure, .. } => {
                left.done += 1;
                left.failed = left.failed.or_else(|| failure.clone());
            }
            _ => {}
        }
    }
    left
}

/// Does what is left, recording each part, and then lets go of the task for good. If it is stopped,
/// whoever comes next takes it up again.
pub(super) async fn clean_up(core: &Arc<Core>, lease: Lease) {
    let Some((row, history)) = load(core, lease).await else { return };
    let mut left = left(&history);
    let mut scribe =
        Scribe { core, lease, next: history.len() as u64, view: blob::read_view(&row.view), row };
    let children = std::mem::take(&mut left.children);
    if scribe.row.status == Status::Cancelled && !children.is_empty() {
        let reason = || Some("its parent was cancelled".to_owned());
        let now = core.world.now();
        let effects = children.values().map(|id| Effect::CancelTask {
            id: id.clone(),
            cancel: Box::new(cancel_write(reason(), now, core.settings.retention)),
        });
        if !scribe.write(Vec::new(), effects.collect(), After::Keep).await {
            return;
        }
    }
    if !left.undos.is_empty() {
        let total = u32::try_from(left.undos.len()).unwrap_or(u32::MAX);
        let start = usize::try_from(left.done).unwrap_or(usize::MAX);
        let undos = std::mem::take(&mut left.undos).into_iter().enumerate();
        let todo: Vec<(usize, Undo)> = undos.rev().skip(start).collect();
        let running = Some(Compensation::Running { done: left.done, total });
        if !todo.is_empty() && scribe.view.compensation != running {
            scribe.view.compensation = running;
            if !scribe.write(Vec::new(), Vec::new(), After::Keep).await {
                return;
            }
        }
        for (number, undo) in todo {
            let failure = take_back(core, &scribe.row, &undo, number).await.err();
            left.done += 1;
            left.failed = left.failed.or_else(|| failure.clone());
            let event = Event::Undone { function: undo.function, failure };
            scribe.view.compensation = Some(Compensation::Running { done: left.done, total });
            if !scribe.write(vec![event], Vec::new(), After::Keep).await {
                return;
            }
        }
        scribe.view.compensation = Some(match left.failed.take() {
            None => Compensation::Done,
            Some(failure) => Compensation::Failed { failure },
        });
    }
    scribe.write(Vec::new(), Vec::new(), After::Park { wake: None }).await;
}

async fn load(core: &Arc<Core>, lease: Lease) -> Option<(TaskRow, Vec<Record>)> {
    loop {
        let row = core.store.row(lease.key).await;
        let history = park::history(core, lease).await;
        match (row, history) {
            (Ok(Some(row)), Ok(history)) if row.epoch == lease.epoch => {
                return Some((row, history));
            }
            (Ok(_), Ok(_)) => return None,
            (Err(error), _) | (_, Err(error)) => {
                tracing::warn!(%error, "can't read a task that has ended; trying again");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Writes to a task that has ended.
struct Scribe<'a> {
    core: &'a Arc<Core>,
    lease: Lease,
    next: u64,
    view: View,
    row: TaskRow,
}

impl Scribe<'_> {
    async fn write(&mut self, events: Vec<Event>, effects: Vec<Effect>, after: After) -> bool {
        let at = self.core.world.now();
        let events: Vec<_> =
            events.into_iter().map(|event| encode(&Record { at, event })).collect();
        let count = events.len() as u64;
        let mut turn = Turn {
            lease: self.lease,
            at,
            first: self.next,
            events,
            restart: false,
            consumed: None,
            view: Some((self.row.status, blob::write(&self.view))),
            progress: self.row.deaths > 0,
            effects,
            after,
        };
        effects::complete_cancels(&self.core.store, &mut turn).await;
        let turned = insist(self.core, || turn.clone()).await;
        let Some(turned) = turned else { return false };
        self.core.touched(&turned.touched, super::Nudge::LOOK);
        worker::cancel(self.core, &turned.cancelled);
        self.core.watchers.changed(self.lease.key);
        self.next += count;
        true
    }
}

/// Runs one undo function, again after errors.
async fn take_back(
    core: &Arc<Core>,
    row: &TaskRow,
    undo: &Undo,
    number: usize,
) -> Result<(), Failure> {
    let registry = core.registry();
    let Some(function) = registry.functions.get(&undo.function) else {
        let message = format!("there is no function {:?} in this process", undo.function);
        return Err(Failure::new(FailureKind::Usage, message).permanently());
    };
    let retry = Retry::exponential().attempts(10);
    let mut attempt = 1;
    loop {
        let context = worker::ActivityContext::for_undo(core, &row.id, number, attempt);
        let name = undo.function.as_str();
        let work = worker::Work { function, what: "undo function", name, retry: &retry };
        match work.run(&context, undo.input.clone()).await {
            Ok(_) => return Ok(()),
            Err(failure) => match retry.after(attempt, &failure, core.world.random() as u64) {
                None => return Err(failure),
                Some(delay) => tokio::time::sleep(delay).await,
            },
        }
        attempt += 1;
    }
}
