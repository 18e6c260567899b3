//! From the machine's turn to the store's commit, and what follows from it.

use std::{sync::Arc, time::Duration};

use steadfast_core::{
    Compensation, Effect, Event, Failure, FailureKind, Json, Note, Outcome, Record, Status,
    Timestamp, Turn, Urgency, View, encode,
};
use steadfast_store::{After, Error, Lease, Refusal, TaskRow, Turned};

use super::{Ended, Flight, Frozen, Runner, Then, effects, joint};
use crate::{
    blob::{self, End},
    engine::Core,
    runner::Nudge,
};

/// How long to wait for a store that is not available.
pub(super) const UNAVAILABLE: Duration = Duration::from_millis(200);

/// How a task ends, as its last turn says it.
struct Ending {
    status: Status,
    end: End,
    tell: Outcome,
}

fn ending(turn: &Turn) -> Option<Ending> {
    turn.events.iter().find_map(|record| match &record.event {
        Event::Completed { output } => Some(Ending {
            status: Status::Completed,
            end: End::Completed(output.clone()),
            tell: Ok(output.clone()),
        }),
        Event::Failed { failure } => Some(Ending {
            status: Status::Failed,
            end: End::Failed(failure.clone()),
            tell: Err(child_failure(failure)),
        }),
        _ => None,
    })
}

/// A child's failure as its parent sees it: the same words, another kind.
fn child_failure(failure: &Failure) -> Failure {
    Failure {
        kind: FailureKind::Child,
        code: failure.code.clone(),
        data: failure.data.clone(),
        ..Failure::new(FailureKind::Child, failure.message.clone())
    }
}

impl Runner {
    /// Commits what is pending, if it is time.
    pub(super) fn begin_commit(&mut self) {
        if self.commit.is_some() {
            return;
        }
        let urgency = self.shared.machine().urgency();
        match urgency {
            // It is seen to have begun, also if its first step takes long.
            Urgency::Idle if self.shown.0 == Status::Queued => self.wait_for_company(),
            Urgency::Idle => {}
            Urgency::Now => self.send_turn(),
            Urgency::Soon if self.frozen.is_some() => self.send_turn(),
            Urgency::Soon => self.notes_are_due(),
        }
    }

    /// What the task says is told at once, unless it said something just before: then it waits, and several
    /// go together.
    fn notes_are_due(&mut self) {
        let now = self.core.world.now();
        let soon = self.notes_sent.map_or(now, |sent| sent.plus(self.core.settings.note_delay));
        match soon <= now {
            true => self.send_notes(now),
            false => self.notes_due = Some(self.notes_due.map_or(soon, |due| due.min(soon))),
        }
    }

    pub(super) fn send_notes(&mut self, now: Timestamp) {
        (self.notes_due, self.notes_sent) = (None, Some(now));
        self.send_turn();
    }

    /// Tells those who follow the task how far it is, if that is not recorded.
    pub(super) fn tell_progress(&self) {
        let progress = self.shared.machine().take_progress();
        if !progress.is_empty()
            && let Some(feed) = self.core.watchers.feed(self.lease.key)
        {
            feed.pass(progress);
        }
    }

    fn wait_for_company(&mut self) {
        let now = self.core.world.now();
        self.notes_due.get_or_insert(now.plus(self.core.settings.note_delay));
    }

    pub(super) fn send_turn(&mut self) {
        if self.commit.is_some() {
            return;
        }
        let turn = self.shared.machine().take_turn();
        if !turn.is_empty() || self.shown.0 == Status::Queued {
            self.notes_due = None;
            self.launch(turn, self.applied);
        }
    }

