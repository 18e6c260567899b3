//! SQL of an author's, committed together with the turn that records it.
//!
//! It runs on a connection of its own (`pool`), by a handle that can't end the transaction (`handle`),
//! before the turn is there (`open`); then the turn is written in the same transaction and committed (`commit`).
//! What is the store's is locked in that last moment only: who sends the task a message, or commits
//! other tasks of this process, does not wait for the author's code. That the task is still held here is
//! checked there as well, under the lock; if it is not, all is rolled back.

mod commit;
mod handle;
mod open;
mod pool;
mod words;

use std::{ops::Range, time::Duration};

use steadfast_store::{BoxFuture, Error, Judge, Overruled, Parcel, Prepared, Result, Work};

pub use self::handle::{SqlError, Transaction};
use self::open::{Finish, Open};
pub(crate) use self::{commit::turn_with, pool::Pool};
use crate::Options;

pub(crate) const KIND: &str = "PostgreSQL";

/// How long a transaction may take, unless it is set.
const LIMIT: Duration = Duration::from_secs(5);

/// The numbers of the transactions of this process, among those of its writers.
pub(crate) fn lanes(options: &Options) -> Range<i16> {
    let most = i16::try_from(options.transactions).unwrap_or(1);
    4..4 + most
}

/// How far transactions are kept from each other, as PostgreSQL has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    #[default]
    ReadCommitted,
    /// All statements see the same moment. Who changes what another has changed since is rolled back,
    /// and done again.
    RepeatableRead,
    /// As if all were done one after the other. Who can't be is rolled back, and done again.
    Serializable,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    isolation: Isolation,
    limit: Duration,
}

/// SQL for tables of yours in the same PostgreSQL database, to be committed together with a step: for
/// `ctx.transaction`.
///
/// The closure gets a [`Transaction`] and returns a future: `|tx| async move { … }`. It may borrow. It may
/// run more than once, each time after the last was rolled back: after a crash, and up to ten times if
/// PostgreSQL can't put it in line with others (a serialization failure or a deadlock).
///
/// ```
/// # use steadfast_engine::{Context, Error, Result};
/// use steadfast_postgres::in_postgres;
/// # async fn tool(ctx: Context, cents: i64) -> Result<i64> {
/// let book = in_postgres(|tx| async move {
///     let sql = "INSERT INTO payment (cents) VALUES ($1) RETURNING id";
///     Ok::<i64, Error>(tx.query_one(sql, &[&cents]).await?.get(0))
/// });
/// let id = ctx.transaction("book the payment", book).await?;
/// # Ok(id) }
/// ```
///
/// Name your tables as you would on a connection of your own: the schema of the store is not in the
/// search path. Leave that schema alone; only a role of your own for the store would keep you out of it.
/// What you set, a role among it, holds for your own statements. What the record can't be written after
/// (`SET TRANSACTION READ ONLY`) fails the step for good, and so does a statement that is still under way when
/// the closure returns.
pub fn in_postgres<'a, F, Fut>(mut code: F) -> InPostgres<'a, Fut::Output>
where
    F: FnMut(Transaction) -> Fut + Send + 'a,
    Fut: Future + Send + 'a,
{
    InPostgres {
        code: Box::new(move |tx| Box::pin(code(tx))),
        how: How { isolation: Isolation::default(), limit: LIMIT },
    }
}

type Code<'a, T> = Box<dyn FnMut(Transaction) -> BoxFuture<'a, T> + Send + 'a>;

/// What [`in_postgres`] makes.
pub struct InPostgres<'a, T> {
    code: Code<'a, T>,
    how: How,
}

impl<T> InPostgres<'_, T> {
    /// How far it is kept from others; [`Isolation::ReadCommitted`] unless it is set.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.how.isolation = isolation;
        self
    }

    /// How long it may take in all, and each statement; five seconds unless it is set. After that it is
    /// rolled back, and fails. With another isolation than read committed it must be shorter than the
    /// [lease](Options::lease), or what takes longer than that is never committed.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.how.limit = limit.max(Duration::from_millis(1));
        self
    }
}

impl<T: Send + 'static> Work for InPostgres<'_, T> {
    type Output = T;

    fn prepare<'w>(
        &'w mut self,
        store: &'w dyn steadfast_store::Store,
        mut judge: Box<dyn Judge<T>>,
    ) -> BoxFuture<'w, Prepared> {
        Box::pin(async move {
            let kind = store.kind();
            if kind != KIND {
                return Prepared::Unsupported(format!(
                    "in_postgres is for PostgreSQL, and this is {kind}: open the server on a database, \
                     or use in_sqlite on a SQLite file"
                ));
            }
            let mut open = match store.begin(Box::new(self.how)).await.map(Parcel::downcast::<Open>)
            {
                Ok(Ok(open)) => *open,
                Ok(Err(_)) => return Prepared::Failed(Error::Corrupt("no transaction".into())),
                Err(error) => return Prepared::Failed(error),
            };
            let limit = self.how.limit;
            let ended = tokio::time::timeout(limit, (self.code)(open.handle())).await;
            let said = open.end();
            let Ok(output) = ended else {
                // A statement of it may still be under way.
                open.suspect();
                let text = format!("it took longer than {limit:?}");
                judge.overrule(Overruled::TimedOut(text));
                return Prepared::Rejected;
            };
            if let Some(why) = said.overtaken {
                return Prepared::Overtaken(why);
            }
            if let Some(why) = said.lost {
                return Prepared::Failed(Error::Unavailable(why));
            }
            if said.late {
                let text = format!("a statement took longer than {limit:?}");
                judge.overrule(Overruled::TimedOut(text));
                return Prepared::Rejected;
            }
            if !open.is_alone() {
                let text =
                    "a statement of it was still under way when it returned: await each of them";
                judge.overrule(Overruled::Broken(text.into()));
                return Prepared::Rejected;
            }
            let Some(event) = judge.run(Box::new(move || output)) else {
                return Prepared::Rejected;
            };
            match open.finish().await {
                Ok(()) => {
                    let overrule = Box::new(move |why| judge.overrule(why));
                    Prepared::Ready(Box::new(Ready { open, event, overrule }))
                }
                Err(Finish::Overtaken(why)) => Prepared::Overtaken(why),
                Err(Finish::Lost(why)) => Prepared::Failed(Error::Unavailable(why)),
                Err(Finish::Overruled(why)) => {
                    judge.overrule(why);
                    Prepared::Rejected
                }
            }
        })
    }
}

/// What an author's code did, to be committed with this event.
pub(crate) struct Ready {
    open: Open,
    event: Vec<u8>,
    /// For what only the commit brings to light.
    overrule: Box<dyn FnOnce(Overruled) + Send>,
}

/// Begins a transaction for code of an author's.
pub(crate) async fn begin(pool: &std::sync::Arc<Pool>, how: Parcel) -> Result<Parcel> {
    let Ok(how) = how.downcast::<How>() else {
        return Err(Error::Corrupt("this work is not for PostgreSQL".into()));
    };
    let open: Parcel = Box::new(pool.open(*how).await?);
    Ok(open)
}
