//! How a task leaves memory other than by ending.

use std::{sync::Arc, time::Duration};

use steadfast_core::{Event, Failure, FailureKind, Halt, Record, Status, View, decode, encode};
use steadfast_store::{After, Change, InboxRow, Lease, Order, TaskRow, Turn};

use super::{Frozen, Runner, Then, turn::insist};
use crate::{CallError, blob, engine::Core};

/// A turn that appends nothing.
fn empty(lease: Lease, core: &Core, after: After) -> Turn {
    Turn {
        lease,
        at: core.world.now(),
        first: 0,
        events: Vec::new(),
        restart: false,
        consumed: None,
        view: None,
        progress: false,
        effects: Vec::new(),
        after,
    }
}

impl Runner {
    /// What the world should see of the task now.
    pub(super) fn view(&self) -> (Status, View) {
        let (status, view) = self.shared.machine().view();
        (status, View { reason: self.reason.clone(), ..view })
    }

    /// Leaves memory: the task is a row until something comes for it.
    pub(super) async fn park(&mut self) -> Option<Then> {
        let shown = self.view();
        let wake = self.shared.machine().next_deadline();
        if self.frozen == Some(Frozen::GoingDown)
            && self.row.bound.is_some()
            && is_abandoned(&self.core, &self.row).await
        {
            return Some(Then::Nothing);
        }
        let after = match self.frozen {
            // One that is still suspended waits for its resume, and one that was resumed meanwhile
            // goes on.
            Some(Frozen::GoingDown | Frozen::Suspended) => After::Yield,
            None => After::Park { wake },
        };
        let turn = Turn {
            consumed: (self.applied > self.consumed).then_some(self.applied),
            view: (shown != self.shown).then(|| (shown.0, blob::write(&shown.1))),
            ..empty(self.lease, &self.core, after)
        };
        let parked = insist(&self.core, || turn.clone()).await;
        if parked.is_some() {
            // Ready at once if mail had come, or due before anything the dispatcher knows of.
            self.core.dispatch.notify_one();
            self.core.watchers.changed(self.lease.key);
        }
        Some(Then::Nothing)
    }

    /// The machine said stop. A broken limit, or something that can't be repeated, fails the task;
    /// anything else sets it aside.
    pub(super) async fn stop(&mut self) -> Option<Then> {
        let halt = self.shared.machine().halted().cloned()?;
        loop {
            if let Some(commit) = self.commit.take() {
                let flight = commit.await;
                if let Some(then) = self.landed(flight).await {
                    return Some(then);
                }
            }
            // What happened before the code went astray did happen: steps that ended must not run
            // again for it.
            let over = matches!(halt, Halt::Limit(_) | Halt::Unrepeatable(_));
            if self.commit.is_none() && !over {
                self.send_turn();
            }
            if self.commit.is_none() {
                break;
            }
        }
        if let Halt::Limit(failure) | Halt::Unrepeatable(failure) = halt {
            self.returned = true;
            self.shared.machine().fail(failure, self.core.world.now());
            return None;
        }
        tracing::error!(task = %self.shared.id, failure = %halt.failure(), "the task is stuck");
        Some(self.stick(halt.failure()).await)
    }

    /// Sets the task aside with the reason, until somebody resumes it.
    pub(super) async fn stick(&mut self, failure: Failure) -> Then {
        let now = self.core.world.now();
        let event = encode(&Record { at: now, event: Event::Stuck { failure: failure.clone() } });
        let view = View { failure: Some(failure), ..self.shown.1.clone() };
        let first = self.shared.machine().durable();
        let turn = Turn {
            first,
            events: vec![event],
            view: Some((Status::Stuck, blob::write(&view))),
            ..empty(self.lease, &self.core, After::Park { wake: None })
        };
        self.shared.cancel.cancel();
        insist(&self.core, || turn.clone()).await;
        self.core.watchers.changed(self.lease.key);
        Then::Nothing
    }
}

/// Sets aside a task whose history can't even be read.
pub(super) async fn set_aside(core: &Arc<Core>, row: &TaskRow, lease: Lease, reason: String) {
    tracing::error!(task = %row.id, reason, "the task is stuck");
    let failure = Failure::new(FailureKind::Payload, reason);
    let view = View { failure: Some(failure), ..blob::read_view(&row.view) };
    let turn = Turn {
        view: Some((Status::Stuck, blob::write(&view))),
        ..empty(lease, core, After::Park { wake: None })
    };
    insist(core, || turn.clone()).await;
    core.watchers.changed(row.key);
}

/// Hands a task back as it is: its tool is not here after all, or it must not begin now.
pub(super) async fn hand_back(core: &Arc<Core>, lease: Lease) {
    if insist(core, || put_back(core, lease)).await.is_some() {
        core.dispatch.notify_one();
    }
}

/// Gives up a task that came to an engine after it had stopped. If it was dropped, the next one on
/// the same handle may have looked at their desk before the task lay there.
pub(crate) async fn return_to_store(core: &Core, lease: Lease) {
    if let Err(error) = core.store.turn(put_back(core, lease)).await {
        tracing::debug!(%error, "a task that came too late could not be put back");
    }
    core.store.changed().tell(Change::anything());
}

/// The turn that puts a task back on the ready pile.
pub(crate) fn put_back(core: &Core, lease: Lease) -> Turn {
    empty(lease, core, After::Yield)
}

/// Whether a task was bound to a process that is gone, or is going: then it is cancelled, and somebody
/// takes up what is left to do.
pub(super) async fn is_abandoned(core: &Arc<Core>, row: &TaskRow) -> bool {
    let tasks = crate::Tasks::new(core.clone(), None);
    loop {
        match tasks.cancel_abandoned(&row.id).await {
            Ok(cancelled) => return cancelled,
            // Gone, or over, by somebody else's hand.
            Err(CallError::Unknown(_) | CallError::Expired(_) | CallError::Terminal { .. }) => {
                return true;
            }
            Err(error) => {
                tracing::warn!(task = %row.id, %error, "can't end a task with its process; again soon");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Reads a task anew that we still hold; `None` if we don't, or it has ended.
pub(super) async fn reload(
    core: &Arc<Core>,
    lease: Lease,
) -> Option<(TaskRow, Vec<Record>, Vec<InboxRow>)> {
    loop {
        match read(core, lease).await {
            Ok(loaded) => return loaded,
            Err(error) => {
                tracing::warn!(%error, "can't read a task; trying again");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn read(
    core: &Arc<Core>,
    lease: Lease,
) -> steadfast_store::Result<Option<(TaskRow, Vec<Record>, Vec<InboxRow>)>> {
    let Some(row) = core.store.row(lease.key).await? else { return Ok(None) };
    let ours = row.desk == Some(core.store.desk()) && row.epoch == lease.epoch;
    if !ours || row.status.is_terminal() {
        return Ok(None);
    }
    let history = history(core, lease).await?;
    let inbox = core.store.inbox(lease.key, 0).await?;
    Ok(Some((row, history, inbox)))
}

/// A task's whole history.
pub(super) async fn history(
    core: &Arc<Core>,
    lease: Lease,
) -> steadfast_store::Result<Vec<Record>> {
    let whole = core.store.history(lease.key, Order::OldestFirst, None, usize::MAX).await?;
    let corrupt =
        |error: steadfast_core::DecodeError| steadfast_store::Error::Corrupt(error.to_string());
    whole.events.iter().map(|(seq, line)| decode(*seq, line).map_err(corrupt)).collect()
}