    /// Sends a turn to the store, and with it that messages up to `applied` are in it. A turn that
    /// goes out again must not speak of those that came after it: they are in the next one.
    fn launch(&mut self, turn: Turn, applied: i64) {
        self.hold = !turn.deferred.is_empty();
        let joint = turn.joint().map(|op| (op, self.shared.joints().remove(&op)));
        // Messages are consumed by a turn of the store's own.
        let applied = if joint.is_some() { self.consumed } else { applied };
        self.keep_for_rehearsal(&turn);
        let now = self.core.world.now();
        let ending = ending(&turn);
        let (status, mut view) = self.view();
        let status = ending.as_ref().map_or(status, |ending| ending.status);
        let undos = self.shared.machine().undos().len();
        let undoes = status == Status::Failed && undos > 0;
        if undoes {
            let total = u32::try_from(undos).unwrap_or(u32::MAX);
            view.compensation = Some(Compensation::Running { done: 0, total });
        }
        let shown = (status, view);
        let write = Write {
            lease: self.lease,
            at: now,
            turn: &turn,
            consumed: (applied > self.consumed).then_some(applied),
            view: (shown != self.shown).then_some(&shown),
            progress: self.died,
            ending: ending.as_ref(),
            expires: self.about.retention.expiry(now),
            undoes,
        };
        let first = write.build(&self.shared);
        let store = self.core.store.clone();
        let flight = Flight {
            consumed: applied,
            ended: ending.as_ref().map(|ending| Ended {
                at: now,
                expires: self.about.retention.expiry(now),
                end: blob::write(&ending.end),
            }),
            shown: shown.clone(),
            turn,
            verdict: None,
            result: Ok(Turned::default()),
        };
        if let Some((op, joint)) = joint {
            self.commit = Some(Box::pin(joint::commit(store, first, flight, op, joint)));
            return;
        }
        // An ordinary commit: one try. What to do about a store that is not available is decided
        // when it is back.
        self.commit = Some(Box::pin(async move {
            let mut first = first;
            effects::complete_cancels(&store, &mut first).await;
            let result = store.turn(first).await;
            Flight { result, ..flight }
        }));
    }

    /// A commit is back.
    pub(super) async fn landed(&mut self, flight: Flight) -> Option<Then> {
        self.hold = false;
        let Flight { mut turn, consumed, shown, ended, verdict, result } = flight;
        let result = match verdict {
            None => result,
            Some(verdict) => Box::pin(self.judged(&mut turn, &verdict, result)).await,
        };
        match result {
            Ok(turned) => {
                self.consumed = consumed;
                self.died = false;
                let visible = shown != self.shown || ended.is_some();
                self.shown = shown;
                self.shared.machine().committed(&turn);
                self.follow_up(&turn, &turned);
                let says = |r: &Record| matches!(r.event, Event::Noted { .. });
                let asks = |r: &Record| matches!(r.event, Event::QuestionAsked { .. });
                let asks = turn.events.iter().any(asks);
                let progress = self.shared.machine().take_progress();
                if let Some(feed) = self.core.watchers.feed(self.lease.key) {
                    let asking = self.shown.0 == Status::InputRequired;
                    feed.landed(&turn, progress, ended.is_none() && !turn.restart && !asking);
                    // One question in place of another shows in the questions alone.
                    if visible || asks || turn.events.iter().any(says) {
                        feed.notify.notify_waiters();
                    }
                }
                if asks || notices(&turn).next().is_some() {
                    self.core.watchers.news();
                }
                if let Some(ended) = ended {
                    let (task, owner) = (&self.shared.id, self.nudge.owner.as_ref());
                    let (status, principal) = (self.shown.0, owner.map(tracing::field::display));
                    tracing::info!(target: "steadfast::audit", principal, %task, %status, "task ended");
                    let failed = self.shown.0 == Status::Failed;
                    let undoes = failed && !self.shared.machine().undos().is_empty();
                    // Said before what is left to do, which may take long.
                    let row = self.nudge.is_watched().then(|| Arc::new(self.last_row(ended)));
                    self.nudge.leave(row);
                    return Some(if undoes { Then::CleanUp } else { Then::Nothing });
                }
                if turn.restart {
                    return Some(Then::Again(turn.events));
                }
                self.start_steps();
                None
            }
            Err(Error::Refused(Refusal::Guard(op))) => {
                let wake = self.shared.machine().refused(&mut turn, op);
                self.keep_for_rehearsal(&turn);
                self.nudge.set(Nudge::MAIL);
                if !turn.is_empty() {
                    self.launch(turn, consumed);
                }
                if wake {
                    self.start_steps();
                }
                None
            }
            Err(Error::Refused(refusal)) => {
                tracing::debug!(task = %self.shared.id, %refusal, "the task is no longer ours");
                self.shared.cancel.cancel();
                // Cancelled elsewhere it lies here until we have let go of it.
                self.nudge.set_doubt();
                Some(Then::Nothing)
            }
            Err(Error::Unavailable(reason)) => {
                tracing::warn!(task = %self.shared.id, reason, "a commit was not taken; trying again");
                tokio::time::sleep(UNAVAILABLE).await;
                self.launch(turn, consumed);
                None
            }
            Err(Error::Corrupt(reason)) => {
                let failure = Failure::new(FailureKind::Payload, reason);
                Some(Box::pin(self.stick(failure)).await)
            }
            Err(error) => {
                tracing::error!(task = %self.shared.id, %error, "a commit's outcome is not known");
                self.shared.cancel.cancel();
                // If it happened, others must hear what it did.
                self.core.doubt.notify_one();
                Some(Then::Reload)
            }
        }
    }

