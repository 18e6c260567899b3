//! SQL of an author's, committed together with the turn that records it.
//!
//! It is run by the writer, in the transaction of the batch and in a savepoint of its own: rolled back
//! alone if it fails, committed with the others if not. SQLite rolls back a whole transaction for some
//! errors, such as a write that is stopped in the middle. Then the batch is lost, and done again without
//! it, as for any other command that fails.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::ffi;
use steadfast_core::OpId;
use steadfast_store::{
    BoxFuture, Error, Join, Judge, Overruled, Prepared, Refusal, Result, Turn, Turned, Work,
};

use crate::{Transaction, error::Fault, tx::Tx, write::Done, writer::Office};

pub(crate) const KIND: &str = "SQLite";

/// How long the SQL of one transaction may take, unless it is set.
const LIMIT: Duration = Duration::from_secs(1);

/// A transaction counts as this many bytes of its batch, so that 16 of them fill one: what waits behind
/// them should not wait for long.
const WEIGHT: usize = 256 << 10;

/// SQL for tables of yours in the same SQLite file, to be committed together with a step: for
/// `ctx.transaction`.
///
/// The closure is not async, and owns what it uses: it runs on the thread of the store's only writer,
/// which does nothing else until the closure returns. So let it do its SQL and no more. Its SQL is
/// stopped after a second, or [`limit`](InSqlite::limit); what it does besides is not, but is logged if
/// it was slow. It may run more than once, each time after the last was rolled back.
///
/// ```
/// # use steadfast_engine::{Context, Error, Result};
/// use steadfast_sqlite::in_sqlite;
/// # async fn tool(ctx: Context, cents: i64) -> Result<i64> {
/// let book = in_sqlite(move |tx| {
///     tx.execute("INSERT INTO shop_payment (cents) VALUES (?)", [cents])?;
///     Ok::<_, Error>(tx.last_insert_rowid())
/// });
/// let id = ctx.transaction("book the payment", book).await?;
/// # Ok(id) }
/// ```
///
/// Your tables are made as you like: by a program of yours, or by a closure with `CREATE TABLE IF NOT
/// EXISTS`. Give their names a prefix, so that they are never those of a table that a later version of the
/// store brings.
pub fn in_sqlite<F, T>(code: F) -> InSqlite<F>
where
    F: FnMut(&Transaction<'_>) -> T + Send + 'static,
    T: 'static,
{
    InSqlite { code: Arc::new(Mutex::new(code)), limit: LIMIT }
}

/// What [`in_sqlite`] makes.
pub struct InSqlite<F> {
    code: Arc<Mutex<F>>,
    limit: Duration,
}

impl<F> InSqlite<F> {
    /// Stops its SQL after this time; one second unless it is set. All that the store has to write waits
    /// meanwhile.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> InSqlite<F> {
        self.limit = limit;
        self
    }
}

impl<F, T> Work for InSqlite<F>
where
    F: FnMut(&Transaction<'_>) -> T + Send + 'static,
    T: 'static,
{
    type Output = T;

    fn prepare<'w>(
        &'w mut self,
        store: &'w dyn steadfast_store::Store,
        judge: Box<dyn Judge<T>>,
    ) -> BoxFuture<'w, Prepared> {
        let prepared = match store.kind() {
            KIND => {
                let code = Arc::clone(&self.code);
                let errand = Errand { code: Box::new(Code { code, judge }), limit: self.limit };
                Prepared::Ready(Box::new(errand))
            }
            kind => Prepared::Unsupported(format!(
                "in_sqlite is for a SQLite file, and this is {kind}: open the server on a file, or use \
                 in_postgres on PostgreSQL"
            )),
        };
        Box::pin(std::future::ready(prepared))
    }
}

/// A closure on its way to the writer.
struct Errand {
    code: Box<dyn Run>,
    limit: Duration,
}

