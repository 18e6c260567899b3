//! What must hold at a start, at a commit and at the end.

use std::collections::BTreeSet;

use steadfast_core::{Call, Event, Json, Message, Mode, OpId, Record, StepGrant, Turn};

use crate::world::Store;

impl Store {
    /// Everything that an unread signal, a key or an undo needs must be in the new beginning.
    pub(crate) fn begin_anew(&mut self, turn: &Turn) {
        let Event::Started { carry: Some(carry), .. } = &turn.events[0].event else {
            panic!("a restart without a start")
        };
        let mut unread: Vec<(String, Json)> = Vec::new();
        let mut undos = Vec::new();
        let mut asked = Vec::new();
        for record in &self.history {
            match &record.event {
                Event::Started { carry: Some(old), .. } => {
                    unread.extend(old.signals.iter().cloned());
                    undos.extend(old.undos.iter().cloned());
                    asked.extend(old.keys.keys().cloned());
                }
                Event::SignalReceived { name, payload, id } => {
                    unread.push((name.clone(), payload.clone()));
                    assert!(id.as_ref().is_none_or(|id| carry.seen.contains(id)), "{id:?}");
                }
                Event::UndoRecorded { undo, .. } => undos.push(undo.clone()),
                Event::QuestionAsked { ask, .. } => asked.push(ask.key.clone()),
                _ => {}
            }
        }
        for payload in &self.signals_read {
            if let Some(at) = unread.iter().position(|(_, p)| p == payload) {
                unread.remove(at);
            }
        }
        for name in ["signal-0", "signal-1"] {
            // Those that came with this very turn are in the carry alone.
            let of = |signals: &[(String, Json)]| -> Vec<Json> {
                signals.iter().filter(|(n, _)| n == name).map(|(_, p)| p.clone()).collect()
            };
            let (kept, expected) = (of(&carry.signals), of(&unread));
            assert!(kept.starts_with(&expected), "{kept:?} instead of {expected:?}");
        }
        assert!(carry.undos.starts_with(&undos), "undos lost");
        assert!(asked.iter().all(|key| carry.keys.contains_key(key)), "keys lost");
        self.history.clear();
        self.questions.clear();
        self.activities.clear();
        self.children.clear();
        self.watches.clear();
        self.ran.clear();
        self.lost.clear();
        self.open.clear();
        self.once.retain(|what| !what.starts_with("event "));
        let for_op = |m: &Message| !matches!(m, Message::Signal { .. });
        self.inbox.retain(|(_, message)| !for_op(message));
    }

    fn has(&self, op: OpId, pick: impl Fn(&Event) -> bool) -> bool {
        self.history.iter().any(|r| r.event.op() == Some(op) && pick(&r.event))
    }

    /// Everything that a closure can depend on must be durable when it starts.
    pub(crate) fn check_start(&self, id: OpId, call: &Call, grant: StepGrant) {
        let (read, signals) = &self.created[&id];
        for earlier in read {
            let durable = self.has(*earlier, |event| !matches!(event, Event::Noted { .. }));
            assert!(durable, "{id} runs before the result of {earlier} is durable");
        }
        let received = |r: &&Record| matches!(r.event, Event::SignalReceived { .. });
        let carried = match &self.history[0].event {
            Event::Started { carry: Some(carry), .. } => carry.signals.len(),
            _ => 0,
        };
        let durable = self.history.iter().filter(received).count() + carried;
        assert!(*signals <= durable, "{id} runs before a signal that was read is durable");
        let ended = |e: &Event| matches!(e, Event::StepCompleted { .. } | Event::StepFailed { .. });
        assert!(!self.has(id, ended), "{id} runs although its result is recorded");
        if let Call::Step { mode, undo, .. } = call {
            let undone = |e: &Event| matches!(e, Event::UndoRecorded { .. });
            assert!(undo.is_none() || self.has(id, undone), "{id} runs before its undo is durable");
            if matches!(mode, Mode::AtMostOnce { .. }) {
                let attempt = grant.attempt;
                let starts =
                    |e: &Event| matches!(e, Event::StepStarted { attempt: a, .. } if *a == attempt);
                assert!(self.has(id, starts), "{id} runs before its start is durable");
                assert!(!self.ran.contains_key(&(id, attempt)), "{id} runs twice");
            }
        }
    }

    /// At the end of a run: every recorded step ran once, and once more for each death before its
    /// record.
    pub(crate) fn check_counts(&self) {
        for ((op, attempt), ran) in &self.ran {
            let recorded = self.has(*op, |event| match event {
                Event::StepCompleted { .. } => true,
                Event::StepRetrying { attempt: a, .. } => a == attempt,
                _ => false,
            });
            let lost = self.lost.get(&(*op, *attempt)).copied().unwrap_or(0);
            if recorded && !self.has(*op, |e| matches!(e, Event::StepStarted { .. })) {
                assert_eq!(*ran, 1 + lost, "{op} attempt {attempt}");
            }
        }
    }
}

/// No event may speak twice of the same thing.
pub(crate) fn check_once(once: &mut BTreeSet<String>, event: &Event) {
    let Some(op) = event.op() else { return };
    let name = format!("{event:?}");
    let name = name.split([' ', '{']).next().unwrap_or_default().to_owned();
    let attempt = match event {
        Event::StepStarted { attempt, .. } | Event::StepRetrying { attempt, .. } => *attempt,
        _ => 0,
    };
    let what = format!("event {name} {op} {attempt}");
    assert!(once.insert(what.clone()), "recorded twice: {what}");
}
