//! What happens when the history is used up: scheduling, and input from outside.

use super::{
    Effect, Machine,
    op::{Op, Phase, child_id, immediate},
    turn::Deferred,
};
use crate::{
    Ask, Call, Event, Failure, FailureKind, Json, Kind, Message, Mode, OpId, Outcome, Record,
    Retry, Scope, Timestamp,
};

impl Machine {
    /// Starts an operation that the history does not know.
    pub(super) fn schedule(&mut self, op: OpId, call: &Call) {
        match call {
            Call::Step { name, undo, mode, .. } => {
                let at_most_once = matches!(mode, Mode::AtMostOnce { .. });
                let known = self.ops.get(&op).and_then(|held| held.recorded.as_ref());
                let undo_known = known.is_some_and(|rec| rec.undo);
                if let Some(undo) = undo.as_ref().filter(|_| !undo_known) {
                    self.undos.push(undo.clone());
                    let (name, undo) = (name.clone(), undo.clone());
                    self.append(Event::UndoRecorded { op, name, undo });
                }
                if at_most_once {
                    self.append(Event::StepStarted { op, name: name.clone(), attempt: 1 });
                }
                self.set(op, Phase::Gated { gate: self.firm, attempt: 1 });
            }
            Call::StateGet { .. } | Call::StateUpdate { .. } => {
                self.set(op, Phase::Gated { gate: self.firm, attempt: 1 });
            }
            Call::StateWait { scope, key } => {
                let (scope, key) = (*scope, key.clone());
                self.append(Event::ConditionWatched { op, scope, key: key.clone() });
                self.effects.push(Effect::Watch { scope, key });
                self.set(op, Phase::Gated { gate: self.firm, attempt: 1 });
            }
            Call::Timer { until } => {
                self.append(Event::TimerSet { op, fire_at: *until });
                self.set(op, Phase::Waiting { until: Some(*until) });
            }
            Call::Signal { .. } => {}
            Call::Activity { name, input, retry, heartbeat_ms } => {
                let (name, input) = (name.clone(), input.clone());
                self.effects.push(Effect::ScheduleActivity {
                    op,
                    name: name.clone(),
                    input: input.clone(),
                    retry: retry.clone(),
                    heartbeat_ms: *heartbeat_ms,
                });
                self.append(Event::ActivityScheduled { op, name, input });
                self.set(op, Phase::Waiting { until: None });
            }
            Call::Ask(ask) => self.open_question(op, ask),
            Call::Child(spec) => {
                let id = spec.id.clone().unwrap_or_else(|| child_id(self.identity, op));
                let (tool, detached) = (spec.tool.clone(), spec.detached);
                self.effects.push(Effect::StartChild {
                    op,
                    id: id.clone(),
                    tool: tool.clone(),
                    input: spec.input.clone(),
                    detached,
                });
                self.append(Event::ChildStarted { op, tool, id, detached });
                self.set(op, Phase::Waiting { until: None });
            }
            Call::StateSet { scope, key, value } => {
                let (scope, key, value) = (*scope, key.clone(), value.clone());
                let (k, v) = (key.clone(), value.clone());
                self.effects.push(Effect::WriteState { scope, key: k, value: v });
                self.append(Event::StateWritten { op, scope, key, value });
            }
            Call::Send { to, name, payload } => {
                let id = format!("sent-{:016x}-{}", self.identity, op.0);
                let (to, name) = (to.clone(), name.clone());
                self.effects.push(Effect::Send {
                    to: to.clone(),
                    name: name.clone(),
                    id,
                    payload: payload.clone(),
                });
                self.append(Event::SignalSent { op, name, to });
            }
        }
        if let Some(outcome) = immediate(call, self.identity, op) {
            self.set(op, Phase::Done(outcome));
        }
    }

    fn open_question(&mut self, op: OpId, ask: &Ask) {
        let is_open = |o: &Op| {
            matches!(
                (&o.call, &o.phase),
                (Call::Ask(_), Phase::Waiting { .. } | Phase::Deferred { .. })
            )
        };
        let open = self.ops.values().filter(|o| is_open(o)).count();
        if open >= self.limits.open_questions {
            let message = format!("{open} questions are open, which is the limit");
            let failure = Failure::new(FailureKind::Limit, message).permanently();
            // Recorded and delivered like any other end, or a replay would wait where the code
            // went on.
            self.set(op, Phase::Replayed);
            return self.append(Event::QuestionRefused { op, wish: ask.key.clone(), failure });
        }
        let Some(key) = self.ops.get(&op).map(|o| o.key.clone()) else { return };
        let wish = ask.key.clone();
        let ask = Ask { key, ..ask.clone() };
        let until = ask.deadline;
        self.effects.push(Effect::OpenQuestion { op, ask: ask.clone() });
        self.append(Event::QuestionAsked { op, wish, ask });
        self.set(op, Phase::Waiting { until });
    }

