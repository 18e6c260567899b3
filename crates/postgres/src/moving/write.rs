//! From records to the tables.

use std::collections::HashMap;

use steadfast_store::moving::{Counters, Kind, Reader, Record, Result};
use tokio_postgres::{Client, Statement};

use super::failed;
use crate::conn::Param;

pub(super) const LOCK: &str = "
    LOCK TABLE task, tag, event, inbox, kept, question, activity, state, watch, session, notice, counter
    IN EXCLUSIVE MODE";

/// A table that has something in it.
pub(super) async fn occupied(client: &Client) -> Result<Option<&'static str>> {
    for table in [
        "task", "event", "inbox", "question", "activity", "watch", "state", "session", "kept",
        "notice",
    ] {
        let sql = format!("SELECT EXISTS (SELECT FROM {table})");
        if client.query_one(&sql, &[]).await.map_err(failed)?.get(0) {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// Rows that are written with one statement: so many, or of so many bytes.
const ROWS: usize = 2000;
const BYTES: usize = 4 << 20;

/// Writes everything.
pub(super) async fn all(client: &Client, from: &mut Reader) -> Result<()> {
    let mut tables = Tables { client, known: HashMap::new(), number: 0 };
    let mut batch: Vec<Record> = Vec::new();
    let mut bytes = 0;
    let mut kind = Kind::Task;
    while let Some(record) = from.next()? {
        if record.kind() != kind || batch.len() >= ROWS || bytes >= BYTES {
            tables.put(kind, &batch).await?;
            (kind, bytes) = (record.kind(), 0);
            batch.clear();
        }
        tables.used(&record);
        bytes += size(&record);
        batch.push(record);
    }
    tables.put(kind, &batch).await
}

/// About how many bytes a record has.
fn size(record: &Record) -> usize {
    100 + match record {
        Record::Task(task) => {
            task.about.0.len() + task.view.0.len() + task.end.as_ref().map_or(0, |end| end.0.len())
        }
        Record::Event(event) => event.body.0.len(),
        Record::Message(message) => message.body.0.len(),
        Record::Question(question) => question.body.0.len(),
        Record::Activity(activity) => activity.body.0.len(),
        Record::State(state) => state.value.as_ref().map_or(0, |value| value.0.len()),
        Record::Session(session) => session.body.0.len(),
        Record::Kept(kept) => kept.body.0.len(),
        Record::Notice(notice) => notice.body.0.len(),
        Record::Watch(_) | Record::Counters(_) => 0,
    }
}

/// The tables, and what is to be known of all that goes there.
pub(super) struct Tables<'c> {
    client: &'c Client,
    known: HashMap<&'static str, Statement>,
    /// The highest of the numbers that are made from moments here, and of activities.
    number: i64,
}

impl Tables<'_> {
    pub(super) async fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<()> {
        let statement = match self.known.get(sql) {
            Some(known) => known.clone(),
            None => {
                let made = self.client.prepare(sql).await.map_err(failed)?;
                self.known.insert(sql, made.clone());
                made
            }
        };
        self.client.execute(&statement, params).await.map_err(failed).map(drop)
    }

    /// Notes the numbers that a record uses.
    fn used(&mut self, record: &Record) {
        use steadfast_store::moving::{At, Place};
        let number = match record {
            Record::Task(task) => match task.place {
                Place::Ready { rank } => rank,
                Place::Parked { .. } | Place::Halted { .. } => 0,
            },
            Record::Activity(activity) => match activity.at {
                At::Queue { rank } => rank.max(activity.key),
                At::Due { .. } | At::Outside { .. } => activity.key,
            },
            Record::Kept(kept) => kept.n,
            _ => 0,
        };
        self.number = self.number.max(number);
    }

    /// What is made of what was written, and where numbers go on from.
    pub(super) async fn finish(&mut self, counters: Counters) -> Result<()> {
        let letters = "
            UPDATE task t SET letters = i.last
            FROM (SELECT task, max(seq) AS last FROM inbox GROUP BY task) AS i WHERE t.key = i.task";
        self.run(letters, &[]).await?;
        for traces in [
            "UPDATE task SET traces = traces | 1::smallint WHERE key IN (SELECT task FROM question)",
            "UPDATE task SET traces = traces | 2::smallint WHERE key IN (SELECT task FROM activity)",
            "UPDATE task SET traces = traces | 4::smallint WHERE key IN (SELECT task FROM watch)",
        ] {
            self.run(traces, &[]).await?;
        }
        let moment = (self.number >> 16) + 1;
        for (sql, last) in [
            ("SELECT setval('task_key', greatest($1::bigint, 1), $1::bigint > 0)", counters.task),
            ("SELECT setval('activity_key', greatest($1::bigint, 1), $1::bigint > 0)", self.number),
            ("SELECT setval('moment', $1::bigint)", moment),
            ("UPDATE counter SET notice = $1::bigint", counters.notice),
        ] {
            self.run(sql, &[&last]).await?;
        }
        Ok(())
    }
}
