//! From records to the tables.

use rusqlite::{Connection, Params, params};
use steadfast_core::Principal;
use steadfast_store::{
    QuestionRow,
    moving::{
        Activity, At, Counters, Error, Event, Message, NOBODY, Notice, Place, Question, Reader,
        Record, Result, Task,
    },
};

use super::failed;
use crate::{
    asks,
    row::{self, NO_VERSION},
    write::{HALTED, READY},
};

/// A table that has something in it.
pub(super) fn occupied(conn: &Connection) -> rusqlite::Result<Option<&'static str>> {
    for table in
        ["task", "event", "inbox", "activity", "watch", "state", "session", "kept", "notice"]
    {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table})");
        if conn.query_row(&sql, [], |row| row.get(0))? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// Writes everything.
pub(super) fn all(conn: &Connection, from: &mut Reader) -> Result<()> {
    let mut rows = Rows { conn, number: 0, event: 0, history: None, asked: None };
    while let Some(record) = from.next()? {
        rows.put(record)?;
    }
    Ok(())
}

/// Rows on their way into the tables.
struct Rows<'c> {
    conn: &'c Connection,
    /// The highest of the numbers that are made from one counter here: of messages, of activities, of
    /// places in a pile.
    number: i64,
    /// The place of the last event in the log.
    event: i64,
    /// The task whose history is being written.
    history: Option<i64>,
    /// The task whose questions are being read, with those so far: they are in one column.
    asked: Option<(i64, Vec<QuestionRow>)>,
}

