//! Many tasks with transactions, for kills at random: each leaves its rows once, whatever died when.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use steadfast_engine::{
    Builder, CallError, Context, Error, Result, Retry, TaskId, TaskInfo, Tasks, Tool, join,
};
use steadfast_postgres::{
    Isolation, in_postgres,
    tokio_postgres::{self, NoTls},
};
use steadfast_sqlite::{in_sqlite, rusqlite};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    Entry, Ledger, Place,
    driver::{note_end, until},
};

type Failure = Box<dyn std::error::Error>;

/// The transactions of a task.
const BOTH: [&str; 2] = ["book", "settle"];

/// The author's table of payments; beside it is one with a row that all of them add to.
fn table(place: &Place) -> String {
    format!("payment_of_many_{}", place.schema.as_deref().unwrap_or("in_file"))
}

/// The statements that make both tables, unless they are there.
fn make(place: &Place) -> String {
    let table = table(place);
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (task TEXT, name TEXT);
         CREATE TABLE IF NOT EXISTS {table}_count (id INTEGER PRIMARY KEY, n INTEGER);
         INSERT INTO {table}_count VALUES (1, 0) ON CONFLICT DO NOTHING"
    )
}

async fn client(place: &Place) -> std::result::Result<tokio_postgres::Client, Failure> {
    let (client, wire) = tokio_postgres::connect(&place.store, NoTls).await?;
    tokio::spawn(wire);
    Ok(client)
}

/// Makes the tables, if others have not.
pub async fn make_tables(place: &Place) -> std::result::Result<(), Failure> {
    match place.schema {
        // Those who begin at the same time are in each other's way.
        Some(_) => {
            let sql = format!("SELECT pg_advisory_xact_lock(1); {}", make(place));
            client(place).await?.batch_execute(&sql).await?;
        }
        None => {
            let file = rusqlite::Connection::open(&place.store)?;
            file.busy_timeout(Duration::from_secs(10))?;
            file.execute_batch(&make(place))?;
        }
    }
    Ok(())
}

/// One row, and one more in the count.
async fn transaction(ctx: &Context, place: &Place, name: &'static str) -> Result<()> {
    let (table, task) = (table(place), ctx.task_id().to_string());
    let count = format!("UPDATE {table}_count SET n = n + 1");
    // Its time may be over while the database is away, or others that have died hold the row.
    let again = Retry::forever().first_delay(Duration::from_millis(20));
    if place.schema.is_none() {
        let work = in_sqlite(move |tx| {
            tx.execute(&format!("INSERT INTO {table} VALUES (?, ?)"), (&task, name))?;
            if name == "book" {
                tx.execute(&count, ())?;
            }
            Ok::<_, Error>(())
        });
        return ctx.transaction(name, work).retry(again).await;
    }
    let (insert, count, task) = (&format!("INSERT INTO {table} VALUES ($1, $2)"), &count, &task);
    let work = in_postgres(|tx| async move {
        tx.execute(insert, &[task, &name]).await?;
        if name == "book" {
            tx.execute(count, &[]).await?;
        }
        Ok::<_, Error>(())
    });
    let isolation = match name {
        "book" => Isolation::ReadCommitted,
        _ => Isolation::RepeatableRead,
    };
    ctx.transaction(name, work.isolation(isolation)).retry(again).await
}

async fn pay(ctx: Context, ledger: Ledger, place: Arc<Place>) -> Result<String> {
    let step = |name: &'static str| {
        let (ledger, task) = (ledger.clone(), ctx.task_id().to_string());
        ctx.step(name, move || {
            ledger.effect(&task, name);
            async { Ok::<_, Error>(()) }
        })
    };
    step("s1").await?;
    transaction(&ctx, &place, BOTH[0]).await?;
    // The one may be committed while the other is under way.
    let (settled, beside) = join(transaction(&ctx, &place, BOTH[1]), step("s2")).await;
    settled.and(beside)?;
    step("s3").await?;
    Ok("paid".into())
}