trait Run: Send {
    /// Runs it: the event to append, or nothing if it failed.
    fn run(&mut self, tx: &Transaction<'_>) -> Option<Vec<u8>>;

    fn overrule(&mut self, why: Overruled);
}

struct Code<F, T> {
    code: Arc<Mutex<F>>,
    judge: Box<dyn Judge<T>>,
}

impl<F, T> Run for Code<F, T>
where
    F: FnMut(&Transaction<'_>) -> T + Send,
{
    fn run(&mut self, tx: &Transaction<'_>) -> Option<Vec<u8>> {
        let code = &self.code;
        // Poisoned by a panic of an attempt before, which concerns only itself.
        self.judge.run(Box::new(|| (code.lock().unwrap_or_else(PoisonError::into_inner))(tx)))
    }

    fn overrule(&mut self, why: Overruled) {
        self.judge.overrule(why);
    }
}

/// How far a closure is. The writer may come to it more than once.
struct Progress {
    errand: Errand,
    /// It failed for good: it is not run again.
    over: bool,
    /// It succeeded, and all of its turn was written: the rest is up to COMMIT.
    written: bool,
}

pub(crate) async fn turn_with(office: &Office, turn: Turn, join: Join) -> Result<Turned> {
    let op = join.op;
    let Ok(errand) = join.parcel.downcast::<Errand>() else {
        return Err(Error::Corrupt("this work is not for SQLite".into()));
    };
    let progress = Arc::new(Mutex::new(Progress { errand: *errand, over: false, written: false }));
    let shared = Arc::clone(&progress);
    let bytes = turn.bytes() + WEIGHT;
    let answer = office.call_slowly(bytes, move |tx| {
        tx.turn_with(&turn, op, &mut shared.lock().unwrap_or_else(PoisonError::into_inner))
    });
    let answer = answer.await;
    let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
    match answer {
        // The batch was undone with it, and perhaps it was all of the batch.
        Err(_) if progress.over => Err(Refusal::Guard(op).into()),
        // Of all there is only a constraint on an author's table that COMMIT refuses for.
        Err(Error::Corrupt(why)) if progress.written => {
            progress.errand.code.overrule(Overruled::Failed(why));
            Err(Refusal::Guard(op).into())
        }
        answer => answer,
    }
}

impl Tx<'_> {
    /// A turn that is checked first, with the event that it will have; then the work; then the turn.
    fn turn_with(&mut self, turn: &Turn, op: OpId, progress: &mut Progress) -> Done<Turned> {
        progress.written = false;
        let mut turn = Turn { events: vec![Vec::new()], ..turn.clone() };
        self.check(&turn)?;
        if progress.over {
            return Err(Refusal::Guard(op).into());
        }
        self.run("SAVEPOINT work", [])?;
        let Some(event) = self.work(progress)? else {
            self.run("ROLLBACK TO work", [])?;
            self.run("RELEASE work", [])?;
            return Err(Refusal::Guard(op).into());
        };
        turn.events = vec![event];
        let turned = match self.turn(&turn) {
            // It can't be, after the check: but then the rows must not stay without their record.
            Err(Fault::Refused(error)) => {
                self.run("ROLLBACK TO work", [])?;
                self.run("RELEASE work", [])?;
                return Err(Fault::Refused(error));
            }
            turned => turned?,
        };
        self.run("RELEASE work", [])?;
        progress.written = true;
        Ok(turned)
    }

    /// Runs the closure. The event to append, or nothing if it failed.
    fn work(&mut self, progress: &mut Progress) -> Done<Option<Vec<u8>>> {
        let (conn, rails) = (self.statements.conn, self.rails);
        let errand = &mut progress.errand;
        rails.enter(errand.limit);
        // Its statements are gone before what it did can be rolled back.
        let event = errand.code.run(&Transaction::new(conn, rails));
        let ran = rails.leave();
        if let Some(trouble) = ran.trouble {
            return Err(Fault::Sql(trouble));
        }
        let lost = conn.is_autocommit();
        match ran.late {
            Some(limit) => {
                let text = format!("its SQL took longer than {limit:?}, and was stopped");
                errand.code.overrule(Overruled::TimedOut(text));
            }
            None if lost => {
                let text = "it rolled back the transaction of the store, by OR ROLLBACK or \
                            RAISE(ROLLBACK): use OR ABORT or RAISE(ABORT), and return an error";
                errand.code.overrule(Overruled::Broken(text.into()));
            }
            None => return Ok(event),
        }
        progress.over = true;
        match lost {
            false => Ok(None),
            true => Err(Fault::Sql(rusqlite::Error::SqliteFailure(
                ffi::Error::new(ffi::SQLITE_ABORT),
                Some("the batch was rolled back by a transaction in it".into()),
            ))),
        }
    }
}
