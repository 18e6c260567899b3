//! One operation and how far it is.

use std::time::Duration;

use super::{mix, recorded::Recorded};
use crate::{Call, Failure, Json, OpId, Outcome, TaskId, Timestamp};

/// What a polled durable future is to do.
#[derive(Debug, PartialEq)]
pub enum OpPoll {
    /// Return this.
    Ready(Outcome),
    /// Wait.
    Pending,
    /// Run the closure now, and report its end.
    Run(StepGrant),
}

/// Leave to run one attempt of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepGrant {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Created, never polled.
    New,
    /// Polled during replay, and unknown to the history.
    Begun,
    /// Its result is in the history and will be delivered.
    Replayed,
    /// An at-most-once step that was started and never ended.
    Interrupted,
    /// In place: may run when `gate` events are durable.
    Gated {
        gate: u64,
        attempt: u32,
    },
    Running {
        attempt: u32,
    },
    /// A step that failed and waits for its next attempt.
    Backoff {
        until: Timestamp,
        attempt: u32,
    },
    /// Something outside must happen, or the time must come.
    Waiting {
        until: Option<Timestamp>,
    },
    /// Its end is in a commit under way that may still be refused.
    Deferred {
        attempt: u32,
    },
    Done(Outcome),
}

#[derive(Debug)]
pub(super) struct Op {
    pub(super) call: Call,
    pub(super) phase: Phase,
    /// The key of a question.
    pub(super) key: String,
    /// Why it will be tried again, and when.
    pub(super) trouble: Option<Box<(Failure, Timestamp)>>,
    /// What it watches changed while it was looked at.
    pub(super) look_again: bool,
    pub(super) recorded: Option<Box<Recorded>>,
}

impl Op {
    pub(super) fn new(call: Call, key: String, recorded: Option<Box<Recorded>>) -> Box<Op> {
        Box::new(Op { call, phase: Phase::New, key, trouble: None, look_again: false, recorded })
    }

    pub(super) fn is_begun(&self) -> bool {
        matches!(self.phase, Phase::Begun)
    }

    pub(super) fn awaits_signal(&self, wanted: &str) -> bool {
        matches!((&self.call, &self.phase), (Call::Signal { name }, Phase::Waiting { .. }) if name == wanted)
    }

    pub(super) fn attempt_timeout(&self) -> Option<Duration> {
        match &self.call {
            Call::Step { retry: Some(retry), .. } => retry.attempt_timeout(),
            _ => None,
        }
    }

    /// The result of what is ready as soon as it is asked for.
    pub(super) fn immediate(&self, seed: u64, id: OpId) -> Option<Outcome> {
        immediate(&self.call, seed, id)
    }
}

pub(super) fn immediate(call: &Call, seed: u64, id: OpId) -> Option<Outcome> {
    match call {
        Call::StateSet { .. } | Call::Send { .. } => Some(Ok(Json::null())),
        Call::Child(spec) if spec.detached => {
            let child = spec.id.clone().unwrap_or_else(|| child_id(seed, id));
            Json::of(&child).ok().map(Ok)
        }
        _ => None,
    }
}

/// A child's id: as good as random, and the same in every replay.
pub(super) fn child_id(seed: u64, id: OpId) -> TaskId {
    let salt = u64::from(id.0);
    let high = u128::from(mix(seed, salt, 1));
    TaskId::from_bits(high << 64 | u128::from(mix(seed, salt, 2)))
}
