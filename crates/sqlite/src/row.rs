//! From columns to rows.

use rusqlite::{Connection, OptionalExtension, Row, types::Type};
use steadfast_core::{OpId, Principal, Status, TaskId, Timestamp};
use steadfast_store::{ActivityRow, Desk, InboxRow, TaskKey, TaskRow};

/// The columns that [`task`] reads. The last, `end`, is left out where it is not asked for: it may be
/// long, and SQLite fetches it only if it is named.
macro_rules! task_columns {
    () => {
        "key, id, tool, version, owner, status, created, updated, ended, expires, wake, parent, \
         parent_op, desk, epoch, deaths, tags, about, view, bound"
    };
}
pub(crate) use task_columns;

pub(crate) fn wrong<E: std::error::Error + Send + Sync + 'static>(
    column: usize,
    error: E,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

/// A task from `task_columns!()`, with `end` behind them if `with_end`.
pub(crate) fn task(row: &Row<'_>, with_end: bool) -> rusqlite::Result<TaskRow> {
    let text = |column| row.get_ref(column).and_then(|value| Ok(value.as_str()?));
    let parent = match (row.get::<_, Option<i64>>(11)?, row.get::<_, Option<u32>>(12)?) {
        (Some(key), Some(op)) => Some((TaskKey(key), OpId(op))),
        _ => None,
    };
    let tags = match row.get_ref(16)?.as_str_or_null()? {
        Some(tags) => serde_json::from_str(tags).map_err(|e| wrong(16, e))?,
        None => Default::default(),
    };
    Ok(TaskRow {
        key: TaskKey(row.get(0)?),
        id: id(row, 1)?,
        tool: text(2)?.to_owned(),
        version: match row.get(3)? {
            NO_VERSION => None,
            _ => Some(row.get(3)?),
        },
        owner: match text(4)? {
            "" => None,
            owner => Some(Principal::new(owner).map_err(|e| wrong(4, e))?),
        },
        status: status(row, 5)?,
        created: Timestamp(row.get(6)?),
        updated: Timestamp(row.get(7)?),
        ended: time(row, 8)?,
        expires: time(row, 9)?,
        wake: time(row, 10)?,
        parent,
        desk: desk(row, 13)?,
        bound: desk(row, 19)?,
        epoch: row.get(14)?,
        deaths: row.get(15)?,
        tags,
        about: row.get(17)?,
        view: row.get(18)?,
        end: if with_end { row.get(20)? } else { None },
    })
}

/// The task with this number, `end` included.
pub(crate) fn load(conn: &Connection, key: i64) -> rusqlite::Result<Option<TaskRow>> {
    const SQL: &str = concat!("SELECT ", task_columns!(), ", end FROM task WHERE key = ?");
    conn.prepare_cached(SQL)?.query_row([key], |row| task(row, true)).optional()
}

/// The columns that [`activity`] reads, of `activity a` and its `task t`.
macro_rules! activity_columns {
    () => {
        "a.key, a.epoch, a.task, t.id, a.op, a.name, a.attempt, a.token, a.body, a.desk"
    };
}
pub(crate) use activity_columns;

pub(crate) fn activity(row: &Row<'_>) -> rusqlite::Result<ActivityRow> {
    Ok(ActivityRow {
        key: row.get(0)?,
        epoch: row.get(1)?,
        task: TaskKey(row.get(2)?),
        task_id: id(row, 3)?,
        op: OpId(row.get(4)?),
        name: row.get(5)?,
        attempt: row.get(6)?,
        token: row.get(7)?,
        body: row.get(8)?,
        desk: desk(row, 9)?,
    })
}

/// The messages of a task behind number `after`, oldest first.
pub(crate) fn inbox(conn: &Connection, key: i64, after: i64) -> rusqlite::Result<Vec<InboxRow>> {
    let sql = "SELECT seq, op, body FROM inbox WHERE task = ? AND seq > ? ORDER BY seq";
    crate::tx::all(conn, sql, [key, after], |row| {
        let op = row.get::<_, Option<u32>>(1)?.map(OpId);
        Ok(InboxRow { seq: row.get(0)?, op, body: row.get(2)? })
    })
}

pub(crate) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<TaskId> {
    TaskId::new(row.get_ref(column)?.as_str()?).map_err(|e| wrong(column, e))
}

pub(crate) fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<Status> {
    let number = row.get(column)?;
    Status::from_number(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// A number that is never below zero.
pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// Who holds it, if the column is a desk at all.
fn desk(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Desk>> {
    Ok(row.get::<_, Option<i64>>(column)?.filter(|desk| *desk > 0).map(Desk))
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

/// How it is written that a task has no version yet.
pub(crate) const NO_VERSION: i64 = -1;

/// How the owner of a task is written: empty for nobody.
pub(crate) fn owner(principal: &Option<Principal>) -> &str {
    principal.as_ref().map_or("", Principal::as_str)
}