    /// The row as the store holds it now, so that those who wait need not read it.
    fn last_row(&self, ended: Ended) -> TaskRow {
        TaskRow {
            status: self.shown.0,
            view: blob::write(&self.shown.1),
            updated: ended.at,
            ended: Some(ended.at),
            expires: ended.expires,
            end: Some(ended.end),
            wake: None,
            ..self.row.clone()
        }
    }

    fn follow_up(&self, turn: &Turn, turned: &Turned) {
        let cancels = |effect: &Effect| matches!(effect, Effect::CancelChild { .. });
        let why = if turn.effects.iter().any(cancels) { Nudge::LOOK } else { Nudge::MAIL };
        self.core.touched(&turned.touched, why);
        if turned.activities {
            self.core.work.notify_one();
        }
        crate::worker::cancel(&self.core, &turned.cancelled);
    }

    /// When the task leaves memory if nothing happens.
    pub(super) fn parks_at(&self) -> Option<Timestamp> {
        if self.commit.is_some() || self.returned {
            return None;
        }
        let machine = self.shared.machine();
        let now = self.core.world.now();
        match self.frozen {
            Some(Frozen::Suspended | Frozen::GoingDown) => {
                let idle = machine.steps_in_flight() == 0 && machine.urgency() == Urgency::Idle;
                idle.then_some(now)
            }
            // It is of no use without this process, and if that dies it must be found on its desk.
            None if self.row.bound.is_some() => None,
            None => machine.can_park().then(|| now.plus(self.core.settings.park_after)),
        }
    }
}

/// What a turn has for whoever reads notices.
fn notices(turn: &Turn) -> impl Iterator<Item = &Json> {
    turn.events.iter().filter_map(|record| match &record.event {
        Event::Noted { note: Note::Notice(body), .. } => Some(body),
        _ => None,
    })
}

struct Write<'a> {
    lease: Lease,
    at: Timestamp,
    turn: &'a Turn,
    consumed: Option<i64>,
    view: Option<&'a (Status, View)>,
    progress: bool,
    ending: Option<&'a Ending>,
    expires: Option<Timestamp>,
    undoes: bool,
}

impl Write<'_> {
    fn build(self, shared: &Arc<crate::context::Shared>) -> steadfast_store::Turn {
        let all = self.turn.effects.iter().chain(self.turn.deferred.iter().map(|d| &d.effect));
        steadfast_store::Turn {
            lease: self.lease,
            at: self.at,
            first: self.turn.first,
            events: self.turn.records().map(encode).collect(),
            restart: self.turn.restart,
            consumed: self.consumed,
            view: self.view.map(|(status, view)| (*status, blob::write(view))),
            progress: self.progress,
            effects: all
                .filter_map(|effect| effects::convert(shared, effect, self.at))
                .chain(notices(self.turn).map(|body| shared.core.post(body, self.at)))
                .collect(),
            after: match self.ending {
                None => After::Keep,
                Some(ending) => After::End {
                    status: ending.status,
                    expires: self.expires,
                    end: blob::write(&ending.end),
                    tell: blob::tell_parent(ending.tell.clone()),
                    keep: self.undoes,
                },
            },
        }
    }
}

/// Commits a turn, for as long as it takes the store to be available. `None` means that the task is
/// no longer ours, or that nobody can say.
pub(super) async fn insist(
    core: &Core,
    make: impl Fn() -> steadfast_store::Turn,
) -> Option<Turned> {
    loop {
        match core.store.turn(make()).await {
            Ok(turned) => return Some(turned),
            Err(Error::Unavailable(reason)) => {
                tracing::warn!(reason, "a commit was not taken; trying again");
                tokio::time::sleep(UNAVAILABLE).await;
            }
            Err(error) => {
                tracing::debug!(%error, "a commit was refused");
                // Cancelled elsewhere it lies here until we have let go of it.
                core.doubt_of(make().lease);
                return None;
            }
        }
    }
}
