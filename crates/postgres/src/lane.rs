//! A lane: one connection that writes, one transaction at a time, and knows how each ended.
//!
//! There are four. Small writes are committed together in two of them (see
//! [`writer`](crate::writer)); what looks for its rows by itself, like a claim, has the third (see
//! [`solo`](crate::solo)), and removing what is over the fourth. Between them, as between processes, order
//! is made by locks of the database alone.

mod cards;
mod link;

use std::{sync::Arc, time::Duration};

use steadfast_store::Error;
use tokio::time::Instant;

pub(crate) use self::cards::{Card, Cards};
use self::link::Link;
use crate::{
    bell::Batch,
    conn::Conn,
    core::{Core, alive},
    error::{Remedy, cause, remedy, undid},
    news::News,
};

/// Why a transaction did not come to its end.
#[derive(Debug)]
pub(crate) enum Setback {
    /// The desk is dead. Nothing was written.
    Dead { desk: i64 },
    /// PostgreSQL failed before the commit, or refused it. Nothing was written.
    Failed(tokio_postgres::Error),
    /// There is no connection. Nothing was written.
    Unconnected(Error),
    /// The connection was lost while it committed batch `number` of `desk`.
    Lost { desk: i64, number: i64 },
    /// What is remembered is not so. Nothing was written.
    Doubtful,
}

impl From<tokio_postgres::Error> for Setback {
    fn from(error: tokio_postgres::Error) -> Setback {
        Setback::Failed(error)
    }
}

impl Setback {
    /// What an error means that came back when the commit was on its way.
    pub(crate) fn at_commit(error: tokio_postgres::Error, desk: i64, number: i64) -> Setback {
        match undid(&error) {
            true => Setback::Failed(error),
            false => Setback::Lost { desk, number },
        }
    }
}

/// What to do after a setback.
pub(crate) enum Then {
    /// The same again.
    Again,
    /// It was committed after all.
    Committed,
    /// It could not be found out yet whether batch `number` of `desk` was committed.
    Unknown { desk: i64, number: i64, error: Error },
    /// It failed. With `alone`, what was done together may do better one by one.
    Fail { error: Error, alone: bool },
}

/// How often a transaction is tried.
const TRIES: u32 = 12;

pub(crate) struct Lane {
    pub(crate) core: Arc<Core>,
    pub(crate) number: i16,
    link: Link,
    /// Setbacks of the transaction that is being tried.
    tries: u32,
    /// How long it is tried to find out whether it was committed, before that is said not to be known.
    pub(crate) patience: Duration,
    /// The desk, and the number of the last batch that was committed in its name, if that is known.
    pub(crate) last: Option<(i64, i64)>,
}

impl Lane {
    /// Without a connection it makes one when it needs it.
    pub(crate) fn new(core: Arc<Core>, number: i16, conn: Option<Conn>) -> Lane {
        let (link, patience) = (Link::new(Arc::clone(&core), conn), core.options.patience);
        Lane { link, core, number, tries: 0, patience, last: None }
    }

    pub(crate) async fn conn(&mut self) -> Result<Arc<Conn>, Setback> {
        self.core.health.up_to_date().map_err(Setback::Unconnected)?;
        self.link.get().await.map_err(Setback::Unconnected)
    }

    /// A transaction was committed.
    pub(crate) fn worked(&mut self) {
        self.link.worked();
    }

    /// Another transaction begins.
    pub(crate) fn fresh(&mut self) {
        self.tries = 0;
    }

    /// Decides what follows from a setback.
    pub(crate) async fn recover(&mut self, setback: Setback) -> Then {
        let then = self.decide(setback).await;
        if let Then::Fail { error, .. } | Then::Unknown { error, .. } = &then {
            self.core.health.failed(error);
        }
        then
    }

