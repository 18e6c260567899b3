//! What a commit must hold, and what follows from its success or refusal.

use super::{
    Effect, Machine,
    op::Phase,
    recorded::{Delivery, delivery},
};
use crate::{Call, Event, Note, OpId, Record, Status, View};

/// How soon what is pending must be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing is pending.
    Idle,
    /// Only notes: they may wait a moment for company.
    Soon,
    /// Something depends on it.
    Now,
}

/// An event that the code learns of only once its commit has succeeded, because the commit can be
/// refused for the effect that goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Deferred {
    /// The operation that it ends.
    pub op: OpId,
    /// The event.
    pub record: Record,
    /// The effect that may be refused.
    pub effect: Effect,
}

/// What one commit holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// The number of its first event in the history.
    pub first: u64,
    /// What happened.
    pub events: Vec<Record>,
    /// What is asked of the world.
    pub effects: Vec<Effect>,
    /// Ends that may be refused; their events come after `events`.
    pub deferred: Vec<Deferred>,
    /// The history begins anew with this turn.
    pub restart: bool,
}

impl Turn {
    /// All its events, in order.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.events.iter().chain(self.deferred.iter().map(|d| &d.record))
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.effects.is_empty() && self.deferred.is_empty()
    }
}

impl Machine {
    /// Appends an event that others can depend on.
    pub(super) fn append(&mut self, event: Event) {
        let record = Record { at: self.wall, event };
        if let Some(delivery) = delivery(&record.event) {
            self.deliveries.push_back((record.at, delivery));
        }
        self.pending.push(record);
        self.appended += 1;
        self.firm = self.appended;
    }

    pub(super) fn append_note(&mut self, op: Option<OpId>, note: Note) {
        match &note {
            Note::Status(text) => self.view.message = Some(text.clone()),
            Note::Progress(progress) => self.view.progress = Some(progress.clone()),
            Note::Log { .. } | Note::Notice(_) => {}
            Note::Mark { name, value } => {
                self.view.marks.insert(name.clone(), value.clone());
            }
        }
        // Of the progress that a step reports in a row only the last matters.
        if let (None, Note::Progress(_), Some(last)) = (op, &note, self.pending.last_mut())
            && matches!(last.event, Event::Noted { op: None, note: Note::Progress(_) })
        {
            last.event = Event::Noted { op, note };
            return;
        }
        self.pending.push(Record { at: self.wall, event: Event::Noted { op, note } });
        self.appended += 1;
    }

