//! Reads of a few rows.

use std::time::Duration;

use steadfast_core::{TaskId, Timestamp};
use steadfast_store::{
    ActivityRow, Caller, Error, InboxRow, Keyed, Posted, QuestionRow, Refusal, Result, SessionRow,
    StateRow, TaskKey, TaskRow,
};
use tokio_postgres::Row;

use super::Readers;
use crate::{
    core::clock,
    error::undone,
    row::{self, TASK_COLUMNS, activity_columns, count, get, task_columns},
    text,
};

pub(crate) const BY_ID: &str =
    concat!("SELECT ", task_columns!(), ", t.outcome FROM task t WHERE t.id = $1");
pub(crate) const BY_KEY: &str =
    concat!("SELECT ", task_columns!(), ", t.outcome FROM task t WHERE t.key = $1");
/// One statement, and so one moment.
pub(crate) const WITH_QUESTIONS: &str = concat!(
    "SELECT ",
    task_columns!(),
    ", t.outcome, asked.keys, asked.ops, asked.bodies FROM task t
     LEFT JOIN LATERAL (
        SELECT array_agg(q.key ORDER BY q.n) AS keys, array_agg(q.op ORDER BY q.n) AS ops,
               array_agg(q.body ORDER BY q.n) AS bodies
        FROM question q WHERE q.task = t.key AND t.traces & 1 <> 0) AS asked ON true
     WHERE t.id = $1"
);
/// Who has a key, or had it last if nobody has.
pub(crate) const KEYED: &str = concat!(
    "SELECT t.id, NULL::bigint FROM task t
     WHERE t.owner = $1 AND t.dedup = $2 AND (t.expires IS NULL OR t.expires > $3)
     UNION ALL
     SELECT t.id, ",
    clock!(),
    " - f.at FROM freed f JOIN task t ON t.key = f.task
     WHERE f.owner = $1 AND f.key = $2 AND (t.expires IS NULL OR t.expires > $3)
        AND NOT EXISTS (SELECT FROM task h WHERE h.owner = $1 AND h.dedup = $2)"
);
pub(crate) const INBOX: &str =
    "SELECT seq, op, body FROM inbox WHERE task = $1 AND seq > $2 ORDER BY seq";
pub(crate) const QUESTIONS: &str = "SELECT key, op, body FROM question WHERE task = $1 ORDER BY n";
pub(crate) const STATE: &str = "SELECT value, version FROM state WHERE scope = $1 AND key = $2";
pub(crate) const SESSION: &str = "SELECT expires, body FROM session WHERE id = $1 AND expires > $2";
/// The counter is read with the notices: none of them is behind it.
pub(crate) const POSTED: &str = "
    SELECT c.notice, p.n, p.body FROM counter c
    LEFT JOIN LATERAL (
        SELECT n, body FROM notice WHERE n > $1 ORDER BY n LIMIT $2::bigint) AS p ON true
    ORDER BY p.n";
pub(crate) const ACTIVITY: &str = concat!(
    "SELECT ",
    activity_columns!(),
    " FROM activity a JOIN task t ON t.key = a.task WHERE a.token = $1"
);
pub(crate) const NEXT_WAKE: &str = "
    SELECT least((SELECT min(wake) FROM task WHERE wake IS NOT NULL AND desk IS NULL),
                 (SELECT min(due) FROM activity WHERE due IS NOT NULL))";

impl Readers {
    pub(crate) async fn get(&self, caller: &Caller, id: &TaskId) -> Result<TaskRow> {
        let found = self.first(BY_ID, &[&id.as_str()]).await?;
        visible(caller, found.map(|r| row::task(&r, true)).transpose()?)
    }

