//! The effects of a turn that was found good.

use rusqlite::params;
use steadfast_core::{OpId, TaskId, Timestamp};
use steadfast_store::{Effect, Error, NewTask, QuestionRow, Refusal, SESSION_SCOPE, Started};

use super::Done;
use crate::{
    asks,
    error::Fault,
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
            Effect::Post { body, until, most } => {
                self.post(body, *until, *most)?;
            }
            Effect::OpenQuestion { key: question, op, body } => {
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

    /// The open questions of a task.
    pub(crate) fn asked(&self, key: i64) -> rusqlite::Result<Vec<QuestionRow>> {
        let sql = "SELECT asks FROM task WHERE key = ?";
        let asked = self.first(sql, [key], |r| Ok(asks::read(r.get_ref(0)?)?))?;
        Ok(asked.unwrap_or_default())
    }

    fn set_asked(&self, key: i64, asked: &[QuestionRow]) -> rusqlite::Result<()> {
        // No card says which they are, so that it needn't be dropped.
        let sql = "UPDATE task SET asks = ? WHERE key = ?";
        self.run(sql, params![asks::write(asked), key]).map(drop)
    }

    fn open_question(
        &self,
        key: i64,
        question: &str,
        op: OpId,
        body: &[u8],
    ) -> rusqlite::Result<()> {
        let mut asked = self.asked(key)?;
        asked.retain(|open| open.key != question);
        asked.push(QuestionRow { key: question.into(), op, body: body.into() });
        self.set_asked(key, &asked)
    }

    /// The operation of a question that was open and is not any more.
    pub(crate) fn close_question(
        &self,
        key: i64,
        question: &str,
    ) -> rusqlite::Result<Option<OpId>> {
        let mut asked = self.asked(key)?;
        let Some(place) = asked.iter().position(|open| open.key == question) else {
            return Ok(None);
        };
        let closed = asked.remove(place);
        self.set_asked(key, &asked)?;
        Ok(Some(closed.op))
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
        // What is written to a session that is over would never be removed.
        if let Some(session) = scope.strip_prefix(SESSION_SCOPE)
            && self.first("SELECT 1 FROM session WHERE id = ?", [session], |_| Ok(()))?.is_none()
        {
            return Ok(());
        }
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
