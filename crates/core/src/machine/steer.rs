//! How the engine steers a task from above: failing it, holding it back, looking at it.

use super::{Halt, Machine, Op};
use crate::{Call, Event, Failure, Json, Kind, Mode, OpId, Record, Timestamp};

/// Whether the history says of a step that waits for its leave that it has begun.
fn has_begun(op: &Op) -> bool {
    matches!(op.call, Call::Step { mode: Mode::AtMostOnce { .. }, .. })
}

impl Machine {
    /// How often the task began anew.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Starts no further steps; what is in flight may end. So may a step that is recorded as begun: it
    /// would never get another chance.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Whether a step that may run now is kept from it.
    pub(super) fn is_held_back(&self, op: &Op) -> bool {
        self.frozen && !has_begun(op)
    }

    /// How many steps in place run now.
    #[must_use]
    pub fn steps_running(&self) -> usize {
        self.steps_running
    }

    /// How many run now, or are recorded as begun and will.
    #[must_use]
    pub fn steps_in_flight(&self) -> usize {
        let begun = |id: &&OpId| self.ops.get(id).is_some_and(|op| has_begun(op));
        self.steps_running + self.gated.iter().filter(begun).count()
    }

    /// Something was run twice and did not do the same: the task goes no further, and fails with this.
    pub fn reject(&mut self, failure: Failure) {
        self.stop(Halt::Unrepeatable(failure));
    }

    /// A read or update of durable state met a value that it can't use.
    pub fn state_failed(&mut self, op: OpId, failure: Failure, wall: Timestamp) {
        self.clock(wall);
        let kinds = [Kind::StateRead, Kind::StateWrite, Kind::Condition];
        if let Some((call, _)) = self.running(op, &kinds) {
            self.set(op, super::Phase::Replayed);
            if let Call::StateWait { scope, key } = call {
                self.unwatch(op, scope, &key);
            }
            self.append(Event::StateFailed { op, failure });
        }
    }

    /// Ends the task as failed, whatever its code was doing: it panicked, or broke a limit.
    pub fn fail(&mut self, failure: Failure, wall: Timestamp) {
        self.clock(wall);
        self.halt = None;
        if !self.live {
            // What the history still holds no longer matters.
            self.deliveries.clear();
            self.recorded.clear();
            self.live = true;
            self.late.clear();
        }
        self.poll = super::PollKind::Delivery;
        let open: Vec<OpId> = self.ops.keys().copied().collect();
        for id in open {
            self.drop_op(id);
        }
        self.deferred.clear();
        self.append(Event::Failed { failure });
    }
}

impl Machine {
    /// How many events are durable: the number of the next one.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// What happened since the last turn was taken.
    #[must_use]
    pub fn pending(&self) -> &[Record] {
        &self.pending
    }

    /// The input with which the task is to begin anew, if its code said so.
    #[must_use]
    pub fn next_input(&self) -> Option<&Json> {
        self.next_input.as_ref()
    }

    /// Mixes something into the ids of children and sent events that no other task has, so that a
    /// task that shares its seed with another (a rerun) still makes ids of its own.
    #[must_use]
    pub fn identified_by(mut self, task: &crate::TaskId) -> Machine {
        // FNV-1a: small, and the same for ever.
        let hash = task.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.identity ^= hash;
        self
    }

    /// After a poll that left the future pending: if nothing durable is awaited, nothing can ever
    /// wake the task again in another life, so it stops here and says so.
    pub fn check_idle(&mut self) {
        if self.live && self.ops.is_empty() && self.deliveries.is_empty() {
            let found = "a wait while no durable operation is open".into();
            self.stop(Halt::NotDurable { found });
        }
    }
}