/// Registers the tool.
pub fn tools(builder: Builder, ledger: &Ledger, place: &Place) -> Builder {
    let (ledger, place) = (ledger.clone(), Arc::new(place.clone()));
    builder
        .tool(Tool::new("pay", move |ctx: Context, (): ()| pay(ctx, ledger.clone(), place.clone())))
}

/// Drives so many tasks to their end, but for those that have ended in an earlier life.
pub async fn drive(tasks: &Tasks, ledger: &Ledger, many: u64, ended: &BTreeSet<String>) {
    let places = Arc::new(Semaphore::new(8));
    let mut all = JoinSet::new();
    for id in (0..many).map(|i| format!("p{i}")).filter(|id| !ended.contains(id)) {
        let (tasks, ledger, places) = (tasks.clone(), ledger.clone(), places.clone());
        all.spawn(async move {
            let _place = places.acquire_owned().await;
            one(&tasks, &ledger, TaskId::new(id).expect("it is well-formed")).await;
        });
    }
    while let Some(done) = all.join_next().await {
        done.expect("a driver panicked");
    }
}

async fn one(tasks: &Tasks, ledger: &Ledger, id: TaskId) {
    match until(|| async { tasks.start("pay", &()).id(id.clone()).await }).await {
        Ok(_) | Err(CallError::Exists(_)) => ledger.note("started", id.as_str(), ""),
        Err(error) => panic!("{id} can't be started: {error}"),
    }
    match until(|| tasks.wait_for(&id, |info: &TaskInfo| info.status.is_terminal())).await {
        Ok(info) => note_end(ledger, &info),
        Err(error) => ledger.note("vanished", id.as_str(), &error.to_string()),
    }
}

/// What is wrong with the ends of these tasks and with their rows; nothing if all is well.
pub async fn check(
    place: &Place,
    entries: &[Entry],
    many: u64,
) -> std::result::Result<Vec<String>, Failure> {
    let mut wrong = Vec::new();
    let mut expected = BTreeMap::new();
    for id in (0..many).map(|i| format!("p{i}")) {
        let of = entries.iter().filter(|entry| entry.task == id && entry.what != "effect");
        let ends: BTreeSet<_> = of.filter(|e| e.what != "started").map(|e| &*e.detail).collect();
        if ends != BTreeSet::from(["completed \"paid\""]) {
            wrong.push(format!("{id} ended as {ends:?}"));
        }
        expected.extend(BOTH.map(|name| ((id.clone(), name.to_owned()), 1)));
    }
    let (rows, count) = rows(place).await?;
    let mut found = BTreeMap::new();
    for row in rows {
        *found.entry(row).or_insert(0) += 1;
    }
    let of = |rows: &BTreeMap<_, i32>, row: &(String, String)| rows.get(row).copied().unwrap_or(0);
    for row in found.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
        let (is, should) = (of(&found, row), of(&expected, row));
        if is != should {
            wrong.push(format!("{}: {} left {is} rows, not {should}", row.0, row.1));
        }
    }
    if u64::try_from(count).ok() != Some(many) {
        wrong.push(format!("{many} payments were booked, and the count of them is {count}"));
    }
    Ok(wrong)
}

type Rows = Vec<(String, String)>;

async fn rows(place: &Place) -> std::result::Result<(Rows, i64), Failure> {
    let table = table(place);
    let (all, count) =
        (format!("SELECT task, name FROM {table}"), format!("SELECT n FROM {table}_count"));
    if place.schema.is_none() {
        let file = rusqlite::Connection::open(&place.store)?;
        let mut all = file.prepare(&all)?;
        let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let rows = all.query_map([], pair)?.collect::<rusqlite::Result<_>>()?;
        return Ok((rows, file.query_row(&count, [], |row| row.get(0))?));
    }
    let client = client(place).await?;
    let rows = client.query(&all, &[]).await?;
    let count: i32 = client.query_one(&count, &[]).await?.get(0);
    Ok((rows.iter().map(|row| (row.get(0), row.get(1))).collect(), count.into()))
}
