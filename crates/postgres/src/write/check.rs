//! Everything that can refuse a turn.

use std::collections::BTreeMap;

use steadfast_store::{After, Effect, Error, Refusal, Turn};

use crate::{
    error::Fault,
    work::{Done, Place, Work},
};

impl<'b> Work<'b> {
    pub(super) fn check(&mut self, turn: &'b Turn) -> Done<()> {
        let key = turn.lease.key.0;
        #[cfg(feature = "mutants")]
        if crate::mutants::is_unfenced() && self.task(key)?.is_some() {
            return self.next_event(key).map(drop);
        }
        let here = Place::Desk(self.desk);
        let held = self.task(key)?.filter(|t| t.place == here && t.epoch == turn.lease.epoch);
        let status = held.ok_or(Refusal::Fenced)?.status;
        if !turn.events.is_empty() {
            let next = if turn.restart { 0 } else { self.next_event(key)? };
            if i64::try_from(turn.first).ok() != Some(next) {
                // What is remembered is no reason to stop a task for good.
                self.look_for_next(key)?;
                let text = format!("event {} was given where {next} comes next", turn.first);
                return Err(Fault::Refused(Error::Corrupt(text)));
            }
        }
        if status.is_terminal() && matches!(turn.after, After::End { .. }) {
            return Err(Refusal::Terminal(status).into());
        }
        self.check_effects(key, turn)
    }

    /// Each effect sees those before it, so what they change is followed here.
    fn check_effects(&mut self, key: i64, turn: &'b Turn) -> Done<()> {
        let mut open: BTreeMap<&str, bool> = BTreeMap::new();
        let mut written: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for effect in &turn.effects {
            match effect {
                Effect::OpenQuestion { key: question, .. } => drop(open.insert(question, true)),
                Effect::CloseQuestion { key: question } => drop(open.insert(question, false)),
                Effect::ExpireQuestion { op, key: question } => {
                    let is_open = match open.insert(question, false) {
                        Some(is_open) => is_open,
                        None if turn.restart => false,
                        None => self.open_questions(key)?.iter().any(|(open, _)| open == question),
                    };
                    if !is_open {
                        return Err(Refusal::Guard(*op).into());
                    }
                }
                Effect::WriteState { scope, key, .. } => {
                    *written.entry((scope, key)).or_default() += 1;
                }
                Effect::SwapState { op, scope, key, expect, .. } => {
                    let stored = self.version(scope, key)?;
                    let more = written.entry((scope, key)).or_default();
                    if u64::try_from(stored + *more).ok() != Some(*expect) {
                        return Err(Refusal::Guard(*op).into());
                    }
                    *more += 1;
                }
                Effect::StartTask { task, .. } if task.parent.is_none() => {
                    let text = format!("child {} has no parent", task.id);
                    return Err(Fault::Refused(Error::Corrupt(text)));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
