//! Giving out all that is in a schema, and taking in what comes from another store.

mod close;
mod link;
mod read;
mod rows;
mod write;

use std::time::{Duration, Instant, SystemTime};

use steadfast_store::moving::{Error, Purpose, Reader, Result, Sink, Tally};
use tokio_postgres::Client;

use self::link::Link;
use crate::{Options, core::alive, error::cause, schema};

/// What goes wrong between us and PostgreSQL, in the words of a move.
fn failed(error: tokio_postgres::Error) -> Error {
    Error::Store(cause(&error))
}

/// Processes that have the store open, or were heard of so lately that they may.
const ALIVE: &str =
    concat!("SELECT d.n, d.process, d.until FROM desk d WHERE ", alive!(), " ORDER BY d.n");

/// How long to wait for the leases of processes that say nothing, and how often to look.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(200);

/// Waits as long as all that have the store open may be dead: none of them says that it is alive.
///
/// A process that was stopped a moment ago is taken for alive until its lease is over, and those who move a
/// store have just stopped its servers.
async fn wait_for_the_dead(client: &Client) -> Result<()> {
    let limit = Instant::now() + PATIENCE;
    let mut before: Option<Vec<(i64, SystemTime)>> = None;
    loop {
        let rows = client.query(ALIVE, &[]).await.map_err(failed)?;
        let alive: Vec<_> = rows.iter().map(|row| (row.get(0), row.get(2))).collect();
        let spoke = before.is_some_and(|before| alive.iter().any(|one| !before.contains(one)));
        if alive.is_empty() || spoke || Instant::now() > limit {
            return Ok(());
        }
        before = Some(alive);
        tokio::time::sleep(LOOK).await;
    }
}

/// Who they are, in words.
async fn company(client: &Client) -> Result<Option<String>> {
    let rows = client.query(ALIVE, &[]).await.map_err(failed)?;
    let names: Vec<&str> = rows.iter().map(|row| row.get(1)).collect();
    Ok(match names.as_slice() {
        [] => None,
        names => Some(format!(
            "{} (host and number of the process; one that was killed counts until its lease is over)",
            names.join(", ")
        )),
    })
}

impl Options {
    /// The version of the schema that [`export`](Options::export) reads, for the header of a file.
    pub const SCHEMA: i64 = schema::VERSION;

    fn name(&self) -> String {
        format!("the schema {}", self.schema)
    }

    /// Gives all that is in the store to `out`, as it was at one moment.
    ///
    /// With [`Purpose::Move`] it is refused while a process has the store open, and the store is closed before
    /// anything is read: no process can open it any more until [`reopen`](Options::reopen). It is open again
    /// if this fails; if this process dies meanwhile it stays closed, and can be exported again.
    pub async fn export(&self, purpose: &Purpose, out: &mut Sink<'_>) -> Result<()> {
        let link = Link::open(self).await?;
        self.check_tables(&link).await?;
        let closed = match purpose {
            Purpose::Move(to) => self.close(&link, to).await?,
            Purpose::Backup => false,
        };
        let done = self.give_out(&link, out).await;
        if done.is_err() && closed {
            // On a connection of its own: this one may be lost. If that fails, the next one who opens the
            // store says how it is done.
            let _ = self.reopen().await;
        }
        done
    }

    async fn give_out(&self, link: &Link, out: &mut Sink<'_>) -> Result<()> {
        link.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        read::all(&link.client, out).await?;
        link.run("COMMIT").await
    }

    /// Whether the tables are there, and those of today. Also those of a store that is closed.
    async fn check_tables(&self, link: &Link) -> Result<()> {
        let opened = schema::ready(&link.client, &Options { migrate: false, ..self.clone() }).await;
        match opened {
            Err(crate::OpenError::Moved { .. }) => {
                link.begin("BEGIN READ ONLY").await?;
                let sql = "SELECT coalesce(max(version), 0) FROM schema_version WHERE version < $1";
                let row = link.client.query_one(sql, &[&schema::MOVED]).await.map_err(failed)?;
                link.run("COMMIT").await?;
                match row.get::<_, i64>(0) {
                    found if found < schema::VERSION => Err(Error::Store(format!(
                        "{} has version {found}, and this program has {}: open it again, and bring it up to \
                         date with `steadfast migrate`",
                        self.name(),
                        schema::VERSION
                    ))),
                    _ => Ok(()),
                }
            }
            opened => opened.map_err(|error| Error::Store(error.to_string())),
        }
    }

    /// Takes in all that a file holds, reads it back, and compares: all of it is there then, or nothing.
    ///
    /// The store must be empty; its tables are made if there are none, unless that
    /// [must not be](Options::migrate_on_open). It is one transaction: whatever goes wrong, and if this
    /// process dies, no row is left of it. The file is read on this thread.
    pub async fn import(&self, from: &mut Reader) -> Result<Tally> {
        let link = Link::open(self).await?;
        schema::ready(&link.client, self).await.map_err(|error| Error::Store(error.to_string()))?;
        let taken = self.take_in(&link, from).await;
        match taken {
            Ok(tally) => {
                link.run("COMMIT").await.map_err(|error| {
                    Error::Store(format!(
                        "it is not known whether the import was committed: {error}; import again, which \
                         is refused as not empty if it was"
                    ))
                })?;
                Ok(tally)
            }
            Err(error) => {
                let _ = link.run("ROLLBACK").await;
                Err(error)
            }
        }
    }

    async fn take_in(&self, link: &Link, from: &mut Reader) -> Result<Tally> {
        link.begin("BEGIN").await?;
        wait_for_the_dead(&link.client).await?;
        if let Some(by) = company(&link.client).await? {
            return Err(Error::import_in_use(self.name(), by));
        }
        // Nobody else writes meanwhile, also if somebody opens it now.
        link.run(write::LOCK).await?;
        if let Some(table) = write::occupied(&link.client).await? {
            return Err(Error::NotEmpty { store: self.name(), table: table.into() });
        }
        write::all(&link.client, from).await?;
        read::all(&link.client, &mut |record| from.came_back(&record)).await?;
        from.compare()
    }

    /// Lets servers open a store again that was exported to be moved. Whether it was closed.
    pub async fn reopen(&self) -> Result<bool> {
        let link = Link::open(self).await?;
        match schema::ready(&link.client, &Options { migrate: false, ..self.clone() }).await {
            Ok(()) => Ok(false),
            Err(crate::OpenError::Moved { .. }) => close::open_again(&link).await,
            Err(error) => Err(Error::Store(error.to_string())),
        }
    }
}
