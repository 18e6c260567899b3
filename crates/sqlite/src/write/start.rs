//! Starting a task.

use rusqlite::params;
use steadfast_core::{Moment, Status, TaskId};
use steadfast_store::{Bond, Dedup, Lease, NewTask, Refusal, Started, TaskKey};

use super::{Done, HALTED, READY, shelf};
use crate::{
    memory::{Card, Tail},
    row,
    tx::Tx,
};

/// A task that has a dedup key of a new one.
struct Same {
    key: i64,
    id: TaskId,
    status: Status,
    freed: bool,
    /// It has expired, was freed before the new one was asked for, or is to give way to it.
    gives_way: bool,
}

impl Tx<'_> {
    pub(crate) fn start(&mut self, new: &NewTask) -> Done<Started> {
        new.dedup.as_ref().map_or(Ok(()), Dedup::in_time)?;
        let hold = new.hold.then_some(self.desk);
        self.start_as(new, hold, new.parent.map(|parent| parent.key.0))
    }

    /// Starts a task as the child of `parent`, held by `hold` if there is one.
    pub(crate) fn start_as(
        &mut self,
        new: &NewTask,
        hold: Option<i64>,
        parent: Option<i64>,
    ) -> Done<Started> {
        let unless = new.dedup.as_ref().and_then(|dedup| dedup.unless.as_deref());
        let taken_back = self.same(new, unless)?.filter(|other| other.status == Status::Cancelled);
        let same = self.same(new, new.dedup.as_ref().map(|dedup| dedup.key.as_str()))?;
        for Same { key, id, freed, gives_way, .. } in taken_back.iter().chain(&same) {
            if !gives_way {
                return Ok(Started::Existing { key: TaskKey(*key), id: id.clone(), freed: *freed });
            }
        }
        if let Some(same) = same {
            if self
                .first("SELECT 1 FROM task WHERE id = ?", [new.id.as_str()], |_| Ok(()))?
                .is_some()
            {
                return Err(Refusal::Exists.into());
            }
            self.alter(same.key, "UPDATE task SET dedup = NULL WHERE key = ?", [same.key])?;
        }
        let has_ended = new.status.is_terminal();
        let wake = new.wake.filter(|wake| !has_ended && *wake > new.created).map(|wake| wake.0);
        let desk = match (wake, hold) {
            _ if has_ended => None,
            (Some(_), _) => None,
            (None, Some(desk)) => Some(desk),
            (None, None) if new.status.is_halted() => Some(HALTED),
            (None, None) => Some(READY),
        };
        let key = self.insert(new, parent, desk, wake)?.ok_or(Refusal::Exists)?;
        let tail = self.append(key, Tail::default(), new.events.iter().map(Vec::as_slice))?;
        self.memory.not_loose(key);
        let mail = self.hand_over(key, &new.id, row::owner(&new.owner), new.created.0)?;
        let held = desk.is_some_and(|desk| desk > 0);
        if held {
            let (status, child) = (new.status, parent.is_some());
            self.memory.keep(key, Card { epoch: 1, status, deaths: 0, tail, child, bare: !mail });
        }
        let lease = held.then_some(Lease { key: TaskKey(key), epoch: 1 });
        Ok(Started::New { key: TaskKey(key), lease, mail })
    }

    pub(crate) fn unbind(&mut self, tasks: &[(TaskId, Bond)], since: Moment) -> Done<()> {
        for (id, bond) in tasks {
            let sql = "SELECT key FROM task WHERE id = ?";
            let Some(key) = self.first(sql, [id.as_str()], |r| r.get::<_, i64>(0))? else {
                continue;
            };
            // Nothing that a card remembers.
            match bond {
                Bond::Key => self.free_key(key, since)?,
                Bond::Desk => {
                    let sql = "UPDATE task SET bound = NULL WHERE key = ? AND bound IS NOT NULL";
                    self.run(sql, [key])?;
                }
            }
        }
        Ok(())
    }

    /// Others may have its key who have asked for it after this.
    pub(super) fn free_key(&mut self, key: i64, since: Moment) -> rusqlite::Result<()> {
        let sql = "UPDATE task SET freed = ? WHERE key = ? AND dedup IS NOT NULL AND freed IS NULL";
        self.run(sql, [since.0, key]).map(drop)
    }

    /// The task that has this key of a new one.
    fn same(&self, new: &NewTask, key: Option<&str>) -> rusqlite::Result<Option<Same>> {
        let (Some(dedup), Some(key)) = (&new.dedup, key) else { return Ok(None) };
        let sql = "SELECT key, id, status, expires, freed FROM task WHERE owner = ? AND dedup = ?";
        self.first(sql, params![row::owner(&new.owner), key], |r| {
            let (id, freed) = (row::id(r, 1)?, r.get::<_, Option<i64>>(4)?);
            let expired = r.get::<_, Option<i64>>(3)?.is_some_and(|at| at <= new.created.0);
            let gives_way = expired
                || freed.is_some_and(|freed| freed < dedup.asked.moment.0)
                || dedup.instead_of.as_ref() == Some(&id);
            let (key, status) = (r.get(0)?, row::status(r, 2)?);
            Ok(Same { key, id, status, freed: freed.is_some(), gives_way })
        })
    }

    fn insert(
        &mut self,
        new: &NewTask,
        parent: Option<i64>,
        desk: Option<i64>,
        wake: Option<i64>,
    ) -> rusqlite::Result<Option<i64>> {
        let key = self.memory.next_task();
        // Its events are appended next.
        let count = i64::try_from(new.events.len()).unwrap_or(0);
        let tail = (count > 0).then(|| self.memory.last_event() + count);
        let rank = if desk == Some(READY) { self.memory.next_number() } else { 0 };
        let tags = match new.tags.is_empty() {
            true => None,
            // A map of strings always has a JSON form.
            false => serde_json::to_string(&new.tags).ok(),
        };
        let sql = "INSERT INTO task (key, id, tool, version, owner, status, shelf, created, \
                   updated, ended, expires, wake, parent, parent_op, tells, dedup, desk, rank, epoch, \
                   deaths, tags, view, about, tail, bound) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?19, ?7, ?7, ?22, ?8, ?9, ?10, ?11, ?12, ?13, ?14, \
                   ?15, 1, 0, ?16, ?17, ?18, ?20, ?21) ON CONFLICT (id) DO NOTHING";
        let inserted = self.run(
            sql,
            params![
                key,
                new.id.as_str(),
                new.tool,
                new.version.map_or(row::NO_VERSION, i64::from),
                row::owner(&new.owner),
                new.status as u8,
                new.created.0,
                new.expires.map(|at| at.0),
                wake,
                parent,
                new.parent.map(|parent| parent.op.0),
                new.parent.is_some_and(|parent| parent.notify),
                new.dedup.as_ref().map(|dedup| &dedup.key),
                desk,
                rank,
                tags,
                new.view,
                new.about,
                shelf(new.status, desk.is_some_and(|desk| desk > 0)),
                tail,
                new.bound.then_some(self.desk),
                new.status.is_terminal().then_some(new.created.0)
            ],
        )?;
        if inserted == 0 {
            return Ok(None);
        }
        self.memory.take_task();
        if rank > 0 {
            self.memory.number();
        }
        for (name, value) in &new.tags {
            let sql = "INSERT INTO tag (name, value, task) VALUES (?, ?, ?)";
            self.run(sql, params![name, value, key])?;
        }
        Ok(Some(key))
    }
}
