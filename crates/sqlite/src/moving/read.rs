//! From the tables to records.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row};
use steadfast_core::{OpId, Principal, Timestamp};
use steadfast_store::moving::{
    Activity, At, Body, Counters, Error, Event, Hands, Kept, Lies, Message, Notice, Question,
    Record, Result, Session, Sink, State, Watch,
};

use super::failed;
use crate::{
    asks,
    desk::Desks,
    row::{self, task_columns},
    write::READY,
};

/// Gives out everything, in the order of a file. The connection has one view of the tables.
pub(super) fn all(conn: &Connection, desks: &Desks, out: &mut Sink<'_>) -> Result<()> {
    let last =
        conn.query_row("SELECT number FROM counter", [], |row| row.get(0)).map_err(failed)?;
    let mut known = HashMap::new();
    let mut hands =
        Hands::new(last, |desk| *known.entry(desk).or_insert_with(|| desks.is_alive(desk)));
    tasks(conn, &mut hands, out)?;
    events(conn, out)?;
    each(conn, "SELECT task, seq, op, notice, body FROM inbox ORDER BY task, seq", out, |row| {
        let op = row.get::<_, Option<u32>>(2)?.map(OpId);
        let (task, seq, notice) = (row.get(0)?, row.get(1)?, row.get(3)?);
        Ok(Record::Message(Message { task, seq, op, notice, body: body(row, 4)? }))
    })?;
    questions(conn, out)?;
    let sql = "SELECT key, task, op, name, token, desk, rank, due, epoch, attempt, body
               FROM activity ORDER BY key";
    each(conn, sql, out, |row| activity(row, &mut hands))?;
    each(conn, "SELECT scope, key, task FROM watch ORDER BY scope, key, task", out, |row| {
        Ok(Record::Watch(Watch { scope: row.get(0)?, key: row.get(1)?, task: row.get(2)? }))
    })?;
    each(conn, "SELECT scope, key, version, value FROM state ORDER BY scope, key", out, |row| {
        let (scope, key, version) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let value = row.get::<_, Option<Vec<u8>>>(3)?.map(Body);
        Ok(Record::State(State { scope, key, version, value }))
    })?;
    each(conn, "SELECT id, expires, body FROM session ORDER BY id", out, |row| {
        let (id, expires) = (row.get(0)?, Timestamp(row.get(1)?));
        Ok(Record::Session(Session { id, expires, body: body(row, 2)? }))
    })?;
    each(conn, "SELECT n, id, sender, until, body FROM kept ORDER BY n", out, |row| {
        let sender = match row.get::<_, String>(2)? {
            text if text.is_empty() => None,
            text => Some(Principal::new(text).map_err(|e| row::wrong(2, e))?),
        };
        let (n, id, until) = (row.get(0)?, row::id(row, 1)?, Timestamp(row.get(3)?));
        Ok(Record::Kept(Kept { n, id, sender, until, body: body(row, 4)? }))
    })?;
    each(conn, "SELECT n, until, body FROM notice ORDER BY n", out, |row| {
        let (n, until) = (row.get(0)?, Timestamp(row.get(1)?));
        Ok(Record::Notice(Notice { n, until, body: body(row, 2)? }))
    })?;
    let sql = "SELECT max(task, ifnull((SELECT max(key) FROM task), 0)) FROM counter";
    let task = conn.query_row(sql, [], |row| row.get(0)).map_err(failed)?;
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'notice'";
    let notice = conn.query_row(sql, [], |row| row.get(0)).optional().map_err(failed)?;
    out(Record::Counters(Counters { task, notice: notice.unwrap_or(0) }))
}

/// Gives out one record for each row of a query.
fn each(
    conn: &Connection,
    sql: &str,
    out: &mut Sink<'_>,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<Record>,
) -> Result<()> {
    let mut statement = conn.prepare(sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        out(read(row).map_err(failed)?)?;
    }
    Ok(())
}

fn body(row: &Row<'_>, column: usize) -> rusqlite::Result<Body> {
    row.get(column).map(Body)
}

