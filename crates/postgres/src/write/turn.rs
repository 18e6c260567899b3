//! A turn: checked as a whole, then applied without a way to be refused.

use steadfast_core::{Status, Timestamp};
use steadfast_store::{After, Effect, Turn, Turned};

use crate::{
    lane::{Card, Cards},
    queue::Apply,
    work::{Done, Needs, Place, Reach, Work},
};

pub(crate) struct TakeTurn(pub(crate) Turn);

impl Apply for TakeTurn {
    type Answer = Turned;

    fn needs(&self, needs: &mut Needs, cards: &Cards) {
        let turn = &self.0;
        let key = turn.lease.key.0;
        needs.keys.insert(key);
        let card = cards.get(key, turn.lease.epoch);
        match (&turn.after, &card) {
            (After::Park { .. }, Some(card))
                if card.row.as_ref().is_some_and(|row| !row.has_mail()) => {}
            (After::Park { .. }, _) => drop(needs.inbox.insert(key)),
            (After::End { .. }, Some(Card { parent: Some(parent), .. })) => {
                needs.keys.insert(*parent);
                // It may take a turn in this batch as well.
                if let Some(card) = cards.of(*parent) {
                    needs.cards.entry(*parent).or_insert(card);
                }
            }
            (After::End { .. } | After::Keep | After::Yield, _) => {}
        }
        if !turn.events.is_empty() && card.as_ref().is_none_or(|card| card.next.is_none()) {
            needs.next.insert(key);
        }
        if let Some(card) = card {
            needs.cards.insert(key, card);
        }
        for effect in &turn.effects {
            needs.effect(key, effect);
        }
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Turned> {
        work.turn(&self.0)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn insists(&self) -> bool {
        true
    }
}

impl<'b> Work<'b> {
    fn turn(&mut self, turn: &'b Turn) -> Done<Turned> {
        self.check(turn)?;
        let key = turn.lease.key.0;
        let mut reach = Reach::default();
        if turn.restart {
            self.restart(key, &mut reach)?;
        }
        if let Some(upto) = turn.consumed {
            self.consume(key, upto);
        }
        if let Some(task) = self.task(key)? {
            for event in &turn.events {
                task.append(event);
            }
            if turn.progress && task.deaths != 0 {
                (task.deaths, task.dirty) = (0, true);
            }
        }
        self.changed();
        if let Some((status, view)) = &turn.view {
            self.edit(key, |task| {
                if task.status != Status::Suspended && !task.status.is_terminal() {
                    task.status = *status;
                }
                task.view = Some(view);
                task.updated = Some(turn.at.0);
            });
        }
        let mut activities = false;
        for effect in &turn.effects {
            activities |= matches!(effect, Effect::ScheduleActivity { .. });
            self.effect(key, turn.at, effect, &mut reach)?;
        }
        activities &= !matches!(turn.after, After::End { .. });
        let ready = self.after(key, turn.at, &turn.after, &mut reach)?;
        let here = Place::Desk(self.desk);
        if self.task(key)?.is_none_or(|task| task.place != here) {
            reach.touched.remove(&key);
        }
        Ok(Turned {
            touched: reach.touched(),
            activities,
            cancelled: reach.cancelled.into_iter().collect(),
            ready,
        })
    }

    /// Removes the history and what its operations left.
    fn restart(&mut self, key: i64, by: &mut Reach) -> Done<()> {
        self.strip(key, by)?;
        self.clear_bound(key);
        self.hear_no_children(key);
        if let Some(task) = self.task(key)? {
            task.events.clear();
            task.next = Some(0);
            task.restarted = true;
        }
        Ok(())
    }

    /// Deals with the lease. Whether the task was to be parked and is ready instead.
    fn after(&mut self, key: i64, at: Timestamp, after: &'b After, by: &mut Reach) -> Done<bool> {
        match after {
            After::Keep => {}
            After::Yield => self.give_back(key),
            After::Park { wake } => {
                if self.task(key)?.is_some_and(|task| task.status.is_halted()) {
                    self.put_aside(key, None);
                } else if !self.is_inbox_empty(key)? {
                    self.put_ready(key);
                    return Ok(true);
                } else {
                    self.park(key, wake.map(|wake| wake.0));
                }
            }
            After::End { status, expires, end, tell, keep } => {
                self.clear_inbox(key);
                self.strip(key, by)?;
                self.edit(key, |task| {
                    task.status = *status;
                    task.updated = Some(at.0);
                    task.ended = Some(at.0);
                    task.expires = expires.map(|expires| expires.0);
                    task.outcome = Some(end);
                });
                if *keep {
                    by.touched.remove(&key);
                } else {
                    self.park(key, None);
                }
                self.tell_parent(key, tell, by)?;
            }
        }
        Ok(false)
    }
}
