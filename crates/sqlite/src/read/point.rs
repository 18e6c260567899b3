//! Reads of a few rows.

use rusqlite::{Connection, OptionalExtension};
use steadfast_core::{OpId, TaskId, Timestamp};
use steadfast_store::{
    ActivityRow, Caller, Error, InboxRow, QuestionRow, Refusal, Result, StateRow, TaskKey, TaskRow,
};

use super::Readers;
use crate::{
    row::{self, activity_columns, task_columns},
    schema::question_places,
    tx::all,
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
            let mut rows = statement.query([id.as_str()])?;
            let Some(row) = rows.next()? else { return Ok((None, Vec::new())) };
            let task = row::task(row, true)?;
            // The first query is not over, so that the second sees the file as of the same moment; and
            // it costs no transaction of its own.
            let asked = match task.status.is_terminal() {
                true => Vec::new(),
                false => questions(conn, task.key)?,
            };
            Ok((Some(task), asked))
        })?;
        Ok((visible(caller, found)?, asked))
    }

    pub(crate) fn row(&self, key: TaskKey) -> Result<Option<TaskRow>> {
        self.point(|conn| row::load(conn, key.0))
    }

    pub(crate) fn inbox(&self, key: TaskKey, after: i64) -> Result<Vec<InboxRow>> {
        self.point(|conn| row::inbox(conn, key.0, after))
    }

    pub(crate) fn questions(&self, key: TaskKey) -> Result<Vec<QuestionRow>> {
        self.point(|conn| questions(conn, key))
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

const BY_ID: &str = concat!("SELECT ", task_columns!(), ", end FROM task WHERE id = ?");

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

fn questions(conn: &Connection, key: TaskKey) -> rusqlite::Result<Vec<QuestionRow>> {
    let sql = "SELECT key, op, body FROM question WHERE place BETWEEN ? AND ? ORDER BY place";
    all(conn, sql, question_places(key.0), |r| {
        Ok(QuestionRow { key: r.get(0)?, op: OpId(r.get(1)?), body: r.get(2)? })
    })
}

fn least(conn: &Connection, sql: &str) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(sql)?.query_row([], |r| r.get(0))
}