fn tasks(conn: &Connection, hands: &mut Hands<'_>, out: &mut Sink<'_>) -> Result<()> {
    // A key that was freed is for those alone who had asked for it before, and nobody asks any more.
    const SQL: &str = concat!(
        "SELECT ",
        task_columns!(),
        ", end, rank, tells, iif(freed IS NULL, dedup, NULL) FROM task ORDER BY key"
    );
    each(conn, SQL, out, |r| {
        let lies = match r.get::<_, Option<i64>>(13)? {
            None => Lies::Parked,
            Some(READY) => Lies::Ready { rank: r.get(21)? },
            Some(desk) if desk > 0 => Lies::Desk(desk),
            Some(_) => Lies::Halted,
        };
        Ok(hands.task(row::task(r, true)?, lies, r.get(22)?, r.get(23)?))
    })
}

/// The histories, task by task. They are linked backwards, so one is in memory at a time.
fn events(conn: &Connection, out: &mut Sink<'_>) -> Result<()> {
    let loose: HashMap<i64, i64> = {
        let sql =
            "SELECT task, max(n) FROM event WHERE n > (SELECT filed FROM counter) GROUP BY task";
        let pair = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        crate::tx::all(conn, sql, [], pair).map_err(failed)?.into_iter().collect()
    };
    let mut event =
        conn.prepare("SELECT task, seq, before, body FROM event WHERE n = ?").map_err(failed)?;
    let mut statement = conn
        .prepare("SELECT key, tail, ifnull(desk, 0) > 0 FROM task ORDER BY key")
        .map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut count = 0u64;
    while let Some(row) = rows.next().map_err(failed)? {
        let key: i64 = row.get(0).map_err(failed)?;
        let tail: Option<i64> = row.get(1).map_err(failed)?;
        let held: bool = row.get(2).map_err(failed)?;
        let mut next = tail.into_iter().chain(loose.get(&key).copied().filter(|_| held)).max();
        let mut history = Vec::new();
        while let Some(n) = next {
            let found = event.query_row([n], |r| {
                let event = Event { task: r.get(0)?, seq: r.get(1)?, body: body(r, 3)? };
                Ok((event, r.get::<_, Option<i64>>(2)?))
            });
            let (event, before) = found.map_err(failed)?;
            // It always leads back, or the file is damaged, and a walk might not end.
            if event.task != key || before.is_some_and(|before| before >= n) {
                return Err(Error::Damaged(format!("the history of task {key} leads elsewhere")));
            }
            history.push(event);
            next = before;
        }
        count += history.len() as u64;
        for event in history.into_iter().rev() {
            out(Record::Event(event))?;
        }
    }
    let sql = "SELECT count(*) FROM event WHERE task IN (SELECT key FROM task)";
    let all = conn.query_row(sql, [], |row| row::count(row, 0)).map_err(failed)?;
    match all == count {
        true => Ok(()),
        false => Err(Error::Damaged(format!("of {all} events {count} are in a history"))),
    }
}

fn questions(conn: &Connection, out: &mut Sink<'_>) -> Result<()> {
    let sql = "SELECT key, asks FROM task WHERE asks IS NOT NULL ORDER BY key";
    let mut statement = conn.prepare(sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let task = row.get(0).map_err(failed)?;
        let asked = row.get_ref(1).and_then(|column| Ok(asks::read(column)?)).map_err(failed)?;
        for (place, question) in (0..).zip(asked) {
            let (op, key, body) = (question.op, question.key, Body(question.body));
            out(Record::Question(Question { task, place, op, key, body }))?;
        }
    }
    Ok(())
}

fn activity(row: &Row<'_>, hands: &mut Hands<'_>) -> rusqlite::Result<Record> {
    let time = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(Timestamp));
    let (mut epoch, mut attempt): (i64, u32) = (row.get(8)?, row.get(9)?);
    let at = match (row.get::<_, Option<i64>>(5)?, row.get::<_, Option<i64>>(6)?, time(7)?) {
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
        key: row.get(0)?,
        task: row.get(1)?,
        op: OpId(row.get(2)?),
        name: row.get(3)?,
        token: row.get(4)?,
        at,
        epoch,
        attempt,
        body: body(row, 10)?,
    }))
}
