//! Tasks with transactions are moved between two of them, to a store of the other kind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use steadfast_engine::{
    Builder, Context, Engine, Error, Event, Principal, Result, Status, TaskId, TaskInfo, Tasks,
    Tool,
};
use steadfast_postgres::in_postgres;
use steadfast_sqlite::{Transaction, in_sqlite};

use crate::home::{Home, Kind, move_away};

/// How often the closure of each transaction has run, over all lives.
#[derive(Clone, Default)]
struct Runs {
    book: Arc<AtomicU32>,
    settle: Arc<AtomicU32>,
}

impl Runs {
    fn seen(&self) -> [u32; 2] {
        [&self.book, &self.settle].map(|runs| runs.load(Ordering::SeqCst))
    }
}

/// Puts a number through the database, by code for a kind of store.
async fn transaction(
    ctx: &Context,
    code: Kind,
    name: &'static str,
    runs: &Arc<AtomicU32>,
    number: i64,
) -> Result<i64> {
    let runs = runs.clone();
    match code {
        Kind::Sqlite => {
            let work = in_sqlite(move |tx: &Transaction<'_>| {
                runs.fetch_add(1, Ordering::SeqCst);
                tx.execute_batch("CREATE TABLE IF NOT EXISTS payment (cents INTEGER)")?;
                tx.execute("INSERT INTO payment VALUES (?)", [number])?;
                Ok::<_, Error>(tx.query_row("SELECT sum(cents) FROM payment", [], |r| r.get(0))?)
            });
            ctx.transaction(name, work).await
        }
        Kind::Postgres => {
            let (runs, number) = (&runs, &number);
            let work = in_postgres(|tx| async move {
                runs.fetch_add(1, Ordering::SeqCst);
                Ok::<i64, Error>(tx.query_one("SELECT $1::bigint", &[number]).await?.get(0))
            });
            ctx.transaction(name, work).await
        }
    }
}

async fn pay(ctx: Context, code: Kind, runs: Runs) -> Result<(i64, i64)> {
    let booked = transaction(&ctx, code, "book", &runs.book, 40).await?;
    ctx.event::<()>("go").await?;
    Ok((booked, transaction(&ctx, code, "settle", &runs.settle, 2).await?))
}

/// A tool whose transactions are for this kind of store.
fn tool(builder: Builder, name: &str, code: Kind, runs: &Runs) -> Builder {
    let runs = runs.clone();
    builder.tool(Tool::new(name, move |ctx: Context, (): ()| pay(ctx, code, runs.clone())))
}

/// Starts a task of each tool, and waits until it has done its first transaction and no more.
async fn begin(tasks: &Tasks, names: [&str; 2]) -> [TaskId; 2] {
    let ids = names.map(|name| TaskId::new(name).unwrap());
    for (name, id) in names.into_iter().zip(&ids) {
        tasks.start(name, &()).id(id.clone()).await.unwrap();
        until(tasks, id, |info| info.status == Status::Waiting).await;
    }
    ids
}

async fn until(
    tasks: &Tasks,
    id: &TaskId,
    done: impl Fn(&TaskInfo) -> bool + Send + Sync,
) -> TaskInfo {
    let wait = tasks.wait_for(id, |info| done(info));
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap().unwrap()
}

async fn moved(from: Kind, to: Kind) {
    let (old, new) = (Home::new(from), Home::new(to));
    let [changed, left] = [Runs::default(), Runs::default()];
    let ada = || Principal::new("ada").unwrap();

    let handle = old.open().await;
    let builder = tool(Engine::builder(handle.store.clone()), "changed", from, &changed);
    let engine = tool(builder, "left", from, &left).start();
    let ids = begin(&engine.tasks(ada()), ["changed", "left"]).await;
    drop(engine);
    handle.kill();
    old.leases_run_out().await;
    let file = old.export(&move_away()).await.unwrap();
    new.import(&file).await.unwrap();

    // One tool has code for the new store now, the other has that for the old one still.
    let handle = new.open().await;
    let builder = tool(Engine::builder(handle.store.clone()), "changed", to, &changed);
    let engine = tool(builder, "left", from, &left).start();
    let tasks = engine.tasks(ada());
    for id in &ids {
        tasks.signal(id, Event::new("go", &())).await.unwrap();
    }
    let [done, failed] = [
        until(&tasks, &ids[0], |info| info.status.is_terminal()).await,
        until(&tasks, &ids[1], |info| info.status.is_terminal()).await,
    ];
    assert_eq!(done.status, Status::Completed, "{from:?} {:?}", done.failure);
    assert_eq!(done.output.unwrap().read::<(i64, i64)>().unwrap(), (40, 2), "{from:?}");
    assert_eq!(changed.seen(), [1, 1], "{from:?}: what was done is not done again");
    assert_eq!(failed.failure.unwrap().code.as_deref(), Some("wrong_store"), "{from:?}");
    assert_eq!(left.seen(), [1, 0], "{from:?}");
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_with_its_rows_is_not_run_again_after_a_move() {
    moved(Kind::Sqlite, Kind::Postgres).await;
    moved(Kind::Postgres, Kind::Sqlite).await;
}
