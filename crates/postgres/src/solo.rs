//! Calls that find their rows by themselves, each in a transaction of its own: what is in a pile, on
//! a desk, or over.

mod adopt;
mod claim;
mod claim_activities;
mod session;
mod sweep;

use std::sync::Arc;

use steadfast_store::{Error, Result};
use tokio::sync::Mutex;
use tokio_postgres::Row;

use self::adopt::GiveBack;
pub(crate) use self::{
    adopt::Adopt,
    claim::Claim,
    claim_activities::ClaimWork,
    session::{KeepSession, TouchSession},
    sweep::sweep,
};
use crate::{
    bell::Batch,
    conn::{Conn, Param},
    core::Core,
    lane::{Lane, Setback, Then},
    news::News,
    work::fence,
    writer::rollback,
};

/// What can go wrong inside of one.
pub(crate) enum Fault {
    Sql(tokio_postgres::Error),
    /// What was read makes no sense.
    Row(Error),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Row(error)
    }
}

pub(crate) type Done<T> = std::result::Result<T, Fault>;

/// An open transaction, with a desk that is alive until its end.
pub(crate) struct Tx<'t> {
    conn: &'t Conn,
    pub(crate) core: &'t Core,
    pub(crate) desk: i64,
    /// Ranks are made above it.
    pub(crate) moment: i64,
}

impl Tx<'_> {
    pub(crate) async fn all(&self, sql: &str, params: &[Param<'_>]) -> Done<Vec<Row>> {
        Ok(self.conn.query(sql, params).await?)
    }

    pub(crate) async fn first(&self, sql: &str, params: &[Param<'_>]) -> Done<Option<Row>> {
        Ok(self.conn.first(sql, params).await?)
    }
}

/// What one does. It may be done more than once; what counts is the last time.
pub(crate) trait Solo: Send + Sync + 'static {
    type Answer: Send + 'static;

    /// Whether there is nothing to do, seen without a transaction.
    fn idle(&self, _: &Conn, _: &Core) -> impl Future<Output = Done<Option<Self::Answer>>> + Send {
        async { Ok(None) }
    }

    /// Does it, and says who should hear of it.
    fn run(&self, tx: &Tx<'_>) -> impl Future<Output = Done<(Self::Answer, News)>> + Send;
}

/// A lane for these calls.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Mutex<Lane>>);

impl Desk {
    pub(crate) fn new(lane: Lane) -> Desk {
        Desk(Arc::new(Mutex::new(lane)))
    }

    /// Does one, to its end even if the caller gives up.
    pub(crate) async fn call<S: Solo>(&self, core: &Core, solo: S) -> Result<S::Answer> {
        core.check_open()?;
        self.do_it(core, solo).await
    }

    /// Gives the desk back. After it nothing more is written; if it fails, the desk is dead when its lease is
    /// over. Done once, whoever asks for it again.
    pub(crate) async fn give_back(&self, core: &Core) -> Result<()> {
        if !core.close() {
            return Ok(());
        }
        match self.do_it(core, GiveBack { tells: true }).await {
            // PostgreSQL may have no room for notices, if somebody listens and does not hear. That fails the
            // commit; and it is better to be found out than to be dead only when the lease is over.
            Err(Error::Corrupt(why)) => {
                tracing::warn!(why, "can't say that all is given back; giving it back in silence");
                self.do_it(core, GiveBack { tells: false }).await
            }
            done => done,
        }
    }

    async fn do_it<S: Solo>(&self, core: &Core, solo: S) -> Result<S::Answer> {
        let lane = Arc::clone(&self.0);
        let done = core.runtime.spawn(async move { call(&mut *lane.lock().await, &solo).await });
        done.await.unwrap_or_else(|_| Err(crate::queue::closed()))
    }
}

async fn call<S: Solo>(lane: &mut Lane, solo: &S) -> Result<S::Answer> {
    lane.fresh();
    loop {
        let mut answer = None;
        let setback = match attempt(lane, solo, &mut answer).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => return Err(error),
            Err(setback) => setback,
        };
        match (lane.recover(setback).await, answer) {
            (Then::Again, _) => {}
            (Then::Committed, Some(answer)) => {
                return Ok(answer);
            }
            (Then::Committed, None) => return Err(Error::Unknown("its answer was lost".into())),
            (Then::Unknown { error, .. } | Then::Fail { error, .. }, _) => return Err(error),
        }
    }
}

