//! The tables, and how an older schema becomes one of today.
//!
//! Everything lies in a schema of its own. `schema_version` has one row per migration that was run,
//! with the oldest version of this code that can still work on the result: so processes of the
//! version before go on while the next one is rolled out, and can be gone back to.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::{Client, error::SqlState};

use crate::{OpenError, Options, error::cause};

/// One step from the version before it. One that has been released is never changed.
struct Migration {
    sql: &'static str,
    /// The oldest version of this code that works on the result.
    oldest: i64,
}

const MIGRATIONS: [Migration; 2] = [
    Migration { sql: include_str!("schema/first.sql"), oldest: 1 },
    Migration {
        sql: concat!(include_str!("schema/freed.sql"), include_str!("schema/up.sql")),
        oldest: 1,
    },
];

/// The version that this code reads and writes: one per migration.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;

/// Stands in `schema_version` when the tasks were moved to another store: nobody can open it then, nor can
/// versions of this code that know nothing of moving. The table `moved` says where to and when.
pub(crate) const MOVED: i64 = 1_000_000_000;

/// The oldest server that has all we use.
const SERVER: i64 = 140_000;

/// Refuses a server that is too old, and a database that can't keep every text. Before anything is set
/// on the connection: an older server does not know all that we set.
pub(crate) async fn check_server(client: &Client) -> Result<(), OpenError> {
    let sql = "SELECT current_setting('server_version_num')::bigint, \
               current_setting('server_version'), current_setting('server_encoding')";
    let row = client.query_one(sql, &[]).await.map_err(|e| OpenError::failed(&e))?;
    let (version, encoding) = (row.get::<_, i64>(0), row.get::<_, String>(2));
    match encoding == "UTF8" {
        _ if version < SERVER => Err(OpenError::ServerTooOld { found: row.get(1) }),
        true => Ok(()),
        false => Err(OpenError::Encoding { found: encoding }),
    }
}

/// What is there: the version of the schema, and the oldest code that can work on it.
pub(crate) async fn look(client: &Client, options: &Options) -> Result<(i64, i64), OpenError> {
    // By the catalog as it is now: the name of a schema that was just made is not known to this
    // connection if it asked for it before.
    let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c \
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = $1 AND c.relname = 'schema_version')";
    let name = options.schema.as_str();
    let row = client.query_one(there, &[&name]).await.map_err(|e| OpenError::failed(&e))?;
    if !row.get::<_, bool>(0) {
        return Ok((0, 0));
    }
    let sql = format!(
        "SELECT coalesce(max(version), 0), coalesce(max(oldest), 0) FROM {}.schema_version",
        quoted(name)
    );
    let row = client.query_one(&sql, &[]).await.map_err(|e| OpenError::failed(&e))?;
    Ok((row.get(0), row.get(1)))
}

/// Whether this code can work on tables of a version that the oldest code for is given.
pub(crate) fn serves(options: &Options, found: i64, oldest: i64) -> Result<(), OpenError> {
    match oldest > VERSION {
        true => Err(OpenError::Newer { schema: options.schema.clone(), found, known: VERSION }),
        false => Ok(()),
    }
}

/// Where the tasks of a store went and when, if they were moved.
pub(crate) async fn moved(
    client: &Client,
    options: &Options,
) -> Result<Option<(String, String)>, tokio_postgres::Error> {
    let schema = quoted(&options.schema);
    let sql = format!("SELECT 1 FROM {schema}.schema_version WHERE version >= {MOVED}");
    if client.query_opt(&sql, &[]).await?.is_none() {
        return Ok(None);
    }
    let row = client.query_opt(&format!("SELECT place, at FROM {schema}.moved"), &[]).await?;
    Ok(Some(row.map_or_else(Default::default, |row| (row.get(0), row.get(1)))))
}

/// Refuses a store whose tasks were moved.
pub(crate) async fn refuse_moved(client: &Client, options: &Options) -> Result<(), OpenError> {
    match moved(client, options).await.map_err(|e| OpenError::failed(&e))? {
        None => Ok(()),
        Some((to, at)) => Err(OpenError::Moved { schema: options.schema.clone(), to, at }),
    }
}

/// Brings the schema to [`VERSION`], if it may, or says why it can't be used.
pub(crate) async fn ready(client: &Client, options: &Options) -> Result<(), OpenError> {
    let (found, oldest) = look(client, options).await?;
    if found >= MOVED {
        refuse_moved(client, options).await?;
    }
    serves(options, found, oldest)?;
    if found >= VERSION {
        return Ok(());
    }
    if !options.migrate {
        let schema = options.schema.clone();
        return Err(match found {
            0 => OpenError::NoSchema { schema },
            _ => OpenError::Older { schema, found, known: VERSION },
        });
    }
    migrate(client, options, &MIGRATIONS).await
}