    async fn decide(&mut self, setback: Setback) -> Then {
        self.tries += 1;
        let gives_up = self.tries >= TRIES;
        let error = match setback {
            Setback::Unconnected(error) => return Then::Fail { error, alone: false },
            Setback::Lost { desk, number } => {
                return match self.look_up(desk, number).await {
                    // One of them may be what it is lost by.
                    Then::Again if gives_up => {
                        let text = "the connection was lost during its commit again and again";
                        Then::Fail { error: Error::Unavailable(text.into()), alone: true }
                    }
                    then => then,
                };
            }
            Setback::Doubtful => return Then::Again,
            Setback::Dead { desk } => {
                let error = match self.conn().await {
                    Ok(conn) => self.core.found_dead(desk, &conn).await.err(),
                    Err(Setback::Unconnected(error)) => Some(error),
                    Err(_) => None,
                };
                return match error {
                    None if gives_up => {
                        let text = "this process is taken for dead again and again: its lease is too \
                                    short for this database";
                        Then::Fail { error: Error::Unavailable(text.into()), alone: false }
                    }
                    None => Then::Again,
                    Some(error) => Then::Fail { error, alone: false },
                };
            }
            Setback::Failed(error) => error,
        };
        let undone = crate::error::undone(&error);
        match remedy(&error) {
            Remedy::Again if !gives_up => {
                // Those that were in each other's way don't meet again.
                let pause = u64::from(self.tries * 7 + std::process::id() % 13);
                if self.tries > 2 {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                Then::Again
            }
            Remedy::Reconnect if self.tries < 4 => {
                self.link.lose(cause(&error));
                Then::Again
            }
            Remedy::Reconnect => {
                self.link.lose(cause(&error));
                Then::Fail { error: undone, alone: false }
            }
            Remedy::Again | Remedy::Never => Then::Fail { error: undone, alone: true },
            Remedy::Wait => Then::Fail { error: undone, alone: false },
        }
    }

    /// Finds out whether a batch was committed whose answer was lost.
    ///
    /// Its transaction may have locked the row that counts the batches: whoever gets that row sees it
    /// decided, one way or the other. Or it may be on its way to the server still, if all of it was sent in
    /// one trip: it can only have the number that it was sent with, so that number is passed over, by two, so
    /// that whoever has to look again sees that it was not used.
    ///
    /// That may be long after. If the lease is over by then, what was committed is others' to go on with:
    /// nobody here may act on it as if he still held something. Of a handle that is closed nobody would, and
    /// what was committed may be that it gave its desk back.
    async fn look_up(&mut self, desk: i64, number: i64) -> Then {
        const SQL: &str = concat!(
            "UPDATE writer w SET batch = CASE WHEN w.batch < $3 THEN $3::bigint + 1 ELSE w.batch END
             WHERE w.desk = $1 AND w.lane = $2
             RETURNING w.batch, EXISTS (SELECT FROM desk d WHERE d.n = $1 AND ",
            alive!(),
            ")"
        );
        self.last = None;
        self.link.lose("the connection was lost".into());
        let limit = Instant::now() + self.patience;
        let lost =
            |why: String| Error::Unknown(format!("the connection was lost during a commit: {why}"));
        loop {
            let why;
            match self.link.get().await {
                Ok(conn) => match conn.first(SQL, &[&desk, &self.number, &number]).await {
                    Ok(Some(row)) => {
                        let committed = row.try_get::<_, i64>(0).is_ok_and(|last| last == number);
                        let alive = row.try_get::<_, bool>(1).unwrap_or(false);
                        tracing::info!(committed, alive, "found out how a commit ended");
                        if committed && !alive && !self.core.is_closed() {
                            if let Err(error) = self.core.found_dead(desk, &conn).await {
                                tracing::warn!(%error, "can't take another desk; trying again");
                            }
                            let why = "it was made, and then this process was taken for dead";
                            return Then::Fail { error: lost(why.into()), alone: false };
                        }
                        if !committed {
                            return Then::Again;
                        }
                        let batch = Batch { desk, lane: self.number, number };
                        self.core.committed(Some(batch), News::anything);
                        return Then::Committed;
                    }
                    Ok(None) => {
                        let why = "its trace in the database is gone";
                        return Then::Fail { error: lost(why.into()), alone: false };
                    }
                    Err(error) => {
                        why = cause(&error);
                        if remedy(&error) == Remedy::Reconnect {
                            self.link.lose(why.clone());
                        }
                    }
                },
                Err(error) => why = error.to_string(),
            }
            if Instant::now() >= limit {
                return Then::Unknown { desk, number, error: lost(why) };
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