    /// The code no longer waits for something that was scheduled.
    pub(super) fn withdraw(&mut self, id: OpId, op: &Op) {
        if op.recorded.as_ref().is_some_and(|recorded| recorded.is_dropped()) {
            return;
        }
        let effect = match &op.call {
            Call::Ask(_) => Effect::CloseQuestion { key: op.key.clone() },
            Call::Activity { .. } => Effect::CancelActivity { op: id },
            Call::Child(spec) if !spec.detached => {
                let recorded = op.recorded.as_ref().and_then(|rec| rec.child.clone());
                let child = recorded.or_else(|| spec.id.clone());
                Effect::CancelChild { id: child.unwrap_or_else(|| child_id(self.identity, id)) }
            }
            Call::StateWait { scope, key } => {
                self.unwatch(id, *scope, key);
                return self.append(Event::Dropped { op: id });
            }
            _ => return,
        };
        // What was not committed yet is not even begun. A child that was begun only to be cancelled
        // would tell of its end, perhaps to a later run that uses the same number for another.
        let begun = self.effects.iter().position(|effect| match effect {
            Effect::OpenQuestion { op, .. }
            | Effect::ScheduleActivity { op, .. }
            | Effect::StartChild { op, .. } => *op == id,
            _ => false,
        });
        match begun {
            Some(place) => drop(self.effects.remove(place)),
            None => self.effects.push(effect),
        }
        self.append(Event::Dropped { op: id });
    }

    /// Operation `id` no longer watches a key. The store knows only who watches which key, so
    /// another operation that watches the same one keeps the watch.
    pub(super) fn unwatch(&mut self, id: OpId, scope: Scope, key: &str) {
        let watches = |op: &Op| {
            matches!(&op.call, Call::StateWait { scope: s, key: k } if *s == scope && k == key)
                && matches!(
                    op.phase,
                    Phase::Gated { .. } | Phase::Running { .. } | Phase::Waiting { .. }
                )
        };
        if !self.ops.iter().any(|(other, op)| *other != id && watches(op)) {
            self.effects.push(Effect::Unwatch { scope, key: key.to_owned() });
        }
    }

    /// At-most-once steps that were cut off in an earlier life get their permanent error.
    pub(super) fn settle_interrupted(&mut self) {
        let cut = |op: &Op| matches!(op.phase, Phase::Interrupted);
        let ids: Vec<OpId> = self.ops.iter().filter(|(_, op)| cut(op)).map(|o| *o.0).collect();
        for op in ids {
            let Some(name) = self.ops.get(&op).map(|o| o.call.name().into_owned()) else {
                continue;
            };
            let message = format!(
                "the step {name:?} was started and its end was never recorded; it runs at most \
                 once, so whether it took effect must be found out another way"
            );
            let failure = Failure::new(FailureKind::Unfinished, message).permanently();
            self.set(op, Phase::Replayed);
            self.append(Event::StepFailed { op, name, failure });
        }
    }

    /// Tells the time at which things happen from now on.
    pub fn clock(&mut self, wall: Timestamp) {
        self.wall = self.wall.max(wall);
    }

    /// When [`tick`](Machine::tick) has something to do.
    pub fn next_deadline(&mut self) -> Option<Timestamp> {
        while let Some(&(at, id)) = self.deadlines.first() {
            if self.is_due_at(id, at) {
                return Some(at);
            }
            self.deadlines.pop_first();
        }
        None
    }

    fn is_due_at(&self, id: OpId, at: Timestamp) -> bool {
        match self.ops.get(&id).map(|op| &op.phase) {
            Some(Phase::Waiting { until }) => *until == Some(at),
            Some(Phase::Backoff { until, .. }) => *until == at,
            _ => false,
        }
    }

