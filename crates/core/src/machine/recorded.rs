//! What a loaded history knows of each operation, and the order of its results.

use super::{Machine, op::Phase};
use crate::{
    Call, Event, Failure, FailureKind, Json, Kind, Mode, OpId, Outcome, Record, TaskId, Timestamp,
};

/// What the history holds of one operation.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    identity: Option<(Kind, String)>,
    /// Attempts whose start was recorded, and attempts whose failure was.
    started: u32,
    failed: u32,
    retry_at: Option<Timestamp>,
    until: Option<Timestamp>,
    pub(super) trouble: Option<(Failure, Timestamp)>,
    pub(super) child: Option<TaskId>,
    version: Option<u32>,
    /// How to take it back is recorded.
    pub(super) undo: bool,
    done: bool,
    dropped: bool,
}

impl Recorded {
    pub(super) fn matches(&self, kind: Kind, name: &str) -> bool {
        self.identity.as_ref().is_none_or(|(k, n)| *k == kind && n == name)
    }

    pub(super) fn describe(&self) -> String {
        match &self.identity {
            Some((kind, name)) => format!("{kind} {name:?}"),
            None => "an operation without a name".into(),
        }
    }

    pub(super) fn version(&self, change: &str) -> Option<u32> {
        let (kind, name) = self.identity.as_ref()?;
        (*kind == Kind::Version && name == change).then_some(self.version?)
    }

    /// A note that the code no longer makes changes nothing that could go wrong.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.identity, Some((Kind::Note, _)))
    }

    /// The code let go of it, and that is recorded too.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// Where an operation stands that the code asks for again.
    pub(super) fn phase(&self, call: &Call) -> Phase {
        if self.done {
            return match call {
                Call::StateSet { .. } | Call::Send { .. } => Phase::Done(Ok(Json::null())),
                Call::Child(spec) if spec.detached => match &self.child {
                    Some(id) => Phase::Done(Json::of(id).map_err(|e| unreadable(&e))),
                    None => Phase::Replayed,
                },
                _ => Phase::Replayed,
            };
        }
        match call {
            Call::Step { mode, .. } => {
                let attempt = self.failed + 1;
                if matches!(mode, Mode::AtMostOnce { .. }) && self.started > self.failed {
                    Phase::Interrupted
                } else if let Some(until) = self.retry_at {
                    Phase::Backoff { until, attempt }
                } else if matches!(mode, Mode::AtMostOnce { .. }) {
                    Phase::Begun
                } else {
                    Phase::Gated { gate: 0, attempt }
                }
            }
            Call::StateGet { .. } | Call::StateUpdate { .. } | Call::StateWait { .. } => {
                Phase::Gated { gate: 0, attempt: 1 }
            }
            _ => Phase::Waiting { until: self.until },
        }
    }
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::new(FailureKind::Payload, error.to_string())
}

/// A result, in recorded order.
#[derive(Debug)]
pub(super) enum Delivery {
    Outcome(OpId, Outcome),
    Signal(String, Json),
    /// Here come the deferred ends of the turn that starts with event `first`, once it is known
    /// which of them were accepted. What was appended behind that turn waits for them, because the
    /// history has them in that order.
    Undecided {
        first: u64,
    },
}

impl Delivery {
    /// A result of something that the code asked for, and will never look at.
    pub(super) fn is_past(&self, next: u32) -> bool {
        match self {
            Delivery::Outcome(id, _) => id.0 < next,
            Delivery::Signal(..) | Delivery::Undecided { .. } => true,
        }
    }

    pub(super) fn describe(&self, recorded: &std::collections::BTreeMap<OpId, Recorded>) -> String {
        match self {
            Delivery::Outcome(id, _) => {
                let what = recorded.get(id).map_or_else(|| "a result".into(), Recorded::describe);
                format!("{what} as operation {id}")
            }
            Delivery::Signal(name, _) => format!("the signal {name:?}"),
            Delivery::Undecided { .. } => "an end that may be refused".into(),
        }
    }
}

