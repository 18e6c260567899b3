//! Transactions: steps that are recorded in the same transaction of the store as the author's own rows.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{Call, Failure, FailureKind, Mode, OpId, Record, Retry, StepGrant, Undo};
use steadfast_store::{Judge, Overruled, Parcel, Prepared, Store, Work};

use super::{
    Context, Shared,
    op::{Next, Op},
    outcome,
    step::Inside,
};
use crate::{Error, Result, limits, panic, registry::payload};

/// So often a transaction is done again because others were in the way, before it counts as failed.
const MOST_OVERTAKEN: u32 = 10;
/// Code that a store's only writer waits for should not take longer than this.
const SLOW: Duration = Duration::from_millis(100);
/// How long to wait for a store that is not available.
const UNAVAILABLE: Duration = Duration::from_millis(200);

/// A transaction that is about to be awaited.
#[must_use = "a transaction does nothing unless it is awaited"]
pub struct Transaction<'a, W> {
    shared: Arc<Shared>,
    name: String,
    work: W,
    retry: Option<Retry>,
    undo: Option<Result<Undo>>,
    lives: PhantomData<&'a ()>,
}

impl Context {
    /// Does SQL of your own in the very transaction of the store that records the step: **exactly
    /// once**. Your rows and the record are committed together or not at all, whatever dies when.
    ///
    /// The work is made by the store's crate, since each has its own handle: `in_sqlite` for tables in
    /// the same SQLite file, `in_postgres` for tables in the same database. On another store than that
    /// it fails, and the error says what to do; the store in memory has no transactions.
    ///
    /// ```text
    /// let id: i64 = ctx
    ///     .transaction("book the payment", in_sqlite(move |tx| {
    ///         tx.execute("INSERT INTO payment (task, cents) VALUES (?, ?)", (&task, cents))?;
    ///         Ok::<_, Error>(tx.last_insert_rowid())
    ///     }))
    ///     .await?;
    /// ```
    ///
    /// An error, or a panic, rolls back what the closure did and nothing else, and is recorded as that of
    /// a [`step`](Context::step) is; with [`retry`](Transaction::retry) it is tried again. The closure may
    /// run more than once (after a crash, or if somebody else was in the way), each time after the last
    /// was rolled back: so let it do SQL and nothing else. In a history it is a step like others: a task
    /// under way finds its record also if the code had a step of the same name there before.
    ///
    /// Effect validation does not run it twice: a crash that could make it run again takes its rows back.
    pub fn transaction<'a, W, T, E>(&self, name: impl Into<String>, work: W) -> Transaction<'a, W>
    where
        W: Work<Output = Result<T, E>>,
    {
        Transaction {
            shared: self.shared.clone(),
            name: name.into(),
            work,
            retry: None,
            undo: None,
            lives: PhantomData,
        }
    }
}

impl<W> Transaction<'_, W> {
    /// Tries again by this policy if it fails. The delays are durable.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// How to take it back, as for a [`step`](super::Step::undo): a registered function and its input,
    /// recorded before the transaction begins. It also runs if the transaction failed, and then finds
    /// nothing to take back.
    pub fn undo<I: Serialize + ?Sized>(mut self, function: impl Into<String>, input: &I) -> Self {
        let most = self.shared.core.settings.max_payload;
        let function = function.into();
        let input = payload("the input of the undo function", input, most);
        let named = limits::name("the name of the undo function", &function).map_err(Error::from);
        self.undo = Some(named.and(input).map(|input| Undo { function, input }));
        self
    }
}

impl<'a, W, T, E> IntoFuture for Transaction<'a, W>
where
    W: Work<Output = Result<T, E>> + 'a,
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Into<Error> + 'static,
{
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Transaction { shared, name, mut work, retry, undo, .. } = self;
        let named = limits::name("the transaction's name", &name).map_err(Error::from);
        let undo = match named.and_then(|()| undo.transpose()) {
            Ok(undo) => undo,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let call = Call::Step { name: name.clone(), mode: Mode::AtLeastOnce, retry, undo };
        let mut op = Op::new(&shared, call);
        let mut run =
            Run { held: Held(shared, op.id), name, verdict: Verdict::default(), overtaken: None };
        Box::pin(async move {
            loop {
                match op.next().await {
                    Next::Ready(recorded) => return outcome(recorded),
                    Next::Run(grant) => {
                        if let Err(failure) = run.attempt(&mut work, grant).await {
                            let (shared, op) = (&run.held.0, run.held.1);
                            shared.machine().step_ended(op, Err(failure), shared.now());
                        }
                    }
                }
            }
        })
    }
}

