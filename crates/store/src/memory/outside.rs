//! What reaches a task from outside.

use std::collections::BTreeMap;

use steadfast_core::{Principal, Status, TaskId, Timestamp};

use super::content::{Content, Place, Reach};
use crate::{
    Caller, Cancel, Desk, Error, Refusal, Result, Resume, SendTo, Suspend, TaskKey, Touched,
};

/// Messages to tasks that do not exist yet.
#[derive(Debug, Default)]
pub(super) struct Kept {
    letters: BTreeMap<TaskId, BTreeMap<u64, Letter>>,
    until: BTreeMap<(Timestamp, u64), TaskId>,
    last: u64,
}

#[derive(Debug)]
struct Letter {
    /// `None` is an operator.
    from: Option<Principal>,
    body: Vec<u8>,
    until: Timestamp,
}

impl Kept {
    fn keep(&mut self, id: TaskId, letter: Letter) {
        self.last += 1;
        self.until.insert((letter.until, self.last), id.clone());
        self.letters.entry(id).or_default().insert(self.last, letter);
    }

    fn remove(&mut self, id: &TaskId, number: u64) -> Option<Letter> {
        let letters = self.letters.get_mut(id)?;
        let letter = letters.remove(&number)?;
        if letters.is_empty() {
            self.letters.remove(id);
        }
        self.until.remove(&(letter.until, number));
        Some(letter)
    }

    /// Forgets what was to be kept until `now` at most.
    pub(super) fn sweep(&mut self, now: Timestamp) -> bool {
        let mut any = false;
        while let Some((&(until, number), id)) = self.until.first_key_value()
            && until <= now
        {
            let id = id.clone();
            self.remove(&id, number);
            any = true;
        }
        any
    }
}

impl Content {
    pub(super) fn send(
        &mut self,
        caller: &Caller,
        send: SendTo,
        desk: Desk,
    ) -> Result<Option<Touched>> {
        let key = match (self.find_open(caller, &send.id), send.keep_until) {
            (Err(Error::Refused(Refusal::Unknown)), Some(until)) => {
                let from = caller.principal.clone();
                self.kept.keep(send.id, Letter { from, body: send.body, until });
                self.changed();
                return Ok(None);
            }
            (found, _) => found?,
        };
        let mut reach = Reach::of(desk);
        self.deliver(key, None, send.body, &mut reach);
        Ok(reach.touched().pop())
    }

    /// Takes out the messages that were kept for a task that begins, oldest first.
    pub(super) fn kept_for(&mut self, key: TaskKey) -> Vec<Vec<u8>> {
        let Some(row) = self.tasks.get(&key).map(|task| &task.row) else { return Vec::new() };
        let letters = self.kept.letters.get(&row.id).into_iter().flatten();
        let numbers: Vec<u64> = letters
            .filter(|(_, letter)| letter.until > row.created)
            .filter(|(_, letter)| letter.from.is_none() || letter.from == row.owner)
            .map(|(number, _)| *number)
            .collect();
        let letters = numbers.into_iter().filter_map(|number| self.kept.remove(&row.id, number));
        letters.map(|letter| letter.body).collect()
    }

    pub(super) fn answer(
        &mut self,
        caller: &Caller,
        id: &TaskId,
        question: &str,
        body: Vec<u8>,
        desk: Desk,
    ) -> Result<Touched> {
        let key = self.find_open(caller, id)?;
        let mut reach = Reach::of(desk);
        let questions = self.tasks.get_mut(&key).map(|task| &mut task.questions);
        let asked = questions.and_then(|questions| {
            let at = questions.iter().position(|open| open.key == question)?;
            Some(questions.remove(at))
        });
        let op = asked.ok_or(Refusal::NotOpen)?.op;
        self.deliver(key, Some(op), body, &mut reach);
        Ok(Touched { key, here: reach.touched.get(&key).is_some_and(|here| *here) })
    }

    pub(super) fn cancel(
        &mut self,
        caller: &Caller,
        id: &TaskId,
        cancel: Cancel,
        desk: Desk,
    ) -> Result<Vec<Touched>> {
        let key = self.find_open(caller, id)?;
        let mut reach = Reach::of(desk);
        self.cancel_task(key, cancel, &mut reach);
        Ok(reach.touched())
    }

    /// Cancels a task that is there and has not ended.
    pub(super) fn cancel_task(&mut self, key: TaskKey, cancel: Cancel, by: &mut Reach) {
        self.strip(key, by);
        let Some(task) = self.tasks.get_mut(&key) else { return };
        let place = task.place;
        by.touch(Touched { key, here: place == Place::Desk(by.desk) });
        task.history.push(cancel.event);
        task.clear_inbox();
        if let Some(since) = cancel.frees {
            task.free(since.moment);
        }
        self.edit(key, |row| {
            row.status = Status::Cancelled;
            row.epoch += 1;
            row.deaths = 0;
            row.updated = cancel.at;
            row.ended = Some(cancel.at);
            row.expires = cancel.expires;
            row.view = cancel.view;
            row.end = Some(cancel.end);
        });
        match place {
            Place::Desk(holder) if holder != by.desk => {}
            _ => self.put_ready(key),
        }
        self.tell_parent(key, cancel.tell, by);
    }

    pub(super) fn suspend(
        &mut self,
        caller: &Caller,
        id: &TaskId,
        suspend: Suspend,
        desk: Desk,
    ) -> Result<Touched> {
        let key = self.find_open(caller, id)?;
        let task = self.task(key)?;
        let (status, place) = (task.row.status, task.place);
        if status == Status::Suspended {
            return Err(Refusal::WrongStatus(status).into());
        }
        match place {
            Place::Desk(_) => {}
            Place::Parked(wake) if status == Status::Queued => self.put(key, Place::Halted(wake)),
            Place::Parked(_) | Place::Ready(_) | Place::Halted(_) => {
                self.put(key, Place::Halted(None));
            }
        }
        self.edit(key, |row| {
            row.status = Status::Suspended;
            row.view = suspend.view;
            row.updated = suspend.at;
        });
        Ok(Touched { key, here: place == Place::Desk(desk) })
    }

    pub(super) fn resume(
        &mut self,
        caller: &Caller,
        id: &TaskId,
        resume: Resume,
        desk: Desk,
    ) -> Result<Touched> {
        let key = self.find_open(caller, id)?;
        let task = self.task(key)?;
        let (status, place) = (task.row.status, task.place);
        if !status.is_halted() {
            return Err(Refusal::WrongStatus(status).into());
        }
        let start = match place {
            Place::Halted(start) => start.filter(|start| *start > resume.at),
            Place::Desk(_) | Place::Ready(_) | Place::Parked(_) => None,
        };
        self.edit(key, |row| {
            row.status = if start.is_some() { Status::Queued } else { Status::Running };
            row.deaths = 0;
            row.view = resume.view;
            row.updated = resume.at;
        });
        match (start, place) {
            (_, Place::Desk(_)) => {}
            (Some(_), _) => self.put(key, Place::Parked(start)),
            (None, _) => self.put_ready(key),
        }
        Ok(Touched { key, here: place == Place::Desk(desk) })
    }
}
