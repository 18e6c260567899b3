//! How to open a store.

use std::{path::PathBuf, time::Duration};

use crate::{
    OpenError, Store,
    address::Address,
    conn::Conn,
    given::{self, Given},
    schema,
};

/// How to open a store.
///
/// ```no_run
/// use std::time::Duration;
/// use steadfast_postgres::Options;
/// # async fn example() -> Result<(), steadfast_postgres::OpenError> {
/// let store = Options::new("postgres://app@db.example/app?sslmode=verify-full")
///     .password_file("/run/secrets/db")
///     .lease(Duration::from_secs(5))
///     .open()
///     .await?;
/// # Ok(()) }
/// ```
///
/// The address is one of libpq's, `postgres://…` or `host=… user=…`, with `sslmode`, `sslrootcert`,
/// `sslcert`, `sslkey` and `passfile`. What it leaves out comes from `PGPASSWORD`, `PGPASSFILE`,
/// `PGSSLMODE`, `PGSSLROOTCERT`, `PGSSLCERT` and `PGSSLKEY`, and from `.pgpass` and `.postgresql` in the
/// home directory.
#[derive(Clone)]
pub struct Options {
    pub(crate) address: String,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) schema: String,
    pub(crate) lease: Duration,
    pub(crate) migrate: bool,
    pub(crate) patience: Duration,
    pub(crate) poll: Duration,
    pub(crate) listen: bool,
    pub(crate) transactions: u16,
}

impl Options {
    /// The database at this address.
    pub fn new(address: impl Into<String>) -> Options {
        Options {
            address: address.into(),
            password_file: None,
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            schema: "steadfast".into(),
            lease: Duration::from_secs(10),
            migrate: true,
            patience: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            listen: true,
            transactions: 4,
        }
    }

    /// A file that has the password and nothing else. It is read for every connection, so that the
    /// password can change while this runs.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Options {
        self.password_file = Some(path.into());
        self
    }

    /// Whether a text is meant as an address, of either form, rather than as the path of a file. A wrong one
    /// is one as well, whatever its scheme; what begins with `sqlite:` is none.
    #[must_use]
    pub fn is_address(text: &str) -> bool {
        given::is_address(text)
    }

    /// Where the database is, for people: its hosts and its name, without user and password.
    #[must_use]
    pub fn place(&self) -> String {
        Given::parse(&self.address).map_or_else(|_| "?".into(), |given| given.place())
    }

    /// The home directory, whose `.pgpass` and `.postgresql` count. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn home(mut self, path: impl Into<PathBuf>) -> Options {
        self.home = Some(path.into());
        self
    }

    /// The schema that has our tables; `steadfast` unless it is set. Stores in different schemas
    /// know nothing of each other.
    #[must_use]
    pub fn schema(mut self, name: impl Into<String>) -> Options {
        self.schema = name.into();
        self
    }

    /// The name of the schema.
    #[must_use]
    pub fn schema_name(&self) -> &str {
        &self.schema
    }

    /// How long this process is taken for alive after it was last heard of; ten seconds unless it
    /// is set, and at least one. After that others take over what it held, and what it still writes
    /// is refused.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Options {
        self.lease = lease.max(Duration::from_secs(1));
        self
    }

    /// Whether the tables are made, and brought up to date; true unless it is set. Otherwise it is an
    /// error if they are missing or too old: run [`migrate`](Options::migrate) before.
    #[must_use]
    pub fn migrate_on_open(mut self, migrate: bool) -> Options {
        self.migrate = migrate;
        self
    }

    /// How long to wait for an answer of the database before the connection is given up; and how long
    /// to try to find out whether a commit took effect whose answer was lost, before its callers are
    /// told that nobody knows. Half a minute unless it is set.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Options {
        self.patience = patience;
        self
    }

    /// How many transactions of authors' (see [`in_postgres`](crate::in_postgres)) may be open at the same
    /// time, each on a connection of its own; others wait. Four unless it is set, and at least one. The
    /// connections are made when they are first needed.
    #[must_use]
    pub fn transactions(mut self, most: u16) -> Options {
        self.transactions = most.clamp(1, 1_000);
        self
    }

    /// Whether to hear of changes by NOTIFY. Without it they are noticed by looking, once a second.
    /// For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn listen(mut self, listen: bool) -> Options {
        self.listen = listen;
        self
    }

    /// Opens it.
    pub async fn open(self) -> Result<Store, OpenError> {
        Store::begin(self).await
    }

    /// Makes the tables, or brings them up to date, and opens nothing: for those who don't let
    /// servers alter tables. Safe while processes of the version before are running.
    pub async fn migrate(self) -> Result<(), OpenError> {
        let address = Address::parse(&self)?;
        let [conn, _] = Conn::open_two(&address, &self).await?;
        schema::ready(&conn.client, &Options { migrate: true, ..self }).await
    }
}

impl std::fmt::Debug for Options {
    /// Without what the address has of a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("place", &self.place())
            .field("schema", &self.schema)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}
