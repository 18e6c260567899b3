//! Reads of a few rows.

use rusqlite::{Connection, OptionalExtension, Row, params};
use steadfast_core::{Moment, TaskId, Timestamp};
use steadfast_store::{
    ActivityRow, Caller, Error, InboxRow, Keyed, Posted, QuestionRow, Refusal, Result, SessionRow,
    StateRow, TaskKey, TaskRow,
};

use super::Readers;
use crate::{
    asks,
    row::{self, activity_columns, task_columns},
};

impl Readers {
    pub(crate) fn get(&self, caller: &Caller, id: &TaskId) -> Result<TaskRow> {
        let found = self.point(|conn| {
            let mut statement = conn.prepare_cached(BY_ID)?;
            statement.query_row([id.as_str()], |r| row::task(r, true)).optional()
        })?;
        visible(caller, found)
    }

    pub(crate) fn get_with_questions(
        &self,
        caller: &Caller,
        id: &TaskId,
    ) -> Result<(TaskRow, Vec<QuestionRow>)> {
        let (found, asked) = self.point(|conn| {
            let mut statement = conn.prepare_cached(BY_ID)?;
            let read = |r: &Row<'_>| Ok((Some(row::task(r, true)?), asks::read(r.get_ref(21)?)?));
            Ok(statement.query_row([id.as_str()], read).optional()?.unwrap_or_default())
        })?;
        Ok((visible(caller, found)?, asked))
    }

    pub(crate) fn keyed(&self, caller: &Caller, dedup: &str) -> Result<Option<Keyed>> {
        let sql = "SELECT id, freed FROM task WHERE owner = ? AND dedup = ? \
                   AND (expires IS NULL OR expires > ?)";
        self.point(|conn| {
            let mut statement = conn.prepare_cached(sql)?;
            let owner = row::owner(&caller.principal);
            let read = |r: &Row<'_>| {
                let freed = r.get::<_, Option<i64>>(1)?;
                let freed = freed.map(|freed| Moment(freed).until(caller.now.into()));
                Ok(Keyed { id: row::id(r, 0)?, freed })
            };
            statement.query_row(params![owner, dedup, caller.now.0], read).optional()
        })
    }

    pub(crate) fn row(&self, key: TaskKey) -> Result<Option<TaskRow>> {
        self.point(|conn| row::load(conn, key.0))
    }

    pub(crate) fn inbox(&self, key: TaskKey, after: i64) -> Result<Vec<InboxRow>> {
        self.point(|conn| row::inbox(conn, key.0, after))
    }

    pub(crate) fn questions(&self, key: TaskKey) -> Result<Vec<QuestionRow>> {
        self.point(|conn| {
            let mut statement = conn.prepare_cached("SELECT asks FROM task WHERE key = ?")?;
            let read = |r: &Row<'_>| Ok(asks::read(r.get_ref(0)?)?);
            Ok(statement.query_row([key.0], read).optional()?.unwrap_or_default())
        })
    }

    pub(crate) fn state(&self, scope: &str, key: &str) -> Result<StateRow> {
        let sql = "SELECT value, version FROM state WHERE scope = ? AND key = ?";
        self.point(|conn| {
            let mut statement = conn.prepare_cached(sql)?;
            let row = statement.query_row([scope, key], |r| {
                Ok(StateRow { value: r.get(0)?, version: row::count(r, 1)? })
            });
            Ok(row.optional()?.unwrap_or_default())
        })
    }

    pub(crate) fn session(&self, id: String, now: Timestamp) -> Result<Option<SessionRow>> {
        let sql = "SELECT expires, body FROM session WHERE id = ? AND expires > ?";
        self.point(|conn| {
            let mut statement = conn.prepare_cached(sql)?;
            let found = statement.query_row(params![id, now.0], |r| {
                Ok(SessionRow { id: id.clone(), expires: Timestamp(r.get(0)?), body: r.get(1)? })
            });
            found.optional()
        })
    }

    pub(crate) fn posted(&self, after: u64, limit: usize) -> Result<Posted> {
        let sql = "SELECT n, body FROM notice WHERE n > ? ORDER BY n LIMIT ?";
        let last = "SELECT seq FROM sqlite_sequence WHERE name = 'notice'";
        let behind = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.point(|conn| {
            // In this order: what is posted in between is then not taken for read.
            let last = conn.prepare_cached(last)?.query_row([], |r| row::count(r, 0)).optional()?;
            let read = |r: &Row<'_>| Ok((row::count(r, 0)?, r.get(1)?));
            let notices = crate::tx::all(conn, sql, [behind, limit], read)?;
            Ok(Posted { notices, last: last.unwrap_or(0) })
        })
    }

    pub(crate) fn activity(&self, token: &str) -> Result<Option<ActivityRow>> {
        const SQL: &str = concat!(
            "SELECT ",
            activity_columns!(),
            " FROM activity a JOIN task t ON t.key = a.task WHERE a.token = ?"
        );
        self.point(|conn| conn.prepare_cached(SQL)?.query_row([token], row::activity).optional())
    }

    pub(crate) fn next_wake(&self) -> Result<Option<Timestamp>> {
        let task = "SELECT min(wake) FROM task INDEXED BY task_wake
                    WHERE wake IS NOT NULL AND desk IS NULL";
        let activity = "SELECT min(due) FROM activity WHERE due IS NOT NULL";
        self.point(|conn| {
            let (task, activity) = (least(conn, task)?, least(conn, activity)?);
            Ok(task.into_iter().chain(activity).min().map(Timestamp))
        })
    }
}

const BY_ID: &str = concat!("SELECT ", task_columns!(), ", end, asks FROM task WHERE id = ?");

/// The task that was found, if the caller may see it.
fn visible(caller: &Caller, found: Option<TaskRow>) -> Result<TaskRow> {
    let mine = |task: &TaskRow| caller.principal.is_none() || caller.principal == task.owner;
    match found.filter(mine) {
        None => Err(Error::Refused(Refusal::Unknown)),
        Some(task) if task.expires.is_some_and(|at| at <= caller.now) => {
            Err(Error::Refused(Refusal::Expired))
        }
        Some(task) => Ok(task),
    }
}

fn least(conn: &Connection, sql: &str) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(sql)?.query_row([], |r| r.get(0))
}
