//! Everything that can refuse a turn.

use steadfast_store::{After, Effect, Error, Refusal, Turn};

use super::Done;
#[cfg(debug_assertions)]
use crate::history;
use crate::{
    error::Fault,
    memory::{Card, Tail},
    row,
    tx::Tx,
};

fn corrupt(text: String) -> Fault {
    Fault::Refused(Error::Corrupt(text))
}

impl Tx<'_> {
    /// The card of the task as it is before the turn.
    pub(crate) fn check(&mut self, turn: &Turn) -> Done<Card> {
        let card = self.held(turn.lease.key.0)?;
        let card = card.filter(|card| card.epoch == turn.lease.epoch).ok_or(Refusal::Fenced)?;
        let next = if turn.restart { 0 } else { card.tail.next };
        if !turn.events.is_empty() && i64::try_from(turn.first) != Ok(next) {
            return Err(corrupt(format!("event {} was given where {next} comes next", turn.first)));
        }
        let status = card.status;
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
        Ok(card)
    }

    /// What is known of a task, if it lies on this desk.
    fn held(&mut self, key: i64) -> rusqlite::Result<Option<Card>> {
        let card = match self.memory.card(key) {
            Some(card) => Some(card),
            None => self.look_up(key)?,
        };
        #[cfg(debug_assertions)]
        if let Some(card) = card {
            // In every test each card is held against what the file says.
            let tail = history::tail(self.statements.conn, key)?;
            let found = self.read_card(key, tail)?.map(|found| Card { bare: card.bare, ..found });
            assert_eq!(found, Some(card), "what is known of task {key} is not true");
            assert!(!card.bare || self.is_bare(key)?, "task {key} is not bare");
        }
        Ok(card)
    }

    fn look_up(&mut self, key: i64) -> rusqlite::Result<Option<Card>> {
        let Some(card) = self.read_card(key, Tail::default())? else { return Ok(None) };
        let tail = match self.memory.old_tail(key, card.epoch) {
            Some(tail) => tail,
            None => self.tail(key)?,
        };
        Ok(Some(Card { tail, ..card }))
    }

    /// A task on this desk as its row says it, with the tail that is given.
    fn read_card(&self, key: i64, tail: Tail) -> rusqlite::Result<Option<Card>> {
        let sql = "SELECT epoch, status, deaths, parent IS NOT NULL FROM task
                   WHERE key = ? AND desk = ?";
        self.first(sql, [key, self.desk], |r| {
            let (epoch, status, deaths) = (r.get(0)?, row::status(r, 1)?, r.get(2)?);
            Ok(Card { epoch, status, deaths, tail, child: r.get(3)?, bare: false })
        })
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
        Ok(self.asked(turn.lease.key.0)?.iter().any(|open| open.key == question))
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
