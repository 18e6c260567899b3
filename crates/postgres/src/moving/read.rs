//! From the tables to records.

use std::{collections::HashSet, future::poll_fn, pin::pin};

use futures_core::Stream;
use steadfast_core::{OpId, Principal, Status, Timestamp};
use steadfast_store::moving::{
    Activity, At, Body, Counters, Error, Event, Hands, Kept, Lies, Message, Notice, Question,
    Record, Result, Session, Sink, State, Watch,
};
use tokio_postgres::{Client, Row};

use super::{ALIVE, failed};
use crate::{
    row::{self, TASK_COLUMNS, task_columns},
    text,
};

const TASKS: &str = concat!(
    "SELECT ",
    task_columns!(),
    // A key that was freed stays behind: it is for those alone who had asked for it before, and nobody asks any
    // more.
    ", t.outcome, t.rank, t.tells, t.dedup FROM task t ORDER BY t.key"
);
const ACTIVITIES: &str = "SELECT key, task, op, name, token, desk, rank, due, epoch, attempt, body
                          FROM activity ORDER BY key";

/// What a store says of a row that makes no sense.
fn damaged(error: steadfast_store::Error) -> Error {
    Error::Damaged(error.to_string())
}

/// One column.
fn get<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, at: usize) -> Result<T> {
    row.try_get(at).map_err(failed)
}

fn body(row: &Row, at: usize) -> Result<Body> {
    get(row, at).map(Body)
}

fn name(row: &Row, at: usize) -> Result<String> {
    get(row, at).map(text::read)
}

fn op(row: &Row, at: usize) -> Result<OpId> {
    let number: i64 = get(row, at)?;
    let number = u32::try_from(number);
    number.map(OpId).map_err(|e| Error::Damaged(format!("the number of an operation: {e}")))
}

fn time(row: &Row, at: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, at)?.map(Timestamp))
}

/// Gives out everything, in the order of a file. The transaction has one view of the tables.
pub(super) async fn all(client: &Client, out: &mut Sink<'_>) -> Result<()> {
    let alive = client.query(ALIVE, &[]).await.map_err(failed)?;
    let alive = alive.iter().map(|row| get(row, 0)).collect::<Result<HashSet<i64>>>()?;
    let row = client.query_one("SELECT last_value FROM moment", &[]).await.map_err(failed)?;
    let last = (get::<i64>(&row, 0)? + 1) << 16;
    let mut hands = Hands::new(last, |desk| alive.contains(&desk));
    each(client, TASKS, out, |row| task(row, &mut hands)).await?;
    each(client, "SELECT task, seq, body FROM event ORDER BY task, seq", out, |row| {
        Ok(Record::Event(Event { task: get(row, 0)?, seq: get(row, 1)?, body: body(row, 2)? }))
    })
    .await?;
    let sql = "SELECT task, seq, op, notice, body FROM inbox ORDER BY task, seq";
    each(client, sql, out, |row| {
        let op = get::<Option<i64>>(row, 2)?.map(|_| op(row, 2)).transpose()?;
        let (task, seq, notice) = (get(row, 0)?, get(row, 1)?, get(row, 3)?);
        Ok(Record::Message(Message { task, seq, op, notice, body: body(row, 4)? }))
    })
    .await?;
    let mut last = (0, 0);
    let sql = "SELECT task, op, key, body FROM question ORDER BY task, n";
    each(client, sql, out, |row| {
        let task = get(row, 0)?;
        last = (task, if last.0 == task { last.1 + 1 } else { 0 });
        let (place, op, key) = (last.1, op(row, 1)?, name(row, 2)?);
        Ok(Record::Question(Question { task, place, op, key, body: body(row, 3)? }))
    })
    .await?;
    each(client, ACTIVITIES, out, |row| activity(row, &mut hands)).await?;
    rest(client, out).await
}

