//! The writer: group commit.
//!
//! It takes all commands that wait, loads what they involve, decides them one after the other,
//! writes the result and commits; and only then answers. That is two trips to the server and one
//! flush for all of them; while they last the next batch gathers.
//!
//! There are two writers, so that one can be at work here while the other's batch is with the
//! server. They are to each other as two processes are.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use steadfast_store::Error;

use crate::{
    answer::{answer, answer_at_home},
    bell::Batch,
    conn::Conn,
    lane::{Lane, Setback, Then},
    queue::{Answered, Waiting},
    work::{Begun, Needs, Work, load, new_keys, save, save_recalled},
};

#[cfg(debug_assertions)]
use crate::work::check_memory;

/// A batch ends at this many commands,
const MOST: usize = 1024;
/// or at this many bytes.
const MOST_BYTES: usize = 4 << 20;

/// In company, for so long those are waited for who were just answered.
const MOMENT: Duration = Duration::from_millis(1);

/// How soon those are told who can't be served as long as nobody knows how a commit ended.
const SOON: Duration = Duration::from_secs(2);

pub(crate) struct Writer(pub(crate) Lane);

impl Writer {
    /// Works until the queue is closed and empty.
    pub(crate) async fn work(mut self) {
        let mut waiting = VecDeque::new();
        let core = Arc::clone(&self.0.core);
        let mut answered = None;
        while core.queue.take(&mut waiting, answered).await {
            // Alone, it is better that the database has something to do meanwhile. In company it has, and is
            // asked less often so.
            let gathers = if core.bell.in_company() { MOMENT } else { Duration::ZERO };
            answered = Some(Answered { count: waiting.len(), gathers });
            while !waiting.is_empty() {
                self.commit(cut(&mut waiting)).await;
            }
        }
    }

