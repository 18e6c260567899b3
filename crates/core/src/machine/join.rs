//! Steps whose end is committed in the same transaction of the store as what they did.
//!
//! What such a step did is kept by the engine, and its result may be known only when the store has run
//! it. So its end is deferred, as an event without a result, and the result put in when the commit is
//! back.

use super::{
    Effect, Machine,
    op::Phase,
    turn::{Deferred, Turn},
};
use crate::{Call, Event, Json, Kind, OpId, Record, Timestamp};

fn joins(deferred: &Deferred) -> bool {
    matches!(deferred.effect, Effect::Join { .. })
}

impl Turn {
    /// The step whose work is committed with this turn. There is nothing else in it then.
    #[must_use]
    pub fn joint(&self) -> Option<OpId> {
        self.deferred.iter().find(|deferred| joins(deferred)).map(|deferred| deferred.op)
    }

    /// What was recorded as the end of that step.
    pub fn set_joint(&mut self, record: Record) {
        if let Some(deferred) = self.deferred.iter_mut().find(|deferred| joins(deferred)) {
            deferred.record = record;
        }
    }
}

impl Machine {
    /// What a step did is ready to be committed with its end.
    pub fn step_joins(&mut self, op: OpId, wall: Timestamp) {
        self.clock(wall);
        let running = self.running(op, &[Kind::Step]);
        let Some((Call::Step { name, .. }, attempt)) = running else { return };
        self.set(op, Phase::Deferred { attempt });
        // The commit that ends it also says that nothing is to be tried again.
        self.clear_trouble(op);
        let event = Event::StepCompleted { op, name, result: Json::null() };
        let record = Record { at: self.wall, event };
        self.deferred.push(Deferred { op, record, effect: Effect::Join { op } });
    }

    /// The end of such a step, to be recorded and to be told by [`Turn::set_joint`].
    pub fn joined(&mut self, op: OpId, name: String, result: Json, wall: Timestamp) -> Record {
        self.clock(wall);
        Record { at: self.wall, event: Event::StepCompleted { op, name, result } }
    }

    /// The ends that may be refused and go with the next turn. A step that joins goes alone, when all
    /// else is on its way: so the transaction that it is in holds nothing but its record, and what was
    /// recorded before does not wait for it.
    pub(super) fn take_deferred(&mut self) -> Vec<Deferred> {
        if !self.deferred.iter().any(joins) {
            return std::mem::take(&mut self.deferred);
        }
        let others = !self.pending.is_empty() || !self.effects.is_empty();
        if others || !self.deferred.iter().all(joins) {
            let (later, now) = std::mem::take(&mut self.deferred).into_iter().partition(joins);
            self.deferred = later;
            return now;
        }
        vec![self.deferred.remove(0)]
    }
}