/// What is to be committed together with the end of a transaction.
pub(crate) struct Joint {
    pub(crate) parcel: Parcel,
    pub(crate) verdict: Verdict,
}

/// What became of the author's code, wherever it was run.
#[derive(Clone, Default)]
pub(crate) struct Verdict(Arc<Mutex<Came>>);

#[derive(Default)]
pub(crate) enum Came {
    #[default]
    Nowhere,
    /// It succeeded, and this is to be recorded.
    Done(Record),
    /// It failed, and was rolled back.
    Failed(Failure),
    /// The store was not available.
    Delayed,
}

impl Verdict {
    pub(crate) fn set(&self, came: Came) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = came;
    }

    pub(crate) fn take(&self) -> Came {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whose operation it is. What was not sent to the store when the code lets go of it is rolled back.
struct Held(Arc<Shared>, OpId);

impl Drop for Held {
    fn drop(&mut self) {
        let withdrawn = self.0.joints().remove(&self.1);
        drop(withdrawn);
    }
}

/// How far a transaction is.
struct Run {
    held: Held,
    name: String,
    verdict: Verdict,
    /// In which attempt others were in the way, how often, and how.
    overtaken: Option<(u32, u32, String)>,
}

impl Run {
    /// Makes an attempt. `Ok` means that the rest is up to the commit.
    async fn attempt<W, T, E>(
        &mut self,
        work: &mut W,
        grant: StepGrant,
    ) -> std::result::Result<(), Failure>
    where
        W: Work<Output = Result<T, E>>,
        T: Serialize + 'static,
        E: Into<Error> + 'static,
    {
        match self.verdict.take() {
            // The store ran it, and refused the turn.
            Came::Failed(failure) => return Err(failure),
            Came::Done(_) => self.was_overtaken(grant, "another transaction came first".into()),
            Came::Nowhere | Came::Delayed => {}
        }
        loop {
            self.make_way(grant).await?;
            let (shared, op) = (&self.held.0, self.held.1);
            let judge = Box::new(Bench {
                shared: shared.clone(),
                op,
                name: self.name.clone(),
                verdict: self.verdict.clone(),
                kind: PhantomData,
            });
            match prepare(shared, &self.name, work, judge, grant).await? {
                Prepared::Ready(parcel) => {
                    let joint = Joint { parcel, verdict: self.verdict.clone() };
                    shared.joints().insert(op, joint);
                    shared.machine().step_joins(op, shared.now());
                    return Ok(());
                }
                Prepared::Rejected => {
                    return Err(match self.verdict.take() {
                        Came::Failed(failure) => failure,
                        _ => Failure::new(FailureKind::Error, "the transaction was rolled back"),
                    });
                }
                Prepared::Overtaken(why) => self.was_overtaken(grant, why),
                Prepared::Failed(steadfast_store::Error::Corrupt(why)) => {
                    return Err(Failure::new(FailureKind::Error, why));
                }
                Prepared::Failed(error) => {
                    tracing::warn!(task = %shared.id, %error, "no transaction now; trying again");
                    tokio::time::sleep(UNAVAILABLE).await;
                }
                Prepared::Unsupported(text) => {
                    let failure = Failure::new(FailureKind::Usage, text).permanently();
                    return Err(Failure { code: Some("wrong_store".into()), ..failure });
                }
            }
        }
    }

    fn was_overtaken(&mut self, grant: StepGrant, why: String) {
        let before = self.overtaken.take().filter(|(attempt, ..)| *attempt == grant.attempt);
        let times = before.map_or(0, |(_, times, _)| times) + 1;
        self.overtaken = Some((grant.attempt, times, why));
    }

    /// Those that were in each other's way don't meet again, or only so often.
    async fn make_way(&self, grant: StepGrant) -> std::result::Result<(), Failure> {
        let Some((attempt, times, why)) = &self.overtaken else { return Ok(()) };
        if *attempt != grant.attempt {
            return Ok(());
        }
        if *times > MOST_OVERTAKEN {
            let message = format!(
                "the transaction {:?} was rolled back {times} times because others were in its way, \
                 the last time: {why}",
                self.name
            );
            let failure = Failure::new(FailureKind::Error, limits::clip(message));
            return Err(Failure { code: Some("overtaken".into()), ..failure });
        }
        let longest = 1u64 << (*times).min(9);
        let chance = (self.held.0.core.world.random() as u64) % longest;
        tokio::time::sleep(Duration::from_millis(longest + chance)).await;
        Ok(())
    }
}

/// Lets the work be prepared as a step's closure is run: durable operations in it are noticed, and its
/// time is limited if the retry policy says so.
async fn prepare<W: Work>(
    shared: &Shared,
    name: &str,
    work: &mut W,
    judge: Box<dyn Judge<W::Output>>,
    grant: StepGrant,
) -> std::result::Result<Prepared, Failure> {
    let store: &dyn Store = &*shared.core.store;
    let caught = panic::caught("the transaction", work.prepare(store, judge));
    let prepared = Inside { shared, name, muted: false, future: Box::pin(caught) };
    match grant.timeout {
        None => prepared.await,
        Some(limit) => tokio::time::timeout(limit, prepared).await.unwrap_or_else(|_| {
            let message = format!("the transaction {name:?} took longer than {limit:?}");
            Err(Failure::new(FailureKind::TimedOut, message))
        }),
    }
}

/// Decides what the code came to, wherever it is run: perhaps on a thread of the store's, while the
/// task itself is not polled.
struct Bench<T, E> {
    shared: Arc<Shared>,
    op: OpId,
    name: String,
    verdict: Verdict,
    kind: PhantomData<fn() -> (T, E)>,
}

impl<T: Serialize, E: Into<Error>> Judge<Result<T, E>> for Bench<T, E> {
    fn run(&mut self, code: Box<dyn FnOnce() -> Result<T, E> + '_>) -> Option<Vec<u8>> {
        let (shared, name) = (&self.shared, &self.name);
        let begun = Instant::now();
        let outer = shared.machine().enter_step(Some(name.clone()));
        let ended = panic::guard("the transaction", code);
        shared.machine().enter_step(outer);
        let took = begun.elapsed();
        if took > SLOW {
            tracing::warn!(
                task = %shared.id, name, milliseconds = took.as_millis(),
                "a transaction was slow, and the store's only writer waited for it"
            );
        }
        let most = shared.core.settings.max_payload;
        let result = match ended {
            Ok(Ok(value)) => {
                payload(format_args!("the result of the transaction {name:?}"), &value, most)
                    .map_err(|error| error.recorded_within(most))
            }
            Ok(Err(error)) => Err(error.into().recorded_within(most)),
            Err(panicked) => Err(panicked),
        };
        match result {
            Ok(result) => {
                let (op, now) = (self.op, shared.now());
                let record = shared.machine().joined(op, name.clone(), result, now);
                let line = steadfast_core::encode(&record);
                self.verdict.set(Came::Done(record));
                Some(line)
            }
            Err(failure) => {
                self.verdict.set(Came::Failed(failure));
                None
            }
        }
    }

    fn overrule(&mut self, why: Overruled) {
        let name = &self.name;
        let failure = |kind, text: String| {
            Failure::new(kind, limits::clip(format!("the transaction {name:?}: {text}")))
        };
        self.verdict.set(Came::Failed(match why {
            Overruled::TimedOut(text) => failure(FailureKind::TimedOut, text),
            Overruled::Failed(text) => failure(FailureKind::Error, text),
            Overruled::Broken(text) => failure(FailureKind::Usage, text).permanently(),
        }));
    }
}