    /// Commits a batch, and answers.
    async fn commit(&mut self, mut batch: Vec<Waiting>) {
        self.0.fresh();
        let mut by_heart = true;
        loop {
            batch = self.in_time(batch);
            if batch.is_empty() {
                return;
            }
            let mut needs = Needs::default();
            for waiting in &batch {
                waiting.command.needs(&mut needs, &self.0.core.cards);
            }
            let attempt = match std::mem::take(&mut by_heart) && needs.are_known() {
                true => self.attempt_by_heart(&mut batch, &needs).await,
                false => self.attempt(&mut batch, &mut needs).await,
            };
            let setback = match attempt {
                // Alone, this thread mostly has a processor to itself, and answers while they are at it already.
                Ok(()) if self.0.core.bell.in_company() => return answer_at_home(batch),
                Ok(()) => return answer(batch, || None),
                Err(setback) => setback,
            };
            // What was remembered may be what was wrong.
            match setback {
                Setback::Doubtful => self.0.core.cards.drop_all(needs.keys.iter()),
                _ => self.0.core.cards.forget(),
            }
            let then = match self.0.recover(setback).await {
                Then::Unknown { desk, number, error } => {
                    batch = self.who_insists(batch, &error);
                    self.find_out(&mut batch, desk, number).await
                }
                then => then,
            };
            match then {
                Then::Again => {}
                Then::Committed => return answer(batch, || None),
                Then::Unknown { error, .. } => return answer(batch, || Some(again(&error))),
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

    /// Finds out whether a batch was committed, for those of it who insist. That may take as long as the database
    /// is away: who comes meanwhile goes to the other writer, and if that has to wait as well is told so soon.
    async fn find_out(&mut self, batch: &mut Vec<Waiting>, desk: i64, number: i64) -> Then {
        let core = Arc::clone(&self.0.core);
        core.queue.rest(true);
        self.0.patience = SOON;
        let then = loop {
            if batch.is_empty() {
                break Then::Committed;
            }
            self.0.fresh();
            match self.0.recover(Setback::Lost { desk, number }).await {
                Then::Unknown { error, .. } => {
                    let unavailable = || Some(Error::Unavailable(error.to_string()));
                    answer(core.queue.who_waits(SOON), unavailable);
                    *batch = self.who_insists(std::mem::take(batch), &error);
                }
                then => break then,
            }
        };
        self.0.patience = core.options.patience;
        core.queue.rest(false);
        then
    }

    /// Those who wait until it is known whether they were committed; the others are told that it is not.
    fn who_insists(&self, batch: Vec<Waiting>, error: &Error) -> Vec<Waiting> {
        let core = &self.0.core;
        let ends = core.is_closed() || core.queue.is_closed();
        let (rest, told) = batch.into_iter().partition(|waiting| waiting.insists && !ends);
        answer(told, || Some(again(error)));
        rest
    }

    /// Those that are still wanted; the others are told so.
    fn in_time(&self, batch: Vec<Waiting>) -> Vec<Waiting> {
        let (now, lease) = (Instant::now(), self.0.core.options.lease);
        if !batch.iter().any(|waiting| waiting.is_late(now, lease)) {
            return batch;
        }
        let (late, rest) = batch.into_iter().partition(|waiting| waiting.is_late(now, lease));
        let text =
            "the database could not be reached for longer than a lease, so nothing was started";
        answer(late, || Some(Error::Unavailable(text.into())));
        rest
    }

    /// One transaction in one trip, by what is remembered.
    async fn attempt_by_heart(
        &mut self,
        batch: &mut [Waiting],
        needs: &Needs,
    ) -> Result<(), Setback> {
        let core = Arc::clone(&self.0.core);
        let desk = core.desk();
        let last = self.0.last.filter(|(of, _)| *of == desk).map(|(_, last)| last);
        let Some(last) = last else { return Err(Setback::Doubtful) };
        let conn = self.0.conn().await?;
        let keys = match core.keys.take(needs.new_tasks) {
            Some(keys) => keys,
            None => new_keys(&conn, needs.new_tasks).await?.into(),
        };
        let Some(mut work) = Work::recall(desk, needs, keys) else {
            return Err(Setback::Doubtful);
        };
        for waiting in batch.iter_mut() {
            waiting.command.run(&mut work);
        }
        if !work.holds() {
            return Err(Setback::Doubtful);
        }
        #[cfg(debug_assertions)]
        check_memory(&conn, needs, desk).await;
        let (number, ahead) = (last + 1, core.keys.wanted(needs.new_tasks));
        match save_recalled(&conn, &work, (self.0.number, number), &core.locks, ahead).await {
            Ok((version, keys)) => {
                core.keys.put(keys);
                core.cards.keep(work.cards(version));
                self.0.last = Some((desk, number));
                self.0.worked();
                let batch = Batch { desk, lane: self.0.number, number };
                core.committed(Some(batch), || work.told());
                Ok(())
            }
            Err(error) => match Setback::at_commit(error, desk, number) {
                lost @ Setback::Lost { .. } => Err(lost),
                _ => Err(Setback::Doubtful),
            },
        }
    }

    /// One transaction.
    async fn attempt(&mut self, batch: &mut [Waiting], needs: &mut Needs) -> Result<(), Setback> {
        let conn = self.0.conn().await?;
        let core = Arc::clone(&self.0.core);
        let (desk, lane) = (core.desk(), self.0.number);
        let mut begun = Begun::New { desk, lane };
        if needs.new_tasks > 0 {
            core.keys.clear();
        }
        loop {
            let loaded = load(&conn, needs, &begun, &core.locks).await;
            let (mut work, stamp) = match loaded {
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
            for waiting in batch.iter_mut() {
                waiting.command.run(&mut work);
            }
            if !work.is_complete() {
                let missing = std::mem::take(&mut work.missing);
                drop(work);
                begun = Begun::Same { desk, stamp };
                if missing.locks() {
                    rollback(&conn).await;
                    begun = Begun::New { desk, lane };
                }
                needs.add(missing);
                continue;
            }
            if !work.news.written {
                rollback(&conn).await;
                return Ok(());
            }
            return match save(&conn, &work).await {
                Ok(()) => {
                    core.cards.keep(work.cards(stamp.version));
                    self.0.last = Some((desk, stamp.number));
                    self.0.worked();
                    let batch = Batch { desk, lane, number: stamp.number };
                    core.committed(Some(batch), || work.told());
                    Ok(())
                }
                Err(error) => {
                    let setback = Setback::at_commit(error, desk, stamp.number);
                    if matches!(setback, Setback::Failed(_)) {
                        // It may have failed before its commit was sent.
                        rollback(&conn).await;
                    }
                    Err(setback)
                }
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

/// The same error once more.
fn again(error: &Error) -> Error {
    match error {
        Error::Refused(refusal) => Error::Refused(refusal.clone()),
        Error::Unavailable(text) => Error::Unavailable(text.clone()),
        Error::Unknown(text) => Error::Unknown(text.clone()),
        Error::Corrupt(text) => Error::Corrupt(text.clone()),
    }
}