    pub(crate) async fn get_with_questions(
        &self,
        caller: &Caller,
        id: &TaskId,
    ) -> Result<(TaskRow, Vec<QuestionRow>)> {
        let found = self.first(WITH_QUESTIONS, &[&id.as_str()]).await?;
        let task = visible(caller, found.as_ref().map(|r| row::task(r, true)).transpose()?)?;
        let mut questions = Vec::new();
        if let Some(r) = &found {
            // None at all if there is none.
            let keys: Option<Vec<String>> = get(r, TASK_COLUMNS + 1)?;
            let ops: Option<Vec<i64>> = get(r, TASK_COLUMNS + 2)?;
            let bodies: Option<Vec<Vec<u8>>> = get(r, TASK_COLUMNS + 3)?;
            let (keys, ops) = (keys.unwrap_or_default(), ops.unwrap_or_default());
            let bodies = bodies.unwrap_or_default();
            for ((key, op), body) in keys.into_iter().zip(ops).zip(bodies) {
                let op = u32::try_from(op).map_err(|e| row::damaged("an operation", &e))?;
                questions.push(QuestionRow {
                    key: text::read(key),
                    op: steadfast_core::OpId(op),
                    body,
                });
            }
        }
        Ok((task, questions))
    }

    pub(crate) async fn keyed(&self, caller: &Caller, dedup: &str) -> Result<Option<Keyed>> {
        let (owner, dedup) = (row::owner(&caller.principal), text::stored(dedup));
        let found = self.first(KEYED, &[&owner, &dedup, &caller.now.0]).await?;
        let keyed = |r: Row| {
            let freed: Option<i64> = get(&r, 1)?;
            let freed = freed.map(|ago| Duration::from_micros(u64::try_from(ago).unwrap_or(0)));
            Ok(Keyed { id: row::id(&r, 0)?, freed })
        };
        found.map(keyed).transpose()
    }

    pub(crate) async fn row(&self, key: TaskKey) -> Result<Option<TaskRow>> {
        let found = self.first(BY_KEY, &[&key.0]).await?;
        found.map(|r| row::task(&r, true)).transpose()
    }

    pub(crate) async fn inbox(&self, key: TaskKey, after: i64) -> Result<Vec<InboxRow>> {
        let rows = self.point(INBOX, &[&key.0, &after]).await?;
        let letter = |r: &Row| {
            let op = get::<Option<i64>>(r, 1)?.map(|_| row::op(r, 1)).transpose();
            Ok(InboxRow { seq: get(r, 0)?, op: op.map_err(|e| undone(&e))?, body: get(r, 2)? })
        };
        rows.iter().map(letter).collect()
    }

    pub(crate) async fn questions(&self, key: TaskKey) -> Result<Vec<QuestionRow>> {
        let rows = self.point(QUESTIONS, &[&key.0]).await?;
        let question = |r: &Row| {
            let op = row::op(r, 1).map_err(|e| undone(&e))?;
            Ok(QuestionRow { key: text::read(get(r, 0)?), op, body: get(r, 2)? })
        };
        rows.iter().map(question).collect()
    }

    pub(crate) async fn state(&self, scope: &str, key: &str) -> Result<StateRow> {
        let found = self.first(STATE, &[&text::stored(scope), &text::stored(key)]).await?;
        found.map_or(Ok(StateRow::default()), |r| {
            Ok(StateRow { value: get(&r, 0)?, version: count(&r, 1)? })
        })
    }

    pub(crate) async fn session(&self, id: String, now: Timestamp) -> Result<Option<SessionRow>> {
        let found = self.first(SESSION, &[&text::stored(&id), &now.0]).await?;
        found
            .map(|r| Ok(SessionRow { id, expires: Timestamp(get(&r, 0)?), body: get(&r, 1)? }))
            .transpose()
    }

    pub(crate) async fn posted(&self, after: u64, limit: usize) -> Result<Posted> {
        let behind = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut posted = Posted::default();
        for r in self.point(POSTED, &[&behind, &limit]).await? {
            posted.last = count(&r, 0)?;
            if get::<Option<i64>>(&r, 1)?.is_some() {
                posted.notices.push((count(&r, 1)?, get(&r, 2)?));
            }
        }
        Ok(posted)
    }

    pub(crate) async fn activity(&self, token: &str) -> Result<Option<ActivityRow>> {
        let found = self.first(ACTIVITY, &[&text::stored(token)]).await?;
        found.map(|r| row::activity(&r)).transpose()
    }

    pub(crate) async fn next_wake(&self) -> Result<Option<Timestamp>> {
        self.first(NEXT_WAKE, &[]).await?.map_or(Ok(None), |r| row::time(&r, 0))
    }
}

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