/// One transaction. What it leads to is put into `answer` before the commit.
async fn attempt<S: Solo>(
    lane: &mut Lane,
    solo: &S,
    answer: &mut Option<S::Answer>,
) -> std::result::Result<Result<S::Answer>, Setback> {
    let conn = lane.conn().await?;
    let (core, number) = (Arc::clone(&lane.core), lane.number);
    match solo.idle(&conn, &core).await {
        Ok(None) => {}
        Ok(Some(answer)) => return Ok(Ok(answer)),
        Err(Fault::Sql(error)) => return Err(error.into()),
        Err(Fault::Row(error)) => return Ok(Err(error)),
    }
    let desk = core.desk();
    conn.run("BEGIN").await?;
    let fence = match conn.first(fence(), &[&desk, &number]).await {
        Ok(fence) => fence,
        Err(error) => {
            rollback(&conn).await;
            return Err(error.into());
        }
    };
    let Some(fence) = fence else {
        rollback(&conn).await;
        return Err(Setback::Dead { desk });
    };
    let (batch, moment): (i64, i64) = (fence.try_get(0)?, fence.try_get(1)?);
    let tx = Tx { conn: &conn, core: &core, desk, moment };
    match solo.run(&tx).await {
        Ok((done, news)) if !news.written => {
            rollback(&conn).await;
            Ok(Ok(done))
        }
        Ok((done, news)) => {
            *answer = Some(done);
            match conn.run("COMMIT").await {
                Ok(()) => {
                    let committed = Batch { desk, lane: number, number: batch };
                    core.committed(Some(committed), || news);
                    lane.worked();
                    answer.take().map(Ok).ok_or(Setback::Lost { desk, number: batch })
                }
                Err(error) => Err(Setback::at_commit(error, desk, batch)),
            }
        }
        Err(Fault::Sql(error)) => {
            rollback(&conn).await;
            Err(error.into())
        }
        Err(Fault::Row(error)) => {
            rollback(&conn).await;
            Ok(Err(error))
        }
    }
}

/// For a look at their plans.
#[cfg(feature = "testing")]
pub(crate) const STATEMENTS: &[(&str, &str)] = &[
    ("adopt LOCK", adopt::LOCK),
    ("adopt TASKS", adopt::TASKS),
    ("adopt GIVE_BACK", adopt::GIVE_BACK),
    ("adopt SET_ASIDE", adopt::SET_ASIDE),
    ("adopt ACTIVITIES", adopt::ACTIVITIES),
    ("adopt BURY", adopt::BURY),
    ("adopt REMEMBER", adopt::REMEMBER),
    ("claim DUE", claim::DUE),
    ("claim ANY", claim::ANY),
    ("claim PICK", claim::PICK),
    ("claim LOCK", claim::LOCK),
    ("claim FIT", claim::FIT),
    ("claim TAKE", claim::TAKE),
    ("claim HISTORY", claim::HISTORY),
    ("claim INBOX", claim::INBOX),
    ("claim_activities DUE", claim_activities::DUE),
    ("claim_activities ANY", claim_activities::ANY),
    ("claim_activities PICK", claim_activities::PICK),
    ("claim_activities TAKE", claim_activities::TAKE),
    ("sweep ANY", sweep::ANY),
    ("sweep OVER", sweep::OVER),
    ("sweep LOCK", sweep::LOCK),
    ("sweep EVENTS", sweep::EVENTS),
    ("sweep LEFT", sweep::LEFT),
    ("sweep SESSIONS", sweep::SESSIONS),
    ("sweep KEPT", sweep::KEPT),
    ("sweep NOTICES", sweep::NOTICES),
    ("sweep DESKS", sweep::DESKS),
    ("sweep WRITERS", sweep::WRITERS),
];
