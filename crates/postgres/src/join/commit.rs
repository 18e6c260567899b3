//! The turn in the author's transaction, and its commit.

use std::{sync::Arc, time::Duration};

use steadfast_core::OpId;
use steadfast_store::{Error, Join, Overruled, Refusal, Result, Turn, Turned};
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use super::{
    Isolation, Ready,
    open::{DEALLOCATED, Open},
};
use crate::{
    bell::Batch,
    conn::Conn,
    core::{Core, alive},
    error::{Fault, Remedy, cause, remedy, undone},
    news::News,
    queue::Apply,
    work::{Begun, Needs, Work, load, save},
    write::TakeTurn,
};

/// Why a transaction was not committed, as far as is known.
enum Setback {
    /// The store said no.
    Refused(Error),
    /// Others were in the way.
    Overtaken(String),
    /// PostgreSQL failed before the commit, or refused it.
    Failed(tokio_postgres::Error),
    /// The connection was lost while it committed what would lead to this.
    Lost(Turned),
}

impl From<tokio_postgres::Error> for Setback {
    fn from(error: tokio_postgres::Error) -> Setback {
        match remedy(&error) {
            Remedy::Again => Setback::Overtaken(cause(&error)),
            _ => Setback::Failed(error),
        }
    }
}

/// Takes a turn together with what an author's code did: to its end even if the caller gives up.
pub(crate) async fn turn_with(core: &Arc<Core>, turn: Turn, join: Join) -> Result<Turned> {
    let Join { op, parcel } = join;
    let Ok(ready) = parcel.downcast::<Ready>() else {
        return Err(Error::Corrupt("this work is not for PostgreSQL".into()));
    };
    let own = Arc::clone(core);
    let done = core.runtime.spawn(async move { commit(&own, *ready, turn, op).await });
    done.await.unwrap_or_else(|_| Err(Error::Unknown("the handle was closed meanwhile".into())))
}

async fn commit(core: &Core, ready: Ready, turn: Turn, op: OpId) -> Result<Turned> {
    let Ready { mut open, event, overrule } = ready;
    let turn = TakeTurn(Turn { events: vec![event], ..turn });
    open.suspect();
    let setback = match attempt(core, &open, &turn).await {
        Ok(turned) => {
            open.committed();
            return Ok(turned);
        }
        Err(setback) => setback,
    };
    // What was remembered may be what was wrong.
    core.cards.forget();
    let lane = open.lane();
    drop(open);
    match setback {
        Setback::Refused(error) => Err(error),
        Setback::Overtaken(why) => {
            tracing::debug!(why, "a transaction was overtaken");
            Err(Refusal::Guard(op).into())
        }
        Setback::Failed(error) => match fault(&error) {
            Some(why) => {
                overrule(why);
                Err(Refusal::Guard(op).into())
            }
            None => Err(undone(&error)),
        },
        Setback::Lost(turned) => {
            let committed = look_up(core, &turn.0, lane).await?;
            tracing::info!(committed, "found out how a transaction ended");
            if !committed {
                return Err(Refusal::Guard(op).into());
            }
            core.committed(None, News::anything);
            Ok(turned)
        }
    }
}

/// What the author's code has to do with it, if it has: the same is refused each time then, and is not to be
/// waited for.
///
/// The rows that are written here are small, and are checked before. So what PostgreSQL does not take is what
/// else is in the transaction, and shows by its commit only. But rights, tables and room are the operator's.
fn fault(error: &tokio_postgres::Error) -> Option<Overruled> {
    let code = error.code()?;
    if *code == SqlState::INVALID_SQL_STATEMENT_NAME {
        return Some(Overruled::Broken(DEALLOCATED.into()));
    }
    // Not supported; raised by code in the database.
    let theirs = ["0A", "P0"].contains(&&code.code()[..2]) || remedy(error) == Remedy::Never;
    theirs.then(|| Overruled::Failed(cause(error)))
}

