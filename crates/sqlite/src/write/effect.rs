//! The effects of a turn that was found good.

use rusqlite::params;
use steadfast_core::{OpId, TaskId, Timestamp};
use steadfast_store::{Effect, Error, NewTask, Refusal, Started};

use super::Done;
use crate::{
    error::Fault,
    schema::question_places,
    tx::{Reach, Tx},
};

impl Tx<'_> {
    pub(crate) fn apply(
        &mut self,
        key: i64,
        at: Timestamp,
        effect: &Effect,
        by: &mut Reach,
    ) -> Done<()> {
        match effect {
            Effect::OpenQuestion { key: question, op, body } => {
                self.close_question(key, question)?;
                self.open_question(key, question, *op, body)?;
            }
            Effect::CloseQuestion { key: question }
            | Effect::ExpireQuestion { key: question, .. } => {
                self.close_question(key, question)?;
            }
            Effect::ScheduleActivity { op, name, token, body } => {
                self.schedule(key, *op, name, token, body)?;
            }
            Effect::CancelActivity { op } => self.cancel_activity(key, *op, by)?,
            Effect::StartTask { task, exists } => self.start_child(key, task, exists, by)?,
            Effect::CancelTask { id, cancel } => {
                let other = self.first(OPEN, params![id.as_str(), key], |r| r.get(0))?;
                if let Some(other) = other {
                    self.cancel_task(other, cancel, by)?;
                }
            }
            Effect::WriteState { scope, key: name, value, notice }
            | Effect::SwapState { scope, key: name, value, notice, .. } => {
                self.write_state(scope, name, value.as_deref(), notice, by)?;
            }
            Effect::Watch { scope, key: name } => {
                let sql = "INSERT OR IGNORE INTO watch (scope, key, task) VALUES (?, ?, ?)";
                self.run(sql, params![scope, name, key])?;
            }
            Effect::Unwatch { scope, key: name } => {
                let sql = "DELETE FROM watch WHERE scope = ? AND key = ? AND task = ?";
                self.run(sql, params![scope, name, key])?;
            }
            Effect::Send { to, body } => self.send_on(key, at, to, body, by)?,
        }
        Ok(())
    }

    fn open_question(
        &self,
        key: i64,
        question: &str,
        op: OpId,
        body: &[u8],
    ) -> rusqlite::Result<()> {
        let sql = "SELECT max(place) FROM question WHERE place BETWEEN ? AND ?";
        let [first, last] = question_places(key);
        let place = match self.first(sql, [first, last], |r| r.get::<_, Option<i64>>(0))?.flatten()
        {
            Some(top) if top == last => self.close_ranks(first, last)?,
            Some(top) => top + 1,
            None => first,
        };
        let sql = "INSERT INTO question (place, key, op, body) VALUES (?, ?, ?, ?)";
        self.run(sql, params![place, question, op.0, body]).map(drop)
    }

    /// Moves a task's questions to its first places, and says which is free then. Needed only after
    /// millions of questions, if one was open at all times.
    fn close_ranks(&self, first: i64, last: i64) -> rusqlite::Result<i64> {
        let sql = "SELECT place FROM question WHERE place BETWEEN ? AND ? ORDER BY place";
        let mut free = first;
        for place in self.all(sql, [first, last], |r| r.get::<_, i64>(0))? {
            self.run("UPDATE question SET place = ? WHERE place = ?", [free, place])?;
            free += 1;
        }
        Ok(free)
    }

    /// The operation of a question that was open and is not any more.
    pub(crate) fn close_question(
        &self,
        key: i64,
        question: &str,
    ) -> rusqlite::Result<Option<OpId>> {
        let sql = "DELETE FROM question WHERE place BETWEEN ? AND ? AND key = ? RETURNING op";
        let [first, last] = question_places(key);
        self.first(sql, params![first, last, question], |r| r.get(0).map(OpId))
    }

    fn schedule(
        &mut self,
        key: i64,
        op: OpId,
        name: &str,
        token: &str,
        body: &[u8],
    ) -> rusqlite::Result<()> {
        let number = self.memory.number();
        let sql =
            "INSERT INTO activity (key, task, op, name, token, desk, rank, epoch, attempt, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, 0, ?1, 1, 1, ?6)";
        self.run(sql, params![number, key, op.0, name, token, body]).map(drop)
    }

    fn cancel_activity(&self, key: i64, op: OpId, by: &mut Reach) -> rusqlite::Result<()> {
        let sql = "DELETE FROM activity WHERE task = ? AND op = ? RETURNING key, desk";
        let gone =
            self.first(sql, params![key, op.0], |r| Ok((r.get(0)?, r.get::<_, Option<i64>>(1)?)))?;
        if let Some((activity, desk)) = gone
            && desk == Some(self.desk)
        {
            by.cancelled.push(activity);
        }
        Ok(())
    }

    fn start_child(
        &mut self,
        key: i64,
        child: &NewTask,
        exists: &[u8],
        by: &mut Reach,
    ) -> Done<()> {
        // The check of the turn saw that it is set.
        let Some(op) = child.parent.map(|parent| parent.op) else { return Ok(()) };
        let waits = child.wake.is_some_and(|wake| wake > child.created);
        match self.start_as(child, None, Some(key)) {
            Ok(Started::New { key, .. }) if !waits => by.touch(key.0, false),
            Ok(Started::New { .. }) => {}
            Ok(Started::Existing { .. }) | Err(Fault::Refused(Error::Refused(Refusal::Exists))) => {
                if self.is_open(key)? {
                    self.deliver(key, Some(op), exists, by)?;
                }
            }
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn write_state(
        &mut self,
        scope: &str,
        name: &str,
        value: Option<&[u8]>,
        notice: &[u8],
        by: &mut Reach,
    ) -> rusqlite::Result<()> {
        let sql = "INSERT INTO state (scope, key, version, value) VALUES (?, ?, 1, ?)
                   ON CONFLICT DO UPDATE SET version = version + 1, value = excluded.value";
        self.run(sql, params![scope, name, value])?;
        let sql = "SELECT task FROM watch WHERE scope = ? AND key = ? ORDER BY task";
        for task in self.all(sql, [scope, name], |r| r.get(0))? {
            if self.is_open(task)? {
                self.notify(task, notice, by)?;
            }
        }
        Ok(())
    }

    fn send_on(
        &mut self,
        key: i64,
        at: Timestamp,
        to: &TaskId,
        body: &[u8],
        by: &mut Reach,
    ) -> rusqlite::Result<()> {
        let sql = "SELECT t.key FROM task t, task s
                   WHERE t.id = ? AND s.key = ? AND t.status < 7
                   AND (t.expires IS NULL OR t.expires > ?) AND s.owner IN ('', t.owner)";
        match self.first(sql, params![to.as_str(), key, at.0], |r| r.get(0))? {
            Some(to) => self.deliver(to, None, body, by),
            None => Ok(()),
        }
    }
}

/// Another task that has not ended.
const OPEN: &str = "SELECT key FROM task WHERE id = ? AND key <> ? AND status < 7";
