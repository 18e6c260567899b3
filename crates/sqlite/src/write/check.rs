//! Everything that can refuse a turn.

use rusqlite::params;
use steadfast_core::Status;
use steadfast_store::{After, Effect, Error, Refusal, Turn};

use super::Done;
use crate::{
    error::Fault,
    row,
    tx::{Tail, Tx},
};

/// What a turn that was found good works on.
pub(crate) struct Held {
    pub(crate) status: Status,
    pub(crate) deaths: u32,
    /// Where the history ends once it was removed, if it is to be.
    pub(crate) tail: Tail,
}

fn corrupt(text: String) -> Fault {
    Fault::Refused(Error::Corrupt(text))
}

impl Tx<'_> {
    pub(crate) fn check(&self, turn: &Turn) -> Done<Held> {
        let key = turn.lease.key.0;
        let sql = "SELECT status, deaths FROM task WHERE key = ? AND epoch = ? AND desk = ?";
        let params = [key, turn.lease.epoch, self.desk];
        let task = self.first(sql, params, |r| Ok((row::status(r, 0)?, r.get(1)?)))?;
        let (status, deaths) = task.ok_or(Refusal::Fenced)?;
        let tail = match turn.restart || turn.events.is_empty() {
            true => Tail::default(),
            false => self.tail(key)?,
        };
        if !turn.events.is_empty() && i64::try_from(turn.first) != Ok(tail.next) {
            let next = tail.next;
            return Err(corrupt(format!("event {} was given where {next} comes next", turn.first)));
        }
        if status.is_terminal() && matches!(turn.after, After::End { .. }) {
            return Err(Refusal::Terminal(status).into());
        }
        for (at, effect) in turn.effects.iter().enumerate() {
            // Each effect sees those before it.
            let before = turn.effects.get(..at).unwrap_or_default();
            match effect {
                Effect::ExpireQuestion { op, key: question }
                    if !self.will_be_open(turn, before, question)? =>
                {
                    return Err(Refusal::Guard(*op).into());
                }
                Effect::SwapState { op, scope, key, expect, .. }
                    if self.will_be_version(before, scope, key)? != *expect =>
                {
                    return Err(Refusal::Guard(*op).into());
                }
                Effect::StartTask { task, .. } if task.parent.is_none() => {
                    return Err(corrupt(format!("child {} has no parent", task.id)));
                }
                _ => {}
            }
        }
        Ok(Held { status, deaths, tail })
    }

    /// Whether a question is open once the effects `before` are true.
    fn will_be_open(&self, turn: &Turn, before: &[Effect], question: &str) -> Done<bool> {
        let last = before.iter().rev().find_map(|effect| match effect {
            Effect::OpenQuestion { key, .. } if key == question => Some(true),
            Effect::CloseQuestion { key } | Effect::ExpireQuestion { key, .. }
                if key == question =>
            {
                Some(false)
            }
            _ => None,
        });
        if let Some(open) = last {
            return Ok(open);
        }
        if turn.restart {
            return Ok(false);
        }
        let sql = "SELECT 1 FROM question WHERE task = ? AND key = ?";
        let open = self.first(sql, params![turn.lease.key.0, question], |_| Ok(()))?;
        Ok(open.is_some())
    }

    /// The version of a value once the effects `before` are true.
    fn will_be_version(&self, before: &[Effect], scope: &str, key: &str) -> Done<u64> {
        let writes = before.iter().filter(|effect| match effect {
            Effect::WriteState { scope: s, key: k, .. }
            | Effect::SwapState { scope: s, key: k, .. } => s == scope && k == key,
            _ => false,
        });
        let sql = "SELECT version FROM state WHERE scope = ? AND key = ?";
        let stored = self.first(sql, [scope, key], |r| row::count(r, 0))?;
        Ok(stored.unwrap_or(0) + writes.count() as u64)
    }
}
