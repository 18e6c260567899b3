//! Reading histories: from the tail back, event by event.
//!
//! The tail of a task on a desk may be behind, because a turn that only appends does not touch the
//! task's row. The rest is found by reading the end of the log; the writer sees to it that this end
//! is never long.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::memory::Tail;

/// An event as a walk comes by it.
pub(crate) struct Passed {
    /// Its place in the log.
    pub(crate) n: i64,
    pub(crate) seq: i64,
    /// The place of the one before it.
    before: Option<i64>,
}

/// Where a task's history ends.
pub(crate) fn tail(conn: &Connection, task: i64) -> rusqlite::Result<Tail> {
    let sql = "SELECT max(ifnull(tail, 0), iif(desk > 0, ifnull(
                   (SELECT max(n) FROM event
                    WHERE n > (SELECT filed FROM counter) AND task = ?1), 0), 0))
               FROM task WHERE key = ?1";
    let last: Option<i64> = conn.prepare_cached(sql)?.query_row([task], |r| r.get(0)).optional()?;
    match last.filter(|last| *last > 0) {
        Some(last) => {
            let seq = pass(conn, last)?.map_or(0, |event| event.seq + 1);
            Ok(Tail { next: seq, last: Some(last) })
        }
        None => Ok(Tail::default()),
    }
}

fn pass(conn: &Connection, n: i64) -> rusqlite::Result<Option<Passed>> {
    let mut statement = conn.prepare_cached("SELECT before, seq FROM event WHERE n = ?")?;
    let event = |r: &Row<'_>| Ok(Passed { n, seq: r.get(1)?, before: before(r, n)? });
    statement.query_row([n], event).optional()
}

/// The place of the event before the one at `n`, from the first column. It always leads back: in a
/// damaged file a walk ends too early, but it ends.
fn before(row: &Row<'_>, n: i64) -> rusqlite::Result<Option<i64>> {
    Ok(row.get::<_, Option<i64>>(0)?.filter(|before| *before < n))
}

/// All events of a task, newest first.
pub(crate) struct Walk<'c> {
    conn: &'c Connection,
    next: Option<i64>,
}

impl<'c> Walk<'c> {
    pub(crate) fn new(conn: &'c Connection, task: i64) -> rusqlite::Result<Walk<'c>> {
        Ok(Walk { conn, next: tail(conn, task)?.last })
    }
}

impl Iterator for Walk<'_> {
    type Item = rusqlite::Result<Passed>;

    fn next(&mut self) -> Option<rusqlite::Result<Passed>> {
        let passed = pass(self.conn, self.next?).transpose();
        self.next = match &passed {
            Some(Ok(event)) => event.before,
            Some(Err(_)) | None => None,
        };
        passed
    }
}

/// What an event says.
pub(crate) fn body(conn: &Connection, n: i64) -> rusqlite::Result<Vec<u8>> {
    conn.prepare_cached("SELECT body FROM event WHERE n = ?")?.query_row([n], |r| r.get(0))
}

/// The whole history of a task, oldest first, and where it ends.
pub(crate) fn whole(conn: &Connection, task: i64) -> rusqlite::Result<(Vec<Vec<u8>>, Tail)> {
    let mut events = Vec::new();
    let tail = tail(conn, task)?;
    let mut next = tail.last;
    let mut event = conn.prepare_cached("SELECT before, body FROM event WHERE n = ?")?;
    while let Some(n) = next {
        let found = event.query_row([n], |r| Ok((before(r, n)?, r.get(1)?))).optional()?;
        next = found.and_then(|(before, body)| {
            events.push(body);
            before
        });
    }
    events.reverse();
    Ok((events, tail))
}