    /// The clock has moved: fires what is due.
    pub fn tick(&mut self, wall: Timestamp) {
        self.clock(wall);
        if !self.live {
            return;
        }
        while self.next_deadline().is_some_and(|at| at <= self.wall) {
            let Some((_, id)) = self.deadlines.pop_first() else { return };
            let Some(op) = self.ops.get(&id) else { continue };
            match (&op.phase, &op.call) {
                (Phase::Backoff { attempt, .. }, call) => {
                    let attempt = *attempt;
                    if let Call::Step { name, mode: Mode::AtMostOnce { .. }, .. } = call {
                        let name = name.clone();
                        self.append(Event::StepStarted { op: id, name, attempt });
                    }
                    self.set(id, Phase::Gated { gate: self.firm, attempt });
                }
                (_, Call::Ask(_)) => {
                    let key = op.key.clone();
                    self.deferred.push(Deferred {
                        op: id,
                        record: Record { at: self.wall, event: Event::QuestionExpired { op: id } },
                        effect: Effect::ExpireQuestion { op: id, key },
                    });
                    self.set(id, Phase::Deferred { attempt: 1 });
                }
                _ => {
                    self.set(id, Phase::Replayed);
                    self.append(Event::TimerFired { op: id });
                }
            }
        }
    }

    /// Operations that may run now and should be woken.
    #[must_use]
    pub fn runnable(&self) -> Vec<OpId> {
        if !self.live || self.halt.is_some() {
            return Vec::new();
        }
        let free = self.limits.steps_in_flight.saturating_sub(self.steps_running);
        let open = |id: &&OpId| {
            let op = self.ops.get(id).filter(|op| !self.is_held_back(op));
            matches!(op.map(|op| &op.phase), Some(Phase::Gated { gate, .. }) if *gate <= self.durable)
        };
        self.gated.iter().filter(open).take(free).copied().collect()
    }

    /// The operation that ended, if it is of this kind and ran.
    pub(super) fn running(&mut self, id: OpId, kinds: &[Kind]) -> Option<(Call, u32)> {
        let op = self.ops.get(&id).filter(|op| kinds.contains(&op.call.kind()))?;
        let Phase::Running { attempt } = op.phase else { return None };
        let call = op.call.clone();
        self.steps_running -= 1;
        Some((call, attempt))
    }

    /// An attempt of a step ended.
    pub fn step_ended(&mut self, op: OpId, outcome: Outcome, wall: Timestamp) {
        self.clock(wall);
        let running = self.running(op, &[Kind::Step]);
        let Some((Call::Step { name, mode, retry, .. }, attempt)) = running else { return };
        let failure = match outcome {
            Ok(result) => {
                self.set(op, Phase::Replayed);
                self.clear_trouble(op);
                return self.append(Event::StepCompleted { op, name, result });
            }
            Err(failure) => failure,
        };
        let dice = super::mix(self.seed, u64::from(op.0), u64::from(attempt));
        let delay = match (&mode, &retry) {
            (Mode::AtLeastOnce, retry) => {
                retry.as_ref().and_then(|r| r.after(attempt, &failure, dice))
            }
            (Mode::AtMostOnce { reset_on }, retry) => {
                let code = failure.code.as_ref();
                if code.is_some_and(|code| reset_on.contains(code)) {
                    let retry = retry.clone().unwrap_or_else(Retry::exponential);
                    retry.after(attempt, &failure, dice)
                } else {
                    None
                }
            }
        };
        match delay {
            None => {
                self.set(op, Phase::Replayed);
                self.clear_trouble(op);
                self.append(Event::StepFailed { op, name, failure });
            }
            Some(delay) => {
                let retry_at = self.wall.plus(delay);
                if let Some(held) = self.ops.get_mut(&op) {
                    held.trouble = Some(Box::new((failure.clone(), retry_at)));
                }
                self.set(op, Phase::Backoff { until: retry_at, attempt: attempt + 1 });
                self.append(Event::StepRetrying { op, name, attempt, failure, retry_at });
            }
        }
    }

    pub(super) fn clear_trouble(&mut self, op: OpId) {
        if let Some(held) = self.ops.get_mut(&op) {
            held.trouble = None;
        }
    }

    /// A read of durable state ended.
    pub fn state_read(&mut self, op: OpId, value: Option<Json>, wall: Timestamp) {
        self.clock(wall);
        let running = self.running(op, &[Kind::StateRead]);
        let Some((Call::StateGet { scope, key }, _)) = running else { return };
        self.set(op, Phase::Replayed);
        self.append(Event::StateRead { op, scope, key, value });
    }

