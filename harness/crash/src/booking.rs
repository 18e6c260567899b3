//! Payments that are booked in the same transaction as their step, and what must be there after a crash.

use std::sync::Arc;

use steadfast_core::{Event, Record};
use steadfast_engine::{Builder, CallError, Context, Error, Result, TaskId, TaskInfo, Tasks, Tool};
use steadfast_postgres::{
    in_postgres,
    tokio_postgres::{self, NoTls},
};
use steadfast_sqlite::{Transaction, in_sqlite, rusqlite};
use steadfast_store::{Filter, Order, Store};

use crate::{Ledger, Place};

/// Where to die inside of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Before its first statement.
    BeforeSql,
    /// Behind its last.
    AfterSql,
}

/// The transactions, in their order.
pub const BOOKED: [&str; 2] = ["book", "settle"];

/// Dies in the first transaction that comes by.
#[derive(Clone)]
struct Hazard(Option<Stop>, String);

impl Hazard {
    fn pass(&self, stop: Stop, name: &str) {
        if self.0 == Some(stop) && self.1 == name {
            std::process::abort();
        }
    }
}

/// The author's table: in a file it is made when it is first used, in a database the test makes it.
fn table(place: &Place) -> String {
    format!("payment_{}", place.schema.as_deref().unwrap_or("of_ours"))
}

async fn transaction(
    ctx: &Context,
    place: &Place,
    hazard: &Hazard,
    name: &'static str,
) -> Result<i64> {
    let (table, hazard) = (table(place), hazard.clone());
    let insert = format!("INSERT INTO {table} (name) VALUES");
    if place.schema.is_none() {
        let make =
            format!("CREATE TABLE IF NOT EXISTS {table} (id INTEGER PRIMARY KEY, name TEXT)");
        let work = in_sqlite(move |tx: &Transaction<'_>| {
            hazard.pass(Stop::BeforeSql, name);
            tx.execute_batch(&make)?;
            tx.execute(&format!("{insert} (?)"), [name])?;
            hazard.pass(Stop::AfterSql, name);
            Ok::<_, Error>(tx.last_insert_rowid())
        });
        return ctx.transaction(name, work).await;
    }
    let (hazard, insert) = (&hazard, &format!("{insert} ($1) RETURNING id"));
    let work = in_postgres(|tx| async move {
        hazard.pass(Stop::BeforeSql, name);
        let id = tx.query_one(insert, &[&name]).await?.get(0);
        hazard.pass(Stop::AfterSql, name);
        Ok::<_, Error>(id)
    });
    ctx.transaction(name, work).await
}

async fn booking(ctx: Context, ledger: Ledger, place: Arc<Place>, hazard: Hazard) -> Result<i64> {
    let note = |step: &'static str| {
        let ledger = ledger.clone();
        move || {
            ledger.effect("booking", step);
            async { Ok::<_, Error>(()) }
        }
    };
    ctx.step("before", note("before")).await?;
    let mut sum = 0;
    for name in BOOKED {
        sum += transaction(&ctx, &place, &hazard, name).await?;
    }
    ctx.step("after", note("after")).await?;
    Ok(sum)
}

/// Registers the tool. If it is to, the process dies in one of the transactions.
pub fn tools(
    builder: Builder,
    ledger: &Ledger,
    place: &Place,
    stop: Option<(Stop, String)>,
) -> Builder {
    let (ledger, place) = (ledger.clone(), Arc::new(place.clone()));
    let (stop, name) = stop.map_or((None, String::new()), |(stop, name)| (Some(stop), name));
    let hazard = Hazard(stop, name);
    builder.tool(Tool::new("booking", move |ctx: Context, (): ()| {
        booking(ctx, ledger.clone(), place.clone(), hazard.clone())
    }))
}

/// Starts the task, unless an earlier life did, and waits for its end.
pub async fn play(tasks: &Tasks) -> std::result::Result<TaskInfo, CallError> {
    let id = TaskId::new("booking")?;
    match tasks.start("booking", &()).id(id.clone()).await {
        Ok(_) | Err(CallError::Exists(_)) => {}
        Err(error) => return Err(error),
    }
    tasks.wait(&id).await
}

/// Which transactions are recorded, in their order.
pub async fn recorded(store: &dyn Store) -> steadfast_store::Result<Vec<String>> {
    let mut names = Vec::new();
    let page = store.list(Filter::default(), Order::OldestFirst, None, 9).await?;
    for row in page.tasks {
        for (seq, body) in store.history(row.key, Order::OldestFirst, None, 999).await?.events {
            let decoded = steadfast_core::decode(seq, &body);
            let Ok(Record { event: Event::StepCompleted { name, .. }, .. }) = decoded else {
                continue;
            };
            names.extend(BOOKED.contains(&name.as_str()).then_some(name));
        }
    }
    Ok(names)
}

/// Which transactions have left a row, in their order.
pub async fn rows(place: &Place) -> std::result::Result<Vec<String>, Box<dyn std::error::Error>> {
    let sql = format!("SELECT name FROM {} ORDER BY id", table(place));
    if place.schema.is_none() {
        let file = rusqlite::Connection::open(&place.store)?;
        let Ok(mut all) = file.prepare(&sql) else { return Ok(Vec::new()) };
        return Ok(all.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?);
    }
    let client = client(place).await?;
    Ok(client.query(&sql, &[]).await?.iter().map(|row| row.get(0)).collect())
}

async fn client(
    place: &Place,
) -> std::result::Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, wire) = tokio_postgres::connect(&place.store, NoTls).await?;
    tokio::spawn(wire);
    Ok(client)
}

/// Makes the table in a database.
pub async fn make_table(place: &Place) -> std::result::Result<(), tokio_postgres::Error> {
    let sql = format!("CREATE TABLE {} (id bigserial PRIMARY KEY, name text)", table(place));
    client(place).await?.batch_execute(&sql).await
}
