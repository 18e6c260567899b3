//! The end of a run: the task's, or the beginning of its next.

use super::{Halt, Machine, PollKind, recorded::Delivery};
use crate::{Carry, Event, Json, OpId, Outcome, Record, Timestamp};

impl Machine {
    /// The task is to begin anew with this input once its code returns.
    pub fn continue_as_new(&mut self, input: Json) {
        if !self.refuse_inside(|| "continue as new".into()) {
            self.next_input = Some(input);
        }
    }

    /// The code returned. Records the end, or the new beginning.
    pub fn finish(&mut self, outcome: Outcome, now: Timestamp) {
        if self.poll == PollKind::Wake {
            self.stop(Halt::NotDurable { found: "the end of the code".into() });
        }
        if !self.live && self.halt.is_none() {
            self.end_replay();
        }
        if self.halt.is_some() {
            return;
        }
        let open: Vec<OpId> = self.ops.keys().copied().collect();
        for id in open {
            self.drop_op(id);
        }
        self.clock(now);
        if let Some(input) = self.next_input.take() {
            return self.begin_anew(input);
        }
        self.append(match outcome {
            Ok(output) => Event::Completed { output },
            Err(failure) => Event::Failed { failure },
        });
    }

    /// The end may come before the last recorded delivery: the rest must be what nobody looks at.
    fn end_replay(&mut self) {
        while self.deliveries.front().is_some_and(|(_, d)| d.is_past(self.next)) {
            if let Some((_, Delivery::Signal(name, payload))) = self.deliveries.pop_front() {
                self.buffered.push((name, payload));
            }
        }
        if let Some((_, delivery)) = self.deliveries.front() {
            let recorded = delivery.describe(&self.recorded);
            self.stop(Halt::NonDeterminism { recorded, found: "the end of the code".into() });
        }
        self.go_live();
    }

    /// What the next run takes over. Events that came and were not delivered yet are among it: the
    /// history that holds them is about to go.
    fn carry(&self) -> Carry {
        let undelivered = self.deliveries.iter().filter_map(|(_, delivery)| match delivery {
            Delivery::Signal(name, payload) => Some((name.clone(), payload.clone())),
            _ => None,
        });
        Carry {
            signals: self.buffered.iter().cloned().chain(undelivered).collect(),
            seen: self.seen.to_vec(),
            keys: self.keys.clone(),
            undos: self.undos.clone(),
        }
    }

    fn begin_anew(&mut self, input: Json) {
        let carry = Some(self.carry());
        self.run = self.run.saturating_add(1);
        let (run, seed) = (self.run, super::mix(self.seed, u64::from(self.run), 3));
        let old = std::mem::take(&mut self.pending);
        self.deliveries.clear();
        self.deferred.clear();
        self.appended = 0;
        self.durable = 0;
        self.restart = true;
        self.append(Event::Started { input, seed, run, carry });
        // What the task said is for its users, who don't see that it began anew. The numbers go:
        // they belong to the old run.
        for Record { at, event } in old {
            if let Event::Noted { note, .. } = event {
                self.pending.push(Record { at, event: Event::Noted { op: None, note } });
                self.appended += 1;
            }
        }
    }
}