/// What belongs to no task.
async fn rest(client: &Client, out: &mut Sink<'_>) -> Result<()> {
    each(client, "SELECT scope, key, task FROM watch ORDER BY scope, key, task", out, |row| {
        Ok(Record::Watch(Watch { scope: name(row, 0)?, key: name(row, 1)?, task: get(row, 2)? }))
    })
    .await?;
    each(client, "SELECT scope, key, version, value FROM state ORDER BY scope, key", out, |row| {
        let (scope, key, version) = (name(row, 0)?, name(row, 1)?, get(row, 2)?);
        let value = get::<Option<Vec<u8>>>(row, 3)?.map(Body);
        Ok(Record::State(State { scope, key, version, value }))
    })
    .await?;
    each(client, "SELECT id, expires, body FROM session ORDER BY id", out, |row| {
        let (id, expires) = (name(row, 0)?, Timestamp(get(row, 1)?));
        Ok(Record::Session(Session { id, expires, body: body(row, 2)? }))
    })
    .await?;
    each(client, "SELECT n, id, sender, until, body FROM kept ORDER BY n", out, |row| {
        let sender = match get::<&str>(row, 2)? {
            "" => None,
            text => Some(Principal::new(text).map_err(|e| Error::Damaged(e.to_string()))?),
        };
        let (n, id, until) = (get(row, 0)?, row::id(row, 1).map_err(damaged)?, get(row, 3)?);
        let until = Timestamp(until);
        Ok(Record::Kept(Kept { n, id, sender, until, body: body(row, 4)? }))
    })
    .await?;
    each(client, "SELECT n, until, body FROM notice ORDER BY n", out, |row| {
        let (n, until) = (get(row, 0)?, Timestamp(get(row, 1)?));
        Ok(Record::Notice(Notice { n, until, body: body(row, 2)? }))
    })
    .await?;
    // A sequence is no part of a view: it may be ahead of it, which does no harm.
    let sql = "SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END, c.notice
               FROM task_key s, counter c";
    let row = client.query_one(sql, &[]).await.map_err(failed)?;
    out(Record::Counters(Counters { task: get(&row, 0)?, notice: get(&row, 1)? }))
}

/// Gives out one record for each row of a query, as they come.
async fn each(
    client: &Client,
    sql: &str,
    out: &mut Sink<'_>,
    mut read: impl FnMut(&Row) -> Result<Record>,
) -> Result<()> {
    let rows = client.query_raw(sql, std::iter::empty::<i64>()).await.map_err(failed)?;
    let mut rows = pin!(rows);
    while let Some(row) = poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
        out(read(&row.map_err(failed)?)?)?;
    }
    Ok(())
}

fn task(row: &Row, hands: &mut Hands<'_>) -> Result<Record> {
    let status: i16 = get(row, 5)?;
    if Status::from_number(status.into()).is_none() {
        return Err(Error::Damaged(format!("there is a task of status {status}")));
    }
    let (rank, tells) = (get(row, TASK_COLUMNS + 1)?, get(row, TASK_COLUMNS + 2)?);
    let dedup: Option<String> = get(row, TASK_COLUMNS + 3)?;
    let lies = match get::<Option<i64>>(row, 13)? {
        None => Lies::Parked,
        Some(0) => Lies::Ready { rank },
        Some(desk) if desk > 0 => Lies::Desk(desk),
        Some(_) => Lies::Halted,
    };
    let task = row::task(row, true).map_err(damaged)?;
    Ok(hands.task(task, lies, tells, dedup.map(text::read)))
}

fn activity(row: &Row, hands: &mut Hands<'_>) -> Result<Record> {
    let mut epoch: i64 = get(row, 8)?;
    let mut attempt = row::small(row, 9).map_err(failed)?;
    let at = match (get::<Option<i64>>(row, 5)?, get::<Option<i64>>(row, 6)?, time(row, 7)?) {
        (Some(desk), _, _) if desk > 0 => {
            epoch += 1;
            attempt = attempt.saturating_add(hands.deaths(desk));
            At::Queue { rank: hands.rank() }
        }
        (Some(_), Some(rank), _) => At::Queue { rank },
        (Some(_), None, Some(due)) => At::Due { due },
        (_, _, until) => At::Outside { until },
    };
    Ok(Record::Activity(Activity {
        key: get(row, 0)?,
        task: get(row, 1)?,
        op: op(row, 2)?,
        name: name(row, 3)?,
        token: name(row, 4)?,
        at,
        epoch,
        attempt,
        body: body(row, 10)?,
    }))
}