    /// How soon [`take_turn`](Machine::take_turn) should be called.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        let notes = self.pending.iter().all(|r| matches!(r.event, Event::Noted { .. }));
        match (self.pending.is_empty(), notes) {
            _ if !self.effects.is_empty() || !self.deferred.is_empty() => Urgency::Now,
            (true, _) => Urgency::Idle,
            (false, true) => Urgency::Soon,
            (false, false) => Urgency::Now,
        }
    }

    /// Takes what the next commit must hold.
    pub fn take_turn(&mut self) -> Turn {
        let first = self.appended - self.pending.len() as u64;
        let deferred = self.take_deferred();
        if !deferred.is_empty() {
            self.deliveries.push_back((self.now, Delivery::Undecided { first }));
        }
        self.appended += deferred.len() as u64;
        self.firm = self.appended.max(self.firm);
        Turn {
            first,
            events: std::mem::take(&mut self.pending),
            effects: std::mem::take(&mut self.effects),
            deferred,
            restart: self.restart && first == 0,
        }
    }

    /// The turn is durable.
    pub fn committed(&mut self, turn: &Turn) {
        if self.is_of_old_run(turn) {
            return;
        }
        self.durable = turn.first + turn.records().count() as u64;
        self.decide(turn);
    }

    /// Replaces the mark of a turn's deferred ends by what is left of them.
    fn decide(&mut self, turn: &Turn) {
        let mark =
            |d: &Delivery| matches!(d, Delivery::Undecided { first } if *first == turn.first);
        let Some(place) = self.deliveries.iter().position(|(_, d)| mark(d)) else { return };
        let behind = self.deliveries.split_off(place);
        for Deferred { record, .. } in &turn.deferred {
            self.deliveries.extend(delivery(&record.event).map(|d| (record.at, d)));
        }
        self.deliveries.extend(behind.into_iter().skip(1));
    }

    /// The task began anew while the turn was under way: its numbers mean nothing any more.
    fn is_of_old_run(&self, turn: &Turn) -> bool {
        self.restart && !turn.restart
    }

    /// The store refused the deferred end of `op`: takes it out of the turn, to be committed again
    /// without it. No other turn may be taken between this one and its commit.
    ///
    /// Returns whether the operation's future must be woken to compute its end anew.
    pub fn refused(&mut self, turn: &mut Turn, op: OpId) -> bool {
        let before = turn.deferred.len();
        turn.deferred.retain(|deferred| deferred.op != op);
        let removed = (before - turn.deferred.len()) as u64;
        if removed == 0 || self.is_of_old_run(turn) {
            return false;
        }
        // What was appended behind the turn moves up.
        let end = turn.first + turn.records().count() as u64;
        self.appended -= removed;
        self.firm -= removed;
        for held in self.ops.values_mut() {
            if let Phase::Gated { gate, .. } = &mut held.phase
                && *gate > end
            {
                *gate -= removed;
            }
        }
        if turn.deferred.is_empty() {
            self.decide(turn);
        }
        let Some(held) = self.ops.get(&op) else { return false };
        let Phase::Deferred { attempt } = held.phase else { return false };
        let again = !matches!(held.call, Call::Ask(_));
        let phase = if again {
            Phase::Gated { gate: 0, attempt }
        } else {
            // The answer that got in first is in the inbox.
            Phase::Waiting { until: None }
        };
        self.set(op, phase);
        again
    }

    /// Whether the code has returned and the end is recorded or pending.
    #[must_use]
    pub fn ended(turn: &Turn) -> Option<&Event> {
        turn.events
            .iter()
            .map(|r| &r.event)
            .find(|e| matches!(e, Event::Completed { .. } | Event::Failed { .. }))
    }

    /// What the world should see now.
    #[must_use]
    pub fn view(&self) -> (Status, View) {
        let mut view = View { failure: None, retry_at: None, ..self.view.clone() };
        let mut active = false;
        let mut asked = false;
        let mut open = false;
        for op in self.ops.values() {
            open = true;
            match &op.phase {
                Phase::Waiting { .. } => asked |= matches!(op.call, Call::Ask(_)),
                Phase::Deferred { .. } if matches!(op.call, Call::Ask(_)) => asked = true,
                // Held by the code, which does not wait for them now.
                Phase::New | Phase::Done(_) | Phase::Backoff { .. } => {}
                Phase::Gated { .. } if matches!(op.call, Call::StateWait { .. }) => {}
                _ => active = true,
            }
            if let Some((failure, retry_at)) = op.trouble.as_deref()
                && view.retry_at.is_none_or(|at| *retry_at < at)
            {
                view.failure = Some(failure.clone());
                view.retry_at = Some(*retry_at);
            }
        }
        let status = if asked {
            Status::InputRequired
        } else if active || !open {
            Status::Running
        } else if view.retry_at.is_some() {
            Status::Retrying
        } else {
            Status::Waiting
        };
        (status, view)
    }

    /// Whether everything open is a wait, so that the task can leave memory.
    #[must_use]
    pub fn can_park(&self) -> bool {
        self.live
            && self.steps_running == 0
            && self.deliveries.is_empty()
            && self.urgency() == Urgency::Idle
            && !self.ops.is_empty()
            && self.ops.values().all(|op| {
                let waits = matches!(op.phase, Phase::Waiting { .. } | Phase::Backoff { .. });
                // A result that the code holds and did not look at is delivered again on replay.
                waits || matches!(op.phase, Phase::New | Phase::Done(_))
            })
    }
}