/// Checks that the task is held here, under the locks that keep it so, and writes and commits the turn.
async fn attempt(
    core: &Core,
    open: &Open,
    turn: &TakeTurn,
) -> std::result::Result<Turned, Setback> {
    core.health.up_to_date().map_err(Setback::Refused)?;
    let conn: &Conn = &open.conn;
    let desk = core.desk();
    let mut needs = Needs::default();
    turn.needs(&mut needs, &core.cards);
    let mut begun = Begun::Joined { desk, lane: open.lane() };
    loop {
        let loaded = load(conn, &needs, &begun, &core.locks).await?;
        let Some((mut work, stamp)) = loaded else {
            return Err(match open.isolation() {
                Isolation::ReadCommitted => Setback::Refused(Refusal::Fenced.into()),
                // It may have been so at the moment that this transaction sees, and no longer.
                _ => Setback::Overtaken("the lease of this process was over".into()),
            });
        };
        let outcome = turn.apply(&mut work);
        if !work.is_complete() {
            let missing = std::mem::take(&mut work.missing);
            drop(work);
            if missing.locks() {
                // Only an effect of the turn could ask for that, and there is none.
                let error = Error::Corrupt("a turn with work has other effects".into());
                return Err(Setback::Refused(error));
            }
            begun = Begun::Same { desk, stamp };
            needs.add(missing);
            continue;
        }
        let turned = match outcome {
            Ok(turned) => turned,
            Err(Fault::Refused(_)) if is_behind(open, &work, &turn.0) => {
                let text = "its task went on after the moment that it sees";
                return Err(Setback::Overtaken(text.into()));
            }
            Err(Fault::Refused(error)) => return Err(Setback::Refused(error)),
            Err(Fault::Miss) => return Err(Setback::Overtaken("something was missing".into())),
        };
        return match save(conn, &work).await {
            Ok(()) => {
                core.cards.keep(work.cards(stamp.version));
                let batch = Batch { desk, lane: open.lane(), number: stamp.number };
                core.committed(Some(batch), || work.told());
                Ok(turned)
            }
            Err(error) if remedy(&error) == Remedy::Reconnect => Err(Setback::Lost(turned)),
            Err(error) => Err(error.into()),
        };
    }
}

/// Whether the transaction sees an end of the history that is not the end any more. Another branch of the task
/// may have recorded something since its moment, and that changes no row that is locked here.
fn is_behind(open: &Open, work: &Work<'_>, turn: &Turn) -> bool {
    let next = work.tasks.get(&turn.lease.key.0).and_then(|task| task.next);
    let seen = next.and_then(|next| u64::try_from(next).ok());
    open.isolation() != Isolation::ReadCommitted && seen.is_some_and(|seen| seen < turn.first)
}

/// Finds out whether a turn was committed whose answer was lost: its event is there, or it is not.
///
/// Its transaction has locked the task's row before it was let go on to its commit. So whoever gets that
/// row sees it decided, one way or the other.
///
/// That may be long after. If the lease is over by then, the task is others' to go on with: nobody here may
/// act on what was committed as if he still held it.
async fn look_up(core: &Core, turn: &Turn, lane: i16) -> Result<bool> {
    let limit = Instant::now() + core.options.patience;
    loop {
        match look(core, turn, lane).await {
            Ok(Some((true, false))) => {
                let text = "a transaction was committed, and then this process was taken for dead";
                return Err(Error::Unknown(text.into()));
            }
            Ok(Some((committed, _))) => return Ok(committed),
            Ok(None) => {
                let text =
                    "a transaction's connection was lost during its commit, and its task is gone";
                return Err(Error::Unknown(text.into()));
            }
            Err(why) if Instant::now() >= limit => {
                let text = format!("a transaction's connection was lost during its commit: {why}");
                return Err(Error::Unknown(text));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Whether the event of the turn is recorded, and whether the task is still held; `None` if it is gone.
///
/// It writes, if only what is there, and commits: so it waits for a synchronous standby, should the commit
/// that was lost not have done so to its end. Then what it has seen is there as well.
async fn look(
    core: &Core,
    turn: &Turn,
    lane: i16,
) -> std::result::Result<Option<(bool, bool)>, String> {
    const WRITE: &str = "UPDATE writer SET batch = batch WHERE desk = $1 AND lane = $2";
    const LOCK: &str = concat!(
        "SELECT t.epoch = $2 AND EXISTS (SELECT FROM desk d WHERE d.n = t.desk AND ",
        alive!(),
        ") FROM task t WHERE t.key = $1 FOR UPDATE OF t"
    );
    const EVENT: &str = "SELECT body FROM event WHERE task = $1 AND seq = $2";
    let conn = Conn::open(&core.address, &core.options).await.map_err(|e| e.to_string())?;
    let (key, epoch) = (turn.lease.key.0, turn.lease.epoch);
    let seq = i64::try_from(turn.first).unwrap_or(i64::MAX);
    let found = async {
        conn.run("BEGIN").await?;
        let task = conn.first(LOCK, &[&key, &epoch]).await?;
        let event = conn.first(EVENT, &[&key, &seq]).await?;
        conn.query(WRITE, &[&core.desk(), &lane]).await?;
        conn.run("COMMIT").await?;
        let body = match event {
            Some(row) => Some(row.try_get::<_, Vec<u8>>(0)?),
            None => None,
        };
        let held = match task {
            Some(row) => Some(row.try_get::<_, bool>(0)?),
            None => None,
        };
        Ok(held.map(|held| (body.as_ref() == turn.events.first(), held)))
    };
    found.await.map_err(|e: tokio_postgres::Error| cause(&e))
}
