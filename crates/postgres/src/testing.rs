//! A PostgreSQL server of one's own, for tests and measurements.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = steadfast_postgres::testing::shared()?;
//! let store = server.options().open().await?;
//! # Ok(()) }
//! ```
//!
//! The server listens on a free loopback port, has a directory of its own, and is gone soon after
//! the process that started it, however that ends. For this a shell sits between them (see
//! `watchdog`) that waits for the end of a pipe whose other end only this process holds: the
//! operating system closes it also after `kill -9`. The alternative, `PR_SET_PDEATHSIG`, is tied to
//! the *thread* that started the child, which in a test is gone long before the process, and it
//! leaves the directory behind.

mod find;
mod pooler;
mod servant;
mod server;
mod statements;
mod watchdog;

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use steadfast_store::{Desk, Filter, Order};

pub use self::{
    pooler::Pooler,
    server::{Server, Setup, StartError},
    statements::statements,
};
use crate::{
    OpenError, Options,
    address::Address,
    conn::{Conn, Param},
    error::cause,
};

/// The server that the tests of this process share. It keeps its promises as long as the machine is
/// up, and no longer: nothing is flushed to the disk.
pub fn shared() -> Result<&'static Server, StartError> {
    static SHARED: Mutex<Option<&'static Server>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = *shared {
        return Ok(server);
    }
    let server: &'static Server = Box::leak(Box::new(Setup::default().start()?));
    *shared = Some(server);
    Ok(server)
}

/// A name that nothing else on a server of this process has.
pub(crate) fn fresh_name() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("test_{}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// The version of the tables that this code makes.
#[must_use]
pub fn schema_version() -> i64 {
    crate::schema::VERSION
}

/// Lets the lease of a desk run out, as when its process was not heard of for that long.
pub async fn expire(options: &Options, desk: Desk) -> Result<(), OpenError> {
    sql(options, &format!("UPDATE desk SET until = '-infinity', lease = '0' WHERE n = {}", desk.0))
        .await
}

/// Runs statements in the schema of a store.
pub async fn sql(options: &Options, sql: &str) -> Result<(), OpenError> {
    let conn = Conn::open(&Address::parse(options)?, options).await?;
    conn.client.batch_execute(sql).await.map_err(|e| OpenError::failed(&e))
}

/// Keeps the writers of a desk from their next transaction, until it is dropped.
pub async fn hold(options: &Options, desk: Desk) -> Result<Hold, OpenError> {
    let sql = format!("SELECT FROM writer WHERE desk = {} AND lane < 2 FOR UPDATE", desk.0);
    Hold::by(options, &sql).await
}

/// Has a desk as a transaction of it does that was begun within the lease, until it is dropped.
pub async fn alive(options: &Options, desk: Desk) -> Result<Hold, OpenError> {
    Hold::by(options, &format!("SELECT FROM desk WHERE n = {} FOR KEY SHARE", desk.0)).await
}

/// Keeps whoever writes this event from going on, until it is dropped.
pub async fn hold_event(options: &Options, body: &str) -> Result<Hold, OpenError> {
    let trigger = format!(
        "CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF NEW.body = '{body}' THEN PERFORM pg_advisory_xact_lock(4711); END IF; RETURN NEW; \
         END $$; CREATE TRIGGER held BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION held()"
    );
    sql(options, &trigger).await?;
    Hold::by(options, "SELECT pg_advisory_xact_lock(4711)").await
}

/// Reads a table as a dump does, until it is dropped.
pub async fn reads(options: &Options, table: &str) -> Result<Hold, OpenError> {
    Hold::by(options, &format!("LOCK TABLE {table} IN ACCESS SHARE MODE")).await
}

/// How many connections to the server wait for a lock.
pub async fn waiting(options: &Options) -> Result<i64, OpenError> {
    let conn = Conn::open(&Address::parse(options)?, options).await?;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let row = conn.client.query_one(sql, &[]).await.map_err(|e| OpenError::failed(&e))?;
    Ok(row.get(0))
}

/// An open transaction. It ends when it is dropped.
pub struct Hold(#[allow(dead_code)] Conn);

impl Hold {
    async fn by(options: &Options, sql: &str) -> Result<Hold, OpenError> {
        let conn = Conn::open(&Address::parse(options)?, options).await?;
        let sql = format!("BEGIN; {sql}");
        conn.client.batch_execute(&sql).await.map_err(|e| OpenError::failed(&e))?;
        Ok(Hold(conn))
    }
}

/// How the server would run a statement, on a connection like those of a store.
pub async fn plan(options: &Options, sql: &str) -> Result<String, OpenError> {
    let conn = Conn::open(&Address::parse(options)?, options).await?;
    let failed = |e: tokio_postgres::Error| OpenError::Failed(format!("{}: {sql}", cause(&e)));
    let prepare = format!("PREPARE it AS {sql}");
    conn.client.batch_execute(&prepare).await.map_err(failed)?;
    let count = (1..99).take_while(|n| sql.contains(&format!("${n}"))).count();
    let nulls = vec!["NULL"; count].join(", ");
    let execute = match count {
        0 => "EXPLAIN EXECUTE it".to_owned(),
        _ => format!("EXPLAIN EXECUTE it ({nulls})"),
    };
    let rows = conn.client.query(&execute, &[]).await.map_err(failed)?;
    Ok(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n"))
}

/// How many pages the server looks at for a page of a listing, on a connection like those of a store.
pub async fn pages(options: &Options, filter: &Filter, order: Order) -> Result<u64, OpenError> {
    let conn = Conn::open(&Address::parse(options)?, options).await?;
    let query = crate::read::Query::new(filter, order, None, 50);
    let sql = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {}", query.sql);
    let values: Vec<Param<'_>> = query.values.iter().map(|value| &**value as Param<'_>).collect();
    let rows = conn.client.query(&sql, &values).await.map_err(|e| OpenError::failed(&e))?;
    let lines = rows.iter().map(|row| row.get::<_, String>(0));
    // The first counts for all that is below it.
    let all = lines.into_iter().find(|line| line.contains("Buffers:")).unwrap_or_default();
    let counts = all.split_whitespace().filter_map(|word| word.split_once('='));
    Ok(counts.filter_map(|(_, count)| count.parse::<u64>().ok()).sum())
}
