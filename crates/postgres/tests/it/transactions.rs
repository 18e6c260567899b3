//! SQL of an author's in the transaction that records it.

use std::{sync::Arc, time::Duration};

use steadfast_core::{Event, OpId};
use steadfast_engine::{
    Context, Engine, Order, Principal, Result, Settings, Status, TaskInfo, Tool,
};
use steadfast_postgres::{
    InPostgres, Options, Store, Transaction, testing,
    tokio_postgres::{Client, NoTls},
};
use steadfast_store::{
    Join, Judge, Lease, Overruled, Parcel, Prepared, Store as _, Turn, Turned, Work as _,
};

use crate::common::turn;

mod connection;
mod lease;
mod lost;
mod others;
mod pool;
mod rows;

/// A store of its own, and a table of an author's beside it.
struct Bank {
    options: Options,
    client: Client,
    table: String,
}

impl Bank {
    async fn open() -> Bank {
        Bank::on(testing::shared().unwrap()).await
    }

    async fn on(server: &testing::Server) -> Bank {
        let options = server.options();
        let (client, wire) =
            steadfast_postgres::tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(wire);
        // There may be a schema of the role's name, which would come first.
        let table = format!("public.payment_{}", options.schema_name());
        let sql = format!(
            "CREATE TABLE {table} (id bigserial PRIMARY KEY, cents bigint NOT NULL UNIQUE);
             CREATE TABLE {table}_of (cents bigint REFERENCES {table} (cents)
                DEFERRABLE INITIALLY DEFERRED)"
        );
        client.batch_execute(&sql).await.unwrap();
        Bank { options, client, table }
    }

    async fn paid(&self) -> Vec<i64> {
        let sql = format!("SELECT cents FROM {} ORDER BY id", self.table);
        self.client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    fn book(&self) -> Book {
        Book(format!("INSERT INTO {} (cents) VALUES ($1) RETURNING cents", self.table))
    }

    /// Runs one task to its end on a store that is opened for it.
    async fn run(&self, tool: Tool) -> (TaskInfo, Vec<Event>) {
        self.run_on(self.options.clone(), tool).await
    }

    async fn run_on(&self, options: Options, tool: Tool) -> (TaskInfo, Vec<Event>) {
        let engine = engine(options, tool).await;
        let tasks = engine.tasks(ada());
        let id = tasks.start("t", &()).await.unwrap().id;
        let ended = tokio::time::timeout(Duration::from_secs(40), tasks.wait(&id)).await;
        let ended = ended.expect("it hangs").unwrap();
        let page = engine.operator().history(&id, Order::OldestFirst, None, 1_000).await.unwrap();
        engine.shutdown(Duration::from_secs(5)).await;
        (ended, page.entries.into_iter().map(|entry| entry.event).collect())
    }
}

async fn engine(options: Options, tool: Tool) -> Engine {
    Engine::builder(Arc::new(options.open().await.unwrap()))
        .settings(Settings::default())
        .tool(tool)
        .start()
}

fn ada() -> Principal {
    Principal::new("ada").unwrap()
}

/// How to book a payment.
#[derive(Clone)]
struct Book(String);

impl Book {
    async fn pay(&self, tx: &Transaction, cents: i64) -> Result<i64> {
        Ok(tx.query_one(&self.0, &[&cents]).await?.get(0))
    }
}

/// A tool that shares something with its test.
fn tool<S, F, Fut, O>(shared: &S, function: F) -> Tool
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: serde::Serialize,
{
    let shared = shared.clone();
    Tool::new("t", move |ctx: Context, (): ()| function(shared.clone(), ctx))
}

fn output(info: &TaskInfo) -> String {
    assert_eq!(info.status, Status::Completed, "{info:?}");
    info.output.as_ref().unwrap().text().to_owned()
}

fn completed(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match event {
        Event::StepCompleted { name, result, .. } => Some(format!("{name} {}", result.text())),
        _ => None,
    };
    events.iter().filter_map(line).collect()
}

/// Takes all that does not fail.
struct Yes;

impl Judge<Result<i64>> for Yes {
    fn run(&mut self, code: Box<dyn FnOnce() -> Result<i64> + '_>) -> Option<Vec<u8>> {
        code().ok().map(|cents| format!("booked {cents}").into_bytes())
    }

    fn overrule(&mut self, why: Overruled) {
        panic!("{why:?}");
    }
}

/// Runs the code, so that it can be committed.
async fn ready(store: &Store, mut work: InPostgres<'_, Result<i64>>) -> Parcel {
    match work.prepare(store, Box::new(Yes)).await {
        Prepared::Ready(parcel) => parcel,
        Prepared::Failed(error) => panic!("{error}"),
        Prepared::Overtaken(why) => panic!("overtaken: {why}"),
        Prepared::Rejected | Prepared::Unsupported(_) => panic!("it was rejected"),
    }
}

/// Commits it as event `first` of its task.
async fn commit(
    store: &Store,
    lease: Lease,
    first: u64,
    parcel: Parcel,
) -> std::result::Result<Turned, steadfast_store::Error> {
    let turn = Turn { events: Vec::new(), ..turn(lease, first, "") };
    store.turn_with(turn, Join { op: OpId(7), parcel }).await
}

/// Waits until it is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
