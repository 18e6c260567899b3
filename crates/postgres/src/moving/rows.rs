//! Records, column by column, as the statements take them that write many rows at once.

use std::borrow::Cow;

use steadfast_core::Principal;
use steadfast_store::moving::{
    Activity, At, Kind, NOBODY, Parent, Place, Record, Result, State, Task,
};

use super::write::Tables;
use crate::{row, text, work::sql};

/// One column of some records.
fn column<'r, R, T>(rows: &[&'r R], get: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(|row| get(row)).collect()
}

/// The records of one kind.
macro_rules! of_kind {
    ($records:expr, $kind:ident) => {
        $records
            .iter()
            .filter_map(|record| match record {
                Record::$kind(row) => Some(row),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
}

fn stored(text: &str) -> Cow<'_, str> {
    text::stored(text)
}

impl Tables<'_> {
    /// Writes records that are all of one kind.
    pub(super) async fn put(&mut self, kind: Kind, records: &[Record]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        match kind {
            Kind::Task => {
                let tasks: Vec<&Task> = of_kind!(records, Task).into_iter().map(|t| &**t).collect();
                self.tasks(&tasks).await
            }
            Kind::Event => {
                let rows = of_kind!(records, Event);
                let (task, seq) = (column(&rows, |r| r.task), column(&rows, |r| r.seq));
                let body = column(&rows, |r| r.body.0.as_slice());
                self.run(sql::INSERT_EVENT, &[&task, &seq, &body]).await
            }
            Kind::Message => {
                let rows = of_kind!(records, Message);
                let (task, seq) = (column(&rows, |r| r.task), column(&rows, |r| r.seq));
                let op = column(&rows, |r| r.op.map(|op| i64::from(op.0)));
                let notice = column(&rows, |r| r.notice);
                let body = column(&rows, |r| r.body.0.as_slice());
                self.run(sql::INSERT_INBOX, &[&task, &seq, &op, &notice, &body]).await
            }
            Kind::Question => {
                let rows = of_kind!(records, Question);
                let (task, n) = (column(&rows, |r| r.task), column(&rows, |r| r.place));
                let op = column(&rows, |r| i64::from(r.op.0));
                let key = column(&rows, |r| stored(&r.key));
                let body = column(&rows, |r| r.body.0.as_slice());
                self.run(sql::INSERT_QUESTION, &[&task, &n, &op, &key, &body]).await
            }
            Kind::Activity => self.activities(&of_kind!(records, Activity)).await,
            Kind::Watch => {
                let rows = of_kind!(records, Watch);
                let scope = column(&rows, |r| stored(&r.scope));
                let key = column(&rows, |r| stored(&r.key));
                let task = column(&rows, |r| r.task);
                self.run(sql::INSERT_WATCH, &[&scope, &key, &task]).await
            }
            Kind::State => self.states(&of_kind!(records, State)).await,
            Kind::Session => {
                let rows = of_kind!(records, Session);
                let id = column(&rows, |r| stored(&r.id));
                let expires = column(&rows, |r| r.expires.0);
                let body = column(&rows, |r| r.body.0.as_slice());
                self.run(sql::PUT_SESSION, &[&id, &expires, &body]).await
            }
            Kind::Kept => {
                let rows = of_kind!(records, Kept);
                let (n, until) = (column(&rows, |r| r.n), column(&rows, |r| r.until.0));
                let id = column(&rows, |r| r.id.as_str());
                let sender = column(&rows, |r| r.sender.as_ref().map_or("", Principal::as_str));
                let body = column(&rows, |r| r.body.0.as_slice());
                self.run(sql::INSERT_KEPT, &[&n, &until, &id, &sender, &body]).await
            }
            Kind::Notice => {
                let rows = of_kind!(records, Notice);
                let (n, until) = (column(&rows, |r| r.n), column(&rows, |r| r.until.0));
                let body = column(&rows, |r| r.body.0.as_slice());
                self.run(sql::INSERT_NOTICE, &[&n, &until, &body]).await
            }
            Kind::Counters => {
                for counters in of_kind!(records, Counters) {
                    self.finish(*counters).await?;
                }
                Ok(())
            }
        }
    }

    async fn tasks(&mut self, rows: &[&Task]) -> Result<()> {
        let desk = column(rows, |r| match r.place {
            Place::Ready { .. } => Some(0i64),
            Place::Parked { .. } => None,
            Place::Halted { .. } => Some(-1),
        });
        let rank = column(rows, |r| match r.place {
            Place::Ready { rank } => rank,
            Place::Parked { .. } | Place::Halted { .. } => 0,
        });
        let wake = column(rows, |r| match r.place {
            Place::Ready { .. } => None,
            Place::Parked { wake } | Place::Halted { wake } => wake.map(|wake| wake.0),
        });
        let key = column(rows, |r| r.key);
        let status = column(rows, |r| r.status as i16);
        let (created, updated) = (column(rows, |r| r.created.0), column(rows, |r| r.updated.0));
        let ended = column(rows, |r| r.ended.map(|at| at.0));
        let expires = column(rows, |r| r.expires.map(|at| at.0));
        let parent = column(rows, |r| r.parent.map(|parent: Parent| parent.key));
        let parent_op = column(rows, |r| r.parent.map(|parent| i64::from(parent.op.0)));
        let tells = column(rows, |r| r.parent.is_some_and(|parent| parent.tells));
        let bound = column(rows, |r| r.bound.then_some(NOBODY));
        let (epoch, deaths) = (column(rows, |r| r.epoch), column(rows, |r| i64::from(r.deaths)));
        // Both are known when all is read.
        let (letters, traces) = (vec![0i64; rows.len()], vec![0i16; rows.len()]);
        let version = column(rows, |r| r.version.map_or(row::NO_VERSION, i64::from));
        let id = column(rows, |r| r.id.as_str());
        let tool = column(rows, |r| stored(&r.tool));
        let owner = column(rows, |r| row::owner(&r.owner));
        let dedup = column(rows, |r| r.dedup.as_deref().map(stored));
        let tags = column(rows, |r| row::tags(&r.tags));
        let about = column(rows, |r| r.about.0.as_slice());
        let view = column(rows, |r| r.view.0.as_slice());
        let outcome = column(rows, |r| r.end.as_ref().map(|end| end.0.as_slice()));
        self.run(
            sql::INSERT_TASK,
            &[
                &key, &status, &created, &updated, &ended, &expires, &wake, &parent, &parent_op,
                &desk, &bound, &rank, &epoch, &deaths, &letters, &version, &traces, &tells, &id,
                &tool, &owner, &dedup, &tags, &about, &view, &outcome,
            ],
        )
        .await?;
        let (mut names, mut values, mut tasks) = (vec![], vec![], vec![]);
        for row in rows {
            for (name, value) in &row.tags {
                names.push(stored(name));
                values.push(stored(value));
                tasks.push(row.key);
            }
        }
        self.run(sql::INSERT_TAG, &[&names, &values, &tasks]).await
    }

    async fn activities(&mut self, rows: &[&Activity]) -> Result<()> {
        let places = column(rows, |r| match r.at {
            At::Queue { rank } => (Some(0i64), Some(rank), None),
            At::Due { due } => (Some(0), None, Some(due.0)),
            At::Outside { until } => (None, None, until.map(|until| until.0)),
        });
        let desk: Vec<_> = places.iter().map(|(desk, _, _)| *desk).collect();
        let rank: Vec<_> = places.iter().map(|(_, rank, _)| *rank).collect();
        let due: Vec<_> = places.iter().map(|(_, _, due)| *due).collect();
        let (key, task) = (column(rows, |r| r.key), column(rows, |r| r.task));
        let op = column(rows, |r| i64::from(r.op.0));
        let (epoch, attempt) = (column(rows, |r| r.epoch), column(rows, |r| i64::from(r.attempt)));
        let (name, token) = (column(rows, |r| stored(&r.name)), column(rows, |r| stored(&r.token)));
        let body = column(rows, |r| r.body.0.as_slice());
        self.run(
            sql::INSERT_ACTIVITY,
            &[&key, &task, &op, &desk, &rank, &due, &epoch, &attempt, &name, &token, &body],
        )
        .await
    }

    async fn states(&mut self, rows: &[&State]) -> Result<()> {
        let (scope, key) = (column(rows, |r| stored(&r.scope)), column(rows, |r| stored(&r.key)));
        let version = column(rows, |r| r.version);
        let value = column(rows, |r| r.value.as_ref().map(|value| value.0.as_slice()));
        self.run(sql::WRITE_STATE, &[&scope, &key, &version, &value]).await
    }
}