    /// An update of durable state was computed from version `expect` of the value.
    pub fn state_proposed(&mut self, op: OpId, value: Option<Json>, expect: u64, wall: Timestamp) {
        self.clock(wall);
        let running = self.running(op, &[Kind::StateWrite]);
        let Some((Call::StateUpdate { scope, key }, _)) = running else { return };
        self.set(op, Phase::Deferred { attempt: 1 });
        let event = Event::StateWritten { op, scope, key: key.clone(), value: value.clone() };
        self.deferred.push(Deferred {
            op,
            record: Record { at: self.wall, event },
            effect: Effect::SwapState { op, scope, key, value, expect },
        });
    }

    /// A condition was looked at: `Some` is the value that met it.
    pub fn condition_checked(&mut self, op: OpId, met: Option<Option<Json>>, wall: Timestamp) {
        self.clock(wall);
        let running = self.running(op, &[Kind::Condition]);
        let Some((Call::StateWait { scope, key }, _)) = running else { return };
        let Some(value) = met else {
            // A change that came while we looked is not lost: look again.
            let held = self.ops.get_mut(&op);
            let changed = held.is_some_and(|held| std::mem::take(&mut held.look_again));
            let again = Phase::Gated { gate: 0, attempt: 1 };
            return self.set(op, if changed { again } else { Phase::Waiting { until: None } });
        };
        self.set(op, Phase::Replayed);
        self.unwatch(op, scope, &key);
        self.append(Event::ConditionMet { op, value });
    }

    /// A message from the inbox. Only when live.
    pub fn apply(&mut self, message: Message, wall: Timestamp) {
        self.clock(wall);
        let waits = |op: Option<&Op>, kind: Kind| {
            let waits =
                |op: &Op| matches!(op.phase, Phase::Waiting { .. } | Phase::Deferred { .. });
            op.is_some_and(|op| op.call.kind() == kind && waits(op))
        };
        match message {
            Message::Signal { name, id, payload } => {
                if id.as_ref().is_some_and(|id| !self.seen.insert(id)) {
                    return;
                }
                self.append(Event::SignalReceived { name, id, payload });
            }
            Message::Answer { key, answer } => {
                let asks = |op: &Op| op.key == key && waits(Some(op), Kind::Question);
                let Some((&op, _)) = self.ops.iter().find(|(_, op)| asks(op)) else { return };
                // Its time was up, and the answer still came first.
                self.deferred.retain(|deferred| deferred.op != op);
                self.set(op, Phase::Replayed);
                self.append(Event::QuestionAnswered { op, answer });
            }
            Message::ActivityEnded { op, outcome } => {
                if waits(self.ops.get(&op).map(Box::as_ref), Kind::Activity) {
                    self.set(op, Phase::Replayed);
                    self.clear_trouble(op);
                    self.append(match outcome {
                        Ok(result) => Event::ActivityCompleted { op, result },
                        Err(failure) => Event::ActivityFailed { op, failure },
                    });
                }
            }
            Message::ActivityRetrying { op, failure, retry_at } => {
                let held = self.ops.get_mut(&op);
                if let Some(held) = held.filter(|op| waits(Some(op), Kind::Activity)) {
                    held.trouble = Some(Box::new((failure, retry_at)));
                }
            }
            Message::ChildEnded { op, outcome } => {
                if waits(self.ops.get(&op).map(Box::as_ref), Kind::Child) {
                    self.set(op, Phase::Replayed);
                    self.append(match outcome {
                        Ok(result) => Event::ChildCompleted { op, result },
                        Err(failure) => Event::ChildFailed { op, failure },
                    });
                }
            }
            Message::StateChanged { scope, key } => self.look_again(scope, &key),
        }
    }

    fn look_again(&mut self, scope: Scope, key: &str) {
        let watches = |op: &Op| matches!(&op.call, Call::StateWait { scope: s, key: k } if *s == scope && k == key);
        let ids: Vec<OpId> = self.ops.iter().filter(|(_, op)| watches(op)).map(|o| *o.0).collect();
        for id in ids {
            match self.ops.get_mut(&id) {
                Some(op) if matches!(op.phase, Phase::Running { .. }) => {
                    // The look that is under way may have missed it.
                    op.look_again = true;
                }
                Some(op) if matches!(op.phase, Phase::Waiting { .. }) => {
                    self.set(id, Phase::Gated { gate: 0, attempt: 1 });
                }
                _ => {}
            }
        }
    }
}