/// How long others may have a table that is to be altered, before they are waited for anew: everybody who
/// comes meanwhile waits behind us.
const SHORT: Duration = Duration::from_secs(1);
/// How long they are let through in between.
const BETWEEN: Duration = Duration::from_secs(2);
/// How long that goes on.
const LONG: Duration = Duration::from_secs(60);

/// Runs the migrations that are missing: all or none, and once, however many processes begin at the
/// same time.
async fn migrate(client: &Client, options: &Options, all: &[Migration]) -> Result<(), OpenError> {
    let failed = |error: tokio_postgres::Error| OpenError::Migration {
        schema: options.schema.clone(),
        detail: cause(&error),
    };
    let begun = Instant::now();
    loop {
        let Err(fault) = migrate_alone(client, options, all).await else { return Ok(()) };
        let _ = client.batch_execute("ROLLBACK").await;
        match fault {
            Fault::Sql(error)
                if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
                    && begun.elapsed() < LONG =>
            {
                let schema = &options.schema;
                tracing::info!(schema, "others are at a table that is to be altered; waiting");
                tokio::time::sleep(BETWEEN).await;
            }
            Fault::Sql(error) => return Err(failed(error)),
            Fault::Open(error) => return Err(error),
        }
    }
}

enum Fault {
    Sql(tokio_postgres::Error),
    Open(OpenError),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Fault {
        Fault::Open(error)
    }
}

async fn migrate_alone(client: &Client, options: &Options, all: &[Migration]) -> Result<(), Fault> {
    let schema = quoted(&options.schema);
    // Another process may be at it, and may take its time: nobody else waits for that.
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = {}; SET LOCAL idle_in_transaction_session_timeout = 0",
        LONG.as_millis()
    );
    client.batch_execute(&begin).await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('steadfast ' || $1::text, 0))";
    client.query(lock, &[&options.schema]).await?;
    // Looked at again under the lock.
    let (found, oldest) = look(client, options).await?;
    serves(options, found, oldest)?;
    let short = SHORT.as_millis();
    let mut sql = format!("SET LOCAL search_path = {schema}; SET LOCAL lock_timeout = {short};");
    if found == 0 {
        // Somebody may have made it for us: then we need no leave to make schemas, and may have none.
        let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
        let there = client.query_one(there, &[&options.schema]).await?;
        if !there.get::<_, bool>(0) {
            sql += &format!("CREATE SCHEMA {schema};");
        }
        sql += "CREATE TABLE schema_version (
                version bigint PRIMARY KEY,
                oldest bigint NOT NULL,
                migrated timestamptz NOT NULL DEFAULT now()
             );";
    }
    for (at, migration) in all.iter().enumerate() {
        let version = at as i64 + 1;
        if version > found {
            let oldest = migration.oldest;
            sql += migration.sql;
            sql += &format!(
                "INSERT INTO schema_version (version, oldest) VALUES ({version}, {oldest});"
            );
        }
    }
    sql += "COMMIT";
    Ok(client.batch_execute(&sql).await?)
}

/// A name as it stands in a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::{address::Address, conn::Conn, testing};
    use steadfast_store::Store as _;

    /// As when somebody makes a dump: he is waited for, and those who come meanwhile are not.
    #[tokio::test]
    #[allow(clippy::unwrap_used)]
    async fn who_reads_a_table_for_long_keeps_a_migration_waiting_and_nobody_else() {
        let options = testing::shared().unwrap().options();
        let store = options.clone().open().await.unwrap();
        let dump = testing::reads(&options, "task").await.unwrap();
        let alter = "ALTER TABLE task ADD COLUMN more bigint;";
        let [first, second] = MIGRATIONS;
        let all = [first, second, Migration { sql: alter, oldest: 1 }];
        let conn = Conn::open(&Address::parse(&options).unwrap(), &options).await.unwrap();
        let others = async {
            let mut longest = Duration::ZERO;
            for _ in 0..60 {
                let begun = Instant::now();
                store.next_wake().await.unwrap();
                longest = longest.max(begun.elapsed());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            drop(dump);
            longest
        };
        let (migrated, longest) = tokio::join!(migrate(&conn.client, &options, &all), others);
        migrated.unwrap();
        assert_eq!(look(&conn.client, &options).await.unwrap(), (3, 1));
        assert!(longest < SHORT * 3, "{longest:?}");
    }
}