/// What an event hands to the code, if anything.
pub(super) fn delivery(event: &Event) -> Option<Delivery> {
    let json = |value: &Option<Json>| value.clone().unwrap_or_else(Json::null);
    Some(match event {
        Event::StepCompleted { op, result, .. }
        | Event::ActivityCompleted { op, result }
        | Event::ChildCompleted { op, result } => Delivery::Outcome(*op, Ok(result.clone())),
        Event::StepFailed { op, failure, .. }
        | Event::ActivityFailed { op, failure }
        | Event::StateFailed { op, failure }
        | Event::QuestionRefused { op, failure, .. }
        | Event::ChildFailed { op, failure } => Delivery::Outcome(*op, Err(failure.clone())),
        Event::TimerFired { op } => Delivery::Outcome(*op, Ok(Json::null())),
        Event::QuestionAnswered { op, answer } => {
            Delivery::Outcome(*op, Json::of(answer).map_err(|e| unreadable(&e)))
        }
        Event::QuestionExpired { op } => {
            let message = "the question was not answered before its deadline";
            Delivery::Outcome(*op, Err(Failure::new(FailureKind::TimedOut, message)))
        }
        Event::StateRead { op, value, .. } | Event::ConditionMet { op, value } => {
            Delivery::Outcome(*op, Ok(json(value)))
        }
        Event::StateWritten { op, value, .. } => Delivery::Outcome(*op, Ok(json(value))),
        Event::SignalReceived { name, payload, .. } => {
            Delivery::Signal(name.clone(), payload.clone())
        }
        _ => return None,
    })
}

impl Machine {
    /// Reads the history into what each operation must find and the order of results.
    pub(super) fn load(&mut self, history: Vec<Record>) {
        let mut records = history.into_iter();
        match records.next().map(|record| (record.at, record.event)) {
            Some((at, Event::Started { input, seed, run, carry })) => {
                self.input = Some(input);
                self.seed = seed;
                self.identity = super::mix(seed, u64::from(run), 4);
                self.run = run;
                self.now = at;
                let carry = carry.unwrap_or_default();
                self.buffered = carry.signals;
                self.seen = carry.seen.into_iter().collect();
                self.keys = carry.keys;
                self.undos = carry.undos;
            }
            other => {
                let recorded = format!("{:?}", other.map(|(_, event)| event));
                self.stop(super::Halt::NonDeterminism {
                    recorded: recorded.chars().take(200).collect(),
                    found: "no start at the head of the history".into(),
                });
                return;
            }
        }
        for Record { at, event } in records {
            self.load_one(at, event);
        }
    }

    fn load_one(&mut self, at: Timestamp, event: Event) {
        match &event {
            Event::SignalReceived { id: Some(id), .. } => {
                self.seen.insert(id);
            }
            Event::UndoRecorded { undo, .. } => self.undos.push(undo.clone()),
            _ => {}
        }
        if let Some((op, identity)) = event.identity() {
            self.last_recorded = self.last_recorded.max(Some(op));
            let rec = self.recorded.entry(op).or_default();
            if rec.identity.is_none() {
                rec.identity = identity;
            }
            match &event {
                Event::UndoRecorded { .. } => rec.undo = true,
                Event::StepStarted { .. } => rec.started += 1,
                Event::StepRetrying { retry_at, failure, .. } => {
                    rec.failed += 1;
                    rec.retry_at = Some(*retry_at);
                    rec.trouble = Some((failure.clone(), *retry_at));
                }
                Event::TimerSet { fire_at, .. } => rec.until = Some(*fire_at),
                Event::QuestionAsked { ask, .. } => rec.until = ask.deadline,
                Event::ChildStarted { id, detached, .. } => {
                    rec.child = Some(id.clone());
                    rec.done |= *detached;
                }
                Event::VersionMarked { version, .. } => rec.version = Some(*version),
                Event::SignalSent { .. } => rec.done = true,
                Event::Dropped { .. } => rec.dropped = true,
                _ => {}
            }
            rec.done |= delivery(&event).is_some();
        }
        // A blind write is ready when it is asked for; its delivery finds nobody and is passed over.
        if let Some(delivery) = delivery(&event) {
            self.deliveries.push_back((at, delivery));
        }
    }
}
