//! Reading rows.

use std::collections::BTreeMap;

use steadfast_core::{OpId, Principal, Status, TaskId, Timestamp};
use steadfast_store::{ActivityRow, Desk, Error, Result, TaskKey, TaskRow};
use tokio_postgres::{Row, types::FromSql};

use crate::{error::undone, text};

/// The columns that [`task`] reads, of `task t`.
macro_rules! task_columns {
    () => {
        "t.key, t.id, t.tool, t.version, t.owner, t.status, t.created, t.updated, t.ended, t.expires,
         t.wake, t.parent, t.parent_op, t.desk, t.bound, t.epoch, t.deaths, t.tags, t.about, t.view"
    };
}
pub(crate) use task_columns;

/// How many [`task_columns`] there are. What else is read of a task comes behind them.
pub(crate) const TASK_COLUMNS: usize = 20;

/// One column.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T> {
    row.try_get(at).map_err(|e| undone(&e))
}

/// A task, with its end if that comes behind its other columns.
pub(crate) fn task(row: &Row, with_end: bool) -> Result<TaskRow> {
    let owner: &str = get(row, 4)?;
    let parent: Option<i64> = get(row, 11)?;
    let tags: Option<&str> = get(row, 17)?;
    Ok(TaskRow {
        key: TaskKey(get(row, 0)?),
        id: id(row, 1)?,
        tool: text::read(get(row, 2)?),
        version: Some(get::<i64>(row, 3)?)
            .filter(|version| *version != NO_VERSION)
            .map(u32::try_from)
            .transpose()
            .map_err(|e| damaged("a version", &e))?,
        owner: match owner {
            "" => None,
            owner => Some(Principal::new(owner).map_err(|e| damaged("an owner", &e))?),
        },
        status: status(row, 5).map_err(|e| undone(&e))?,
        created: Timestamp(get(row, 6)?),
        updated: Timestamp(get(row, 7)?),
        ended: time(row, 8)?,
        expires: time(row, 9)?,
        wake: time(row, 10)?,
        parent: match parent {
            Some(parent) => Some((TaskKey(parent), op(row, 12).map_err(|e| undone(&e))?)),
            None => None,
        },
        desk: desk(row, 13)?,
        bound: desk(row, 14)?,
        epoch: get(row, 15)?,
        deaths: small(row, 16).map_err(|e| undone(&e))?,
        tags: match tags {
            Some(tags) => serde_json::from_str(tags).map_err(|e| damaged("tags", &e))?,
            None => BTreeMap::new(),
        },
        about: get(row, 18)?,
        view: get(row, 19)?,
        end: if with_end { get(row, TASK_COLUMNS)? } else { None },
    })
}

/// The version of a new task's tool, as it is written.
pub(crate) fn version(new: &steadfast_store::NewTask) -> i64 {
    new.version.map_or(NO_VERSION, i64::from)
}

/// The columns that [`activity`] reads, of `activity a` and its `task t`.
macro_rules! activity_columns {
    () => {
        "a.key, a.epoch, a.task, t.id, a.op, a.name, a.attempt, a.token, a.body, a.desk"
    };
}
pub(crate) use activity_columns;

pub(crate) fn activity(row: &Row) -> Result<ActivityRow> {
    Ok(ActivityRow {
        key: get(row, 0)?,
        epoch: get(row, 1)?,
        task: TaskKey(get(row, 2)?),
        task_id: id(row, 3)?,
        op: op(row, 4).map_err(|e| undone(&e))?,
        name: text::read(get(row, 5)?),
        attempt: small(row, 6).map_err(|e| undone(&e))?,
        token: text::read(get(row, 7)?),
        body: get(row, 8)?,
        desk: desk(row, 9)?,
    })
}

pub(crate) fn id(row: &Row, at: usize) -> Result<TaskId> {
    TaskId::new(get::<&str>(row, at)?).map_err(|e| damaged("an id", &e))
}

pub(crate) fn time(row: &Row, at: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, at)?.map(Timestamp))
}

/// Who holds it, if the column is a desk at all.
fn desk(row: &Row, at: usize) -> Result<Option<Desk>> {
    Ok(get::<Option<i64>>(row, at)?.filter(|desk| *desk > 0).map(Desk))
}

/// A number that is never below zero.
pub(crate) fn count(row: &Row, at: usize) -> Result<u64> {
    u64::try_from(get::<i64>(row, at)?).map_err(|e| damaged("a number", &e))
}

pub(crate) fn damaged(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Corrupt(format!("{what} in the database is not what it should be: {error}"))
}

/// A number that PostgreSQL keeps in a larger type. What does not fit was not written by us.
pub(crate) fn small(row: &Row, at: usize) -> std::result::Result<u32, tokio_postgres::Error> {
    let number: i64 = row.try_get(at)?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

pub(crate) fn op(row: &Row, at: usize) -> std::result::Result<OpId, tokio_postgres::Error> {
    Ok(OpId(small(row, at)?))
}

pub(crate) fn status(row: &Row, at: usize) -> std::result::Result<Status, tokio_postgres::Error> {
    let number: i16 = row.try_get(at)?;
    // One that we don't know is of a later version, which has seen to it that we leave it alone.
    Ok(Status::from_number(number.into()).unwrap_or(Status::Stuck))
}

/// How it is written that a task has no version yet.
pub(crate) const NO_VERSION: i64 = -1;

/// How the owner of a task is written: empty for nobody.
pub(crate) fn owner(principal: &Option<Principal>) -> &str {
    principal.as_ref().map_or("", Principal::as_str)
}

/// How tags are written.
pub(crate) fn tags(tags: &BTreeMap<String, String>) -> Option<String> {
    // Texts always become JSON, in which a NUL is six other characters.
    (!tags.is_empty()).then(|| serde_json::to_string(tags).unwrap_or_default())
}