impl Rows<'_> {
    fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.conn.prepare_cached(sql).and_then(|mut sql| sql.execute(params)).map_err(failed)
    }

    /// Runs a statement that adds to the row of a task.
    fn alter(&self, task: i64, sql: &str, params: impl Params) -> Result<()> {
        match self.run(sql, params)? {
            0 => Err(Error::Altered {
                detail: format!("there is something of task {task}, and no task"),
            }),
            _ => Ok(()),
        }
    }

    /// A number that was used.
    fn used(&mut self, number: i64) {
        self.number = self.number.max(number);
    }

    fn put(&mut self, record: Record) -> Result<()> {
        if !matches!(record, Record::Event(_)) {
            self.end_history()?;
        }
        if !matches!(record, Record::Question(_)) {
            self.end_questions()?;
        }
        match record {
            Record::Task(task) => self.task(&task),
            Record::Event(event) => self.event(event),
            Record::Message(Message { task, seq, op, notice, body }) => {
                self.used(seq);
                let sql = "INSERT INTO inbox (task, seq, op, notice, body) VALUES (?, ?, ?, ?, ?)";
                self.run(sql, params![task, seq, op.map(|op| op.0), notice, body.0]).map(drop)
            }
            Record::Question(question) => self.question(question),
            Record::Activity(activity) => self.activity(&activity),
            Record::Watch(watch) => {
                let sql = "INSERT INTO watch (scope, key, task) VALUES (?, ?, ?)";
                self.run(sql, params![watch.scope, watch.key, watch.task]).map(drop)
            }
            Record::State(state) => {
                let sql = "INSERT INTO state (scope, key, version, value) VALUES (?, ?, ?, ?)";
                let value = state.value.map(|value| value.0);
                self.run(sql, params![state.scope, state.key, state.version, value]).map(drop)
            }
            Record::Session(session) => {
                let sql = "INSERT INTO session (id, expires, body) VALUES (?, ?, ?)";
                self.run(sql, params![session.id, session.expires.0, session.body.0]).map(drop)
            }
            Record::Kept(kept) => {
                self.used(kept.n);
                let sql = "INSERT INTO kept (n, id, sender, until, body) VALUES (?, ?, ?, ?, ?)";
                let sender = kept.sender.as_ref().map_or("", Principal::as_str);
                let (id, until) = (kept.id.as_str(), kept.until.0);
                self.run(sql, params![kept.n, id, sender, until, kept.body.0]).map(drop)
            }
            Record::Notice(Notice { n, until, body }) => {
                let sql = "INSERT INTO notice (n, until, body) VALUES (?, ?, ?)";
                self.run(sql, params![n, until.0, body.0]).map(drop)
            }
            Record::Counters(counters) => self.counters(counters),
        }
    }

    fn task(&mut self, task: &Task) -> Result<()> {
        let (desk, rank, wake) = match task.place {
            Place::Ready { rank } => (Some(READY), rank, None),
            Place::Parked { wake } => (None, 0, wake),
            Place::Halted { wake } => (Some(HALTED), 0, wake),
        };
        self.used(rank);
        // A map of texts always has a JSON form.
        let tags =
            (!task.tags.is_empty()).then(|| serde_json::to_string(&task.tags).ok()).flatten();
        let sql = "INSERT INTO task (key, id, tool, version, owner, status, shelf, created, updated, \
                   ended, expires, wake, parent, parent_op, tells, dedup, desk, rank, epoch, deaths, \
                   tags, view, about, end, bound) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
                   ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)";
        self.run(
            sql,
            params![
                task.key,
                task.id.as_str(),
                task.tool,
                task.version.map_or(NO_VERSION, i64::from),
                row::owner(&task.owner),
                task.status as u8,
                task.created.0,
                task.updated.0,
                task.ended.map(|at| at.0),
                task.expires.map(|at| at.0),
                wake.map(|at| at.0),
                task.parent.map(|parent| parent.key),
                task.parent.map(|parent| parent.op.0),
                task.parent.is_some_and(|parent| parent.tells),
                task.dedup,
                desk,
                rank,
                task.epoch,
                task.deaths,
                tags,
                task.view.0,
                task.about.0,
                task.end.as_ref().map(|end| &end.0),
                task.bound.then_some(NOBODY),
            ],
        )?;
        for (name, value) in &task.tags {
            let sql = "INSERT INTO tag (name, value, task) VALUES (?, ?, ?)";
            self.run(sql, params![name, value, task.key])?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<()> {
        if self.history != Some(event.task) {
            self.end_history()?;
            self.history = Some(event.task);
        }
        // Those of a task come one after the other, from the first.
        let before = (event.seq > 0).then_some(self.event);
        self.event += 1;
        let sql = "INSERT INTO event (n, task, seq, before, body) VALUES (?, ?, ?, ?, ?)";
        self.run(sql, params![self.event, event.task, event.seq, before, event.body.0]).map(drop)
    }

    fn end_history(&mut self) -> Result<()> {
        match self.history.take() {
            None => Ok(()),
            Some(task) => {
                let sql = "UPDATE task SET tail = ? WHERE key = ?";
                self.alter(task, sql, [self.event, task])
            }
        }
    }

    fn question(&mut self, question: Question) -> Result<()> {
        let Question { task, op, key, body, .. } = question;
        if self.asked.as_ref().is_some_and(|(of, _)| *of != task) {
            self.end_questions()?;
        }
        let (_, asked) = self.asked.get_or_insert_with(|| (task, Vec::new()));
        asked.push(QuestionRow { key, op, body: body.0 });
        Ok(())
    }

    fn end_questions(&mut self) -> Result<()> {
        match self.asked.take() {
            None => Ok(()),
            Some((task, asked)) => {
                let sql = "UPDATE task SET asks = ? WHERE key = ?";
                self.alter(task, sql, params![asks::write(&asked), task])
            }
        }
    }

    fn activity(&mut self, activity: &Activity) -> Result<()> {
        let (desk, rank, due) = match activity.at {
            At::Queue { rank } => (Some(0), Some(rank), None),
            At::Due { due } => (Some(0), None, Some(due.0)),
            At::Outside { until } => (None, None, until.map(|until| until.0)),
        };
        self.used(activity.key.max(rank.unwrap_or(0)));
        let sql = "INSERT INTO activity (key, task, op, name, token, desk, rank, due, epoch, attempt, \
                   body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let Activity { key, task, op, name, token, epoch, attempt, body, .. } = activity;
        self.run(
            sql,
            params![key, task, op.0, name, token, desk, rank, due, epoch, attempt, body.0],
        )
        .map(drop)
    }

    fn counters(&mut self, counters: Counters) -> Result<()> {
        let sql = "UPDATE counter SET task = ?, number = ?, filed = ?";
        self.run(sql, [counters.task, self.number, self.event])?;
        // By the way that AUTOINCREMENT knows.
        self.run("DELETE FROM sqlite_sequence WHERE name = 'notice'", [])?;
        if counters.notice > 0 {
            let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('notice', ?)";
            self.run(sql, [counters.notice])?;
        }
        Ok(())
    }
}
