//! Results in recorded order, and the moment when the history is used up.

use super::{
    Halt, Late, Machine,
    op::Phase,
    recorded::{Delivery, Recorded},
};
use crate::{Event, Json, OpId};

impl Machine {
    /// An event that nobody took goes to the next who waits, before any that came later.
    pub(super) fn put_back(&mut self, name: String, payload: Json) {
        if self.ops.values().any(|op| op.awaits_signal(&name)) {
            self.deliveries.push_front((self.now, Delivery::Signal(name, payload)));
        } else {
            self.buffered.insert(0, (name, payload));
        }
    }

    /// Delivers the next result in recorded order. `Some` means: poll the future now, after waking
    /// the operation named, if any.
    pub fn deliver(&mut self) -> Option<Option<OpId>> {
        while self.halt.is_none() {
            if let Some((_, Delivery::Undecided { .. })) = self.deliveries.front() {
                return None;
            }
            let (at, delivery) = self.deliveries.pop_front()?;
            self.now = self.now.max(at);
            match delivery {
                Delivery::Undecided { .. } => {}
                Delivery::Signal(name, payload) => {
                    let waiting = self.ops.iter().find(|(_, op)| op.awaits_signal(&name));
                    let Some((&id, _)) = waiting else {
                        self.buffered.push((name, payload));
                        continue;
                    };
                    self.set(id, Phase::Done(Ok(payload)));
                    return Some(Some(id));
                }
                Delivery::Outcome(id, outcome) => {
                    if id.0 >= self.next {
                        let recorded = self.recorded.get(&id).map(Recorded::describe);
                        self.stop(Halt::NonDeterminism {
                            recorded: format!(
                                "{} as operation {id}",
                                recorded.unwrap_or_else(|| "a result".into())
                            ),
                            found: format!("code that waits after {} operations", self.next),
                        });
                        return None;
                    }
                    // One that was dropped is passed over, live and on replay alike.
                    if self.ops.contains_key(&id) {
                        self.set(id, Phase::Done(outcome));
                        return Some(Some(id));
                    }
                }
            }
        }
        None
    }

    /// The history is used up. Compares what is left of it, then starts what the code wants.
    ///
    /// Returns whether the future must be polled again (as [`PollKind::Wake`](crate::PollKind::Wake)) to start steps.
    pub fn go_live(&mut self) -> bool {
        if self.live || self.halt.is_some() || !self.deliveries.is_empty() {
            return false;
        }
        if let Some((id, rec)) = self.recorded.iter().find(|(_, rec)| !rec.is_silent()) {
            let recorded = format!("{} as operation {id}", rec.describe());
            let found = format!("code that stops after {} operations", self.next);
            self.stop(Halt::NonDeterminism { recorded, found });
            return false;
        }
        self.recorded.clear();
        self.live = true;
        self.firm = self.appended;
        for late in std::mem::take(&mut self.late) {
            match late {
                Late::Schedule(id, call) => self.schedule(id, &call),
                Late::Withdraw(id, op) => self.withdraw(id, &op),
                Late::Note(id, note) => self.say(Some(id), note),
                Late::Version(op, change, version) => {
                    self.append(Event::VersionMarked { op, change, version });
                }
            }
        }
        let begun: Vec<OpId> =
            self.ops.iter().filter(|(_, op)| op.is_begun()).map(|o| *o.0).collect();
        for id in begun {
            if let Some(call) = self.ops.get(&id).map(|op| op.call.clone()) {
                self.schedule(id, &call);
            }
        }
        self.settle_interrupted();
        true
    }
}
