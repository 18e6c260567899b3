//! The writer: group commit.
//!
//! It takes all commands that wait, loads what they involve, decides them one after the other,
//! writes the result and commits; and only then answers. That is two trips to the server and one
//! flush for all of them; while they last the next batch gathers.
//!
//! There are two writers, so that one can be at work here while the other's batch is with the
//! server. They are to each other as two processes are.

use std::collections::VecDeque;

use steadfast_store::Error;

use crate::{
    conn::Conn,
    lane::{Lane, Setback, Then},
    queue::Waiting,
    work::{Begun, Needs, News, load, save},
};

/// A batch ends at this many commands,
const MOST: usize = 1024;
/// or at this many bytes.
const MOST_BYTES: usize = 4 << 20;

pub(crate) struct Writer(pub(crate) Lane);

impl Writer {
    /// Works until the queue is closed and empty.
    pub(crate) async fn work(mut self) {
        let mut waiting = VecDeque::new();
        let core = std::sync::Arc::clone(&self.0.core);
        let mut first = true;
        while core.queue.take(&mut waiting, std::mem::take(&mut first)).await {
            while !waiting.is_empty() {
                self.commit(cut(&mut waiting)).await;
            }
        }
    }

    /// Commits a batch, and answers.
    async fn commit(&mut self, mut batch: Vec<Waiting>) {
        self.0.fresh();
        loop {
            let mut needs = Needs::default();
            for waiting in &batch {
                waiting.command.needs(&mut needs, &self.0.core.cards);
            }
            let setback = match self.attempt(&mut batch, &mut needs).await {
                Ok(()) => return answer(batch, || None),
                Err(setback) => setback,
            };
            // What was remembered may be what was wrong.
            self.0.core.cards.forget();
            match self.0.recover(setback).await {
                Then::Again => {}
                Then::Committed => {
                    self.0.core.committed(News::Urgent);
                    return answer(batch, || None);
                }
                Then::Fail { alone: true, .. } if batch.len() > 1 => {
                    // One of them is bad. By itself it fails alone.
                    for waiting in batch {
                        Box::pin(self.commit(vec![waiting])).await;
                    }
                    return;
                }
                Then::Fail { error, .. } => return answer(batch, || Some(again(&error))),
            }
        }
    }

    /// One transaction.
    async fn attempt(&mut self, batch: &mut [Waiting], needs: &mut Needs) -> Result<(), Setback> {
        let conn = self.0.conn().await?;
        let core = &self.0.core;
        let (desk, lane) = (core.desk(), self.0.number);
        let mut begun = Begun::New { desk, lane };
        let mut number = 0;
        loop {
            let loaded = load(&conn, needs, &begun, &core.locks).await;
            let (mut work, first, moment) = match loaded {
                Ok(Some(loaded)) => loaded,
                Ok(None) => {
                    rollback(&conn).await;
                    return Err(Setback::Dead { desk });
                }
                Err(error) => {
                    rollback(&conn).await;
                    return Err(error.into());
                }
            };
            if matches!(begun, Begun::New { .. }) {
                number = first;
            }
            for waiting in batch.iter_mut() {
                waiting.command.run(&mut work);
            }
            if !work.is_complete() {
                let missing = std::mem::take(&mut work.missing);
                drop(work);
                begun = Begun::Same { desk, moment };
                if missing.locks() {
                    rollback(&conn).await;
                    begun = Begun::New { desk, lane };
                }
                needs.add(missing);
                continue;
            }
            if work.news == News::None {
                rollback(&conn).await;
                return Ok(());
            }
            return match save(&conn, &work).await {
                Ok(()) => {
                    core.cards.keep(work.ends());
                    core.committed(work.news);
                    Ok(())
                }
                Err(error) => Err(Setback::at_commit(error, desk, number)),
            };
        }
    }
}

/// If it can't, there is no connection any more, and no transaction.
pub(crate) async fn rollback(conn: &Conn) {
    let _ = conn.run("ROLLBACK").await;
}

fn cut(waiting: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let mut bytes = 0;
    let mut count = 0;
    for next in waiting.iter().take(MOST) {
        bytes += next.bytes;
        if count > 0 && bytes > MOST_BYTES {
            break;
        }
        count += 1;
    }
    waiting.drain(..count).collect()
}

fn answer(batch: Vec<Waiting>, why: impl Fn() -> Option<Error>) {
    batch.into_iter().for_each(|waiting| waiting.command.answer(why()));
}

/// The same error once more.
fn again(error: &Error) -> Error {
    match error {
        Error::Refused(refusal) => Error::Refused(refusal.clone()),
        Error::Unavailable(text) => Error::Unavailable(text.clone()),
        Error::Unknown(text) => Error::Unknown(text.clone()),
        Error::Corrupt(text) => Error::Corrupt(text.clone()),
    }
}
