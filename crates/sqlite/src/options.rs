//! How to open a file.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use crate::{
    OpenError, Store,
    desk::Desks,
    place,
    schema::{self, Found},
};

/// What a commit that was acknowledged survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process, of the system, and a power cut: every batch of commits is flushed
    /// to the disk before it is acknowledged.
    #[default]
    Full,
    /// The death of the process only. After a power cut the file is whole, and the last commits may
    /// be missing.
    ProcessCrashOnly,
}

/// How to open a file.
///
/// ```no_run
/// use steadfast_sqlite::{Durability, Options};
/// # fn main() -> Result<(), steadfast_sqlite::OpenError> {
/// let store = Options::new("tasks.db").durability(Durability::ProcessCrashOnly).open()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) path: PathBuf,
    durability: Durability,
    busy_timeout: Duration,
    pub(crate) flush_delay: Duration,
    vfs: Option<String>,
    max_pages: Option<u32>,
}

/// Files up to this size are checked whole when they are opened: it takes a few milliseconds.
const CHECKED: u64 = 4 << 20;

impl Options {
    /// The file at this path, with full durability. It is created if it doesn't exist.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options {
            path: path.into(),
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(10),
            flush_delay: Duration::ZERO,
            vfs: None,
            max_pages: None,
        }
    }

    /// What a commit that was acknowledged survives.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// How long to wait for another process that is writing before a call fails as unavailable.
    /// Ten seconds unless it is set.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Options {
        self.busy_timeout = timeout;
        self
    }

    /// Makes every flush take longer by this, as on a slower disk. For measurements.
    #[must_use]
    pub fn flush_delay(mut self, delay: Duration) -> Options {
        self.flush_delay = delay;
        self
    }

    /// Opens the file through the SQLite VFS that was registered under this name. For tests that
    /// take the power away.
    #[must_use]
    pub fn vfs(mut self, name: impl Into<String>) -> Options {
        self.vfs = Some(name.into());
        self
    }

    /// The disk is full at this many pages. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn max_pages(mut self, pages: u32) -> Options {
        self.max_pages = Some(pages);
        self
    }

    /// Opens it. Blocks for as long as the disk needs.
    pub fn open(self) -> Result<Store, OpenError> {
        self.check_place()?;
        let mut writer =
            self.connect(OpenFlags::SQLITE_OPEN_CREATE).map_err(|e| self.failed(&e))?;
        self.admit(&mut writer)?;
        let desks = Desks::beside(&self.path);
        let seat =
            desks.sit().map_err(|source| OpenError::Lock { path: desks.path().into(), source })?;
        // Again: who closes a file to move it looks for desks after that. So either it sees this one, or
        // this one sees that the file is closed.
        if let Err(error) = self.accept(schema::look(&writer)) {
            desks.remove(seat.number);
            return Err(error);
        }
        Store::begin(self, writer, desks, seat)
    }

    /// Refuses a place where no file can be kept.
    pub(crate) fn check_place(&self) -> Result<(), OpenError> {
        let directory = match self.path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => Path::new("/"),
        };
        if !directory.is_dir() {
            return Err(OpenError::NoDirectory { path: self.path.clone() });
        }
        // A VFS of its own knows best where its files can be.
        if let (None, Some(system)) = (&self.vfs, place::network(directory)) {
            return Err(OpenError::Network { path: self.path.clone(), system });
        }
        Ok(())
    }

    /// Checks what is there, in an order that writes nothing to a file that is refused.
    pub(crate) fn admit(&self, writer: &mut Connection) -> Result<(), OpenError> {
        // In one view of the file: another process may be making it just now.
        let found = writer.transaction().and_then(|view| schema::look(&view));
        self.accept(found)?;
        self.check(writer)?;
        self.switch_to_wal(writer)?;
        self.settle(writer).map_err(|e| self.failed(&e))?;
        let wanted = match self.durability {
            Durability::Full => 2,
            Durability::ProcessCrashOnly => 1,
        };
        let set = writer.pragma_update(None, "synchronous", wanted);
        set.map_err(|e| self.failed(&e))?;
        let found = writer.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0));
        self.expect("synchronous", &wanted.to_string(), found.map(|n| n.to_string()))?;
        self.accept(schema::migrate(writer))?;
        if let Some(pages) = self.max_pages {
            writer.pragma_update(None, "max_page_count", pages).map_err(|e| self.failed(&e))?;
        }
        Ok(())
    }

    pub(crate) fn accept(&self, found: rusqlite::Result<Found>) -> Result<(), OpenError> {
        match found.map_err(|e| self.failed(&e))? {
            Found::Ours(found) if found > schema::VERSION => {
                Err(OpenError::Newer { path: self.path.clone(), found, known: schema::VERSION })
            }
            Found::Foreign => Err(OpenError::Foreign { path: self.path.clone() }),
            Found::Moved { to, at } => Err(OpenError::Moved { path: self.path.clone(), to, at }),
            Found::Ours(_) | Found::Empty => Ok(()),
        }
    }

    pub(crate) fn check(&self, conn: &Connection) -> Result<(), OpenError> {
        if std::fs::metadata(&self.path).is_ok_and(|file| file.len() > CHECKED) {
            return Ok(());
        }
        let verdict: String = conn
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|e| self.failed(&e))?;
        match verdict.as_str() {
            "ok" => Ok(()),
            _ => Err(OpenError::Damaged { path: self.path.clone(), detail: verdict }),
        }
    }

    /// The journal mode is a property of the file, so that two processes that open a new one may
    /// meet here; SQLite doesn't wait by itself for this one.
    fn switch_to_wal(&self, conn: &Connection) -> Result<(), OpenError> {
        let mut left = self.busy_timeout;
        let pause = Duration::from_millis(5);
        loop {
            let mode = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
            match mode {
                Err(e)
                    if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && !left.is_zero() =>
                {
                    left = left.saturating_sub(pause);
                    std::thread::sleep(pause);
                }
                mode => return self.expect("journal_mode", "wal", mode),
            }
        }
    }

    fn settle(&self, conn: &Connection) -> rusqlite::Result<()> {
        // The sizes are in KiB when negative. The limit keeps a write-ahead log that grew under a
        // long read from staying that big; it is above what a log grows to ordinarily (33 MB), for
        // one that is cut has to grow again, and a flush that makes a file longer takes longer. The
        // last two matter on macOS, where a plain flush stops at the drive's cache.
        conn.execute_batch(
            "PRAGMA cache_size = -16384;
             PRAGMA temp_store = MEMORY;
             PRAGMA wal_autocheckpoint = 8192;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA fullfsync = ON;
             PRAGMA checkpoint_fullfsync = ON;",
        )
    }

    fn expect(
        &self,
        setting: &'static str,
        wanted: &str,
        found: rusqlite::Result<String>,
    ) -> Result<(), OpenError> {
        let found = found.map_err(|e| self.failed(&e))?;
        if found == wanted {
            return Ok(());
        }
        Err(OpenError::Setting { path: self.path.clone(), setting, found, wanted: wanted.into() })
    }

    /// A connection that only reads.
    pub(crate) fn reader(&self) -> rusqlite::Result<Connection> {
        let conn = self.connect(OpenFlags::empty())?;
        // It reads the file where the system has it in memory anyway: in a store of a million tasks
        // the pages of the one that is asked for are hardly ever in a cache of ours, and copying them
        // there takes as long as all the rest. The writer doesn't: a disk that can't be read any
        // more is an error to it, and not a signal.
        conn.execute_batch(
            "PRAGMA query_only = ON; PRAGMA cache_size = -8192; PRAGMA mmap_size = 2147418112;",
        )?;
        Ok(conn)
    }

    pub(crate) fn connect(&self, more: OpenFlags) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        let conn = match &self.vfs {
            None => Connection::open_with_flags(&self.path, flags)?,
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.path, flags, vfs.as_str())?,
        };
        conn.busy_timeout(self.busy_timeout)?;
        conn.set_prepared_statement_cache_capacity(128);
        // Without this SQLite looks at the values given to a cached statement, and with partial
        // indexes in the schema plans it anew each time: ten times the work of running it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(conn)
    }

    pub(crate) fn failed(&self, error: &rusqlite::Error) -> OpenError {
        let path = self.path.clone();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                OpenError::Damaged { path, detail }
            }
            _ => OpenError::Failed { path, detail },
        }
    }
}
