//! A turn: checked as a whole, then applied.

use rusqlite::params;
use steadfast_core::Status;
use steadfast_store::{After, Effect, Turn, Turned};

use super::{Done, shelf};
use crate::{
    memory::{Card, Tail},
    tx::{Reach, Tx},
};

impl Tx<'_> {
    /// A turn that only appends touches neither the task's row nor its indexes: the lease and the
    /// end of the history are looked up, and the events written.
    pub(crate) fn turn(&mut self, turn: &Turn) -> Done<Turned> {
        let mut card = self.check(turn)?;
        let key = turn.lease.key.0;
        let mut reach = Reach::default();
        if turn.restart {
            self.restart(key, &mut reach)?;
            card.tail = Tail::default();
        }
        if let Some(upto) = turn.consumed {
            self.run("DELETE FROM inbox WHERE task = ? AND seq <= ?", [key, upto])?;
        }
        card.tail = self.append(key, card.tail, turn.events.iter().map(Vec::as_slice))?;
        card.status = self.show(turn, key, card.status)?;
        if turn.progress && card.deaths > 0 {
            self.alter(key, "UPDATE task SET deaths = 0 WHERE key = ?", [key])?;
            card.deaths = 0;
        }
        // An effect may leave something, or send a message to this very task.
        card.bare &= turn.effects.is_empty();
        let mut activities = false;
        for effect in &turn.effects {
            activities |= matches!(effect, Effect::ScheduleActivity { .. });
            self.apply(key, turn.at, effect, &mut reach)?;
        }
        let ended = matches!(turn.after, After::End { .. });
        let ready = self.after(turn, &card, &mut reach)?;
        if matches!(turn.after, After::Keep) {
            self.memory.keep(key, card);
        } else {
            reach.touched.remove(&key);
        }
        let mut cancelled = std::mem::take(&mut reach.cancelled);
        cancelled.sort_unstable();
        let activities = activities && !ended;
        Ok(Turned { touched: reach.touched(), activities, cancelled, ready })
    }

    /// Writes the new status and view, and says what the status is now. An end writes its own.
    fn show(&mut self, turn: &Turn, key: i64, status: Status) -> rusqlite::Result<Status> {
        let Some((new, view)) = &turn.view else { return Ok(status) };
        let ends = matches!(turn.after, After::End { .. });
        // A status that is not written leaves its indexes alone.
        if ends || *new == status || status == Status::Suspended || status.is_terminal() {
            let sql = "UPDATE task SET view = ?, updated = ? WHERE key = ?";
            if !ends {
                self.alter(key, sql, params![view, turn.at.0, key])?;
            }
            return Ok(status);
        }
        let sql = "UPDATE task SET status = ?, shelf = ?, view = ?, updated = ? WHERE key = ?";
        self.alter(key, sql, params![*new as u8, shelf(*new, true), view, turn.at.0, key])?;
        Ok(*new)
    }

    /// Removes the history and what its operations left.
    fn restart(&mut self, key: i64, by: &mut Reach) -> rusqlite::Result<()> {
        self.forget(key)?;
        self.strip(key, by)?;
        // Notices are for watches, and those are gone too.
        self.run("DELETE FROM inbox WHERE task = ? AND (op IS NOT NULL OR notice)", [key])?;
        self.run("UPDATE task SET tells = 0 WHERE parent = ?", [key])?;
        Ok(())
    }

    /// Deals with the lease. Whether the task was to be parked and is ready instead.
    fn after(&mut self, turn: &Turn, card: &Card, by: &mut Reach) -> rusqlite::Result<bool> {
        let (key, status) = (turn.lease.key.0, card.status);
        match &turn.after {
            After::Keep => {}
            After::Yield => {
                self.set_tail(key, card)?;
                self.give_back(key, status)?;
            }
            After::Park { .. } if status.is_halted() => {
                self.set_tail(key, card)?;
                self.give_back(key, status)?;
            }
            After::Park { wake } => {
                let sql = "SELECT 1 FROM inbox WHERE task = ? LIMIT 1";
                if self.first(sql, [key], |_| Ok(()))?.is_some() {
                    self.set_tail(key, card)?;
                    self.put_ready(key)?;
                    return Ok(true);
                }
                self.memory.not_loose(key);
                let sql = "UPDATE task SET desk = NULL, wake = ?, shelf = status, tail = ?
                           WHERE key = ?";
                self.alter(key, sql, params![wake.map(|wake| wake.0), card.tail.last, key])?;
            }
            After::End { status, expires, end, tell, keep } => {
                if !card.bare {
                    self.clear(key, by)?;
                }
                let view = turn.view.as_ref().map(|(_, view)| view);
                let desk = keep.then_some(self.desk);
                let expires = expires.map(|at| at.0);
                let at = turn.at.0;
                // A column that is not named leaves its indexes alone.
                let sql = "UPDATE task SET status = ?1, updated = ?2, ended = ?2, expires = ?3,
                           end = ?4, desk = ?5, view = ifnull(?6, view), tail = ?7 WHERE key = ?8";
                let (status, tail) = (*status as u8, card.tail.last);
                self.memory.not_loose(key);
                self.alter(key, sql, params![status, at, expires, end, desk, view, tail, key])?;
                if shelf(card.status, true) != status {
                    self.run("UPDATE task SET shelf = status WHERE key = ?", [key])?;
                }
                if card.child {
                    self.tell_parent(key, tell, by)?;
                }
            }
        }
        Ok(false)
    }

    fn set_tail(&mut self, key: i64, card: &Card) -> rusqlite::Result<()> {
        let sql = "UPDATE task SET tail = ? WHERE key = ?";
        self.memory.not_loose(key);
        self.alter(key, sql, params![card.tail.last, key])
    }
}
