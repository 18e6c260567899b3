//! Messages: into inboxes, and kept for tasks that don't exist yet.

use rusqlite::params;
use steadfast_core::{OpId, Status, TaskId};
use steadfast_store::{Caller, Error, Refusal, SendTo, TaskKey, Touched};

use super::Done;
use crate::{
    error::Fault,
    row,
    tx::{Reach, Tx},
};

impl Tx<'_> {
    /// Puts a message into a task's inbox, which makes the task ready if it only waited. Nothing if
    /// the task is gone.
    pub(crate) fn deliver(
        &mut self,
        key: i64,
        op: Option<OpId>,
        body: &[u8],
        by: &mut Reach,
    ) -> rusqlite::Result<()> {
        self.put_message(key, op, false, body, by)
    }

    /// The same for the notice of a change, which takes the place of the same notice before it.
    pub(crate) fn notify(&mut self, key: i64, body: &[u8], by: &mut Reach) -> rusqlite::Result<()> {
        let sql = "DELETE FROM inbox WHERE task = ? AND notice AND body = ?";
        self.run(sql, params![key, body])?;
        self.put_message(key, None, true, body, by)
    }

    fn put_message(
        &mut self,
        key: i64,
        op: Option<OpId>,
        notice: bool,
        body: &[u8],
        by: &mut Reach,
    ) -> rusqlite::Result<()> {
        let sql = "SELECT status, desk, wake FROM task WHERE key = ?";
        let found = self.first(sql, [key], |r| {
            let (desk, wake) = (r.get::<_, Option<i64>>(1)?, r.get::<_, Option<i64>>(2)?);
            Ok((row::status(r, 0)?, desk, wake.is_some()))
        })?;
        let Some((status, desk, has_wake)) = found else { return Ok(()) };
        self.put_in(key, op, notice, body)?;
        by.touch(key, desk == Some(self.desk));
        let unbegun = has_wake && status == Status::Queued;
        if desk.is_none() && !unbegun {
            self.put_ready(key)?;
        }
        Ok(())
    }

    fn put_in(
        &mut self,
        key: i64,
        op: Option<OpId>,
        notice: bool,
        body: &[u8],
    ) -> rusqlite::Result<()> {
        self.memory.not_bare(key);
        let seq = self.memory.number();
        let sql = "INSERT INTO inbox (task, seq, op, notice, body) VALUES (?, ?, ?, ?, ?)";
        self.run(sql, params![key, seq, op.map(|op| op.0), notice, body])?;
        Ok(())
    }

    /// Tells a task's parent of its end, if it wants to know and has not ended.
    pub(crate) fn tell_parent(
        &mut self,
        key: i64,
        body: &[u8],
        by: &mut Reach,
    ) -> rusqlite::Result<()> {
        let sql = "SELECT parent, parent_op FROM task
                   WHERE key = ? AND tells AND parent IS NOT NULL";
        let parent = self.first(sql, [key], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, u32>(1)?)))?;
        match parent {
            Some((parent, op)) if self.is_open(parent)? => {
                self.deliver(parent, Some(OpId(op)), body, by)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn send(&mut self, caller: &Caller, send: &SendTo) -> Done<Option<Touched>> {
        let found = match (self.find_open(caller, &send.id), send.keep_until) {
            (Err(Fault::Refused(Error::Refused(Refusal::Unknown))), Some(until)) => {
                self.memory.set_none_kept(false);
                let n = self.memory.number();
                let sql = "INSERT INTO kept (n, id, sender, until, body) VALUES (?, ?, ?, ?, ?)";
                let sender = row::owner(&caller.principal);
                self.run(sql, params![n, send.id.as_str(), sender, until.0, send.body])?;
                return Ok(None);
            }
            (found, _) => found?,
        };
        self.deliver(found.key, None, &send.body, &mut Reach::default())?;
        Ok(Some(self.touched(found.key, found.desk)))
    }

    /// Moves the messages that were kept for a new task into its inbox. Whether there were any.
    pub(crate) fn hand_over(
        &mut self,
        key: i64,
        id: &TaskId,
        owner: &str,
        created: i64,
    ) -> rusqlite::Result<bool> {
        if self.memory.none_kept() {
            return Ok(false);
        }
        let any = self.first("SELECT EXISTS (SELECT 1 FROM kept)", [], |r| r.get(0))?;
        self.memory.set_none_kept(any == Some(false));
        let sql = "SELECT n, body FROM kept
                   WHERE id = ? AND until > ? AND (sender = '' OR sender = ?) ORDER BY n";
        let kept = self.all(sql, params![id.as_str(), created, owner], |r| {
            Ok((r.get::<_, i64>(0)?, r.get::<_, Vec<u8>>(1)?))
        })?;
        for (n, body) in &kept {
            self.run("DELETE FROM kept WHERE n = ?", [n])?;
            self.put_in(key, None, false, body)?;
        }
        Ok(!kept.is_empty())
    }

    pub(crate) fn answer(
        &mut self,
        caller: &Caller,
        id: &TaskId,
        question: &str,
        body: &[u8],
    ) -> Done<Touched> {
        let found = self.find_open(caller, id)?;
        let op = self.close_question(found.key, question)?.ok_or(Refusal::NotOpen)?;
        self.deliver(found.key, Some(op), body, &mut Reach::default())?;
        Ok(self.touched(found.key, found.desk))
    }

    /// A task that lay there when something happened to it.
    pub(crate) fn touched(&self, key: i64, desk: Option<i64>) -> Touched {
        Touched { key: TaskKey(key), here: desk == Some(self.desk) }
    }
}
