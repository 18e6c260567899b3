//! Which store a command is about.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use steadfast_store::moving::Tally;

use crate::{Failure, Result};

/// A store, as servers have it.
#[derive(Args)]
pub(crate) struct Place {
    /// The store: the path of a SQLite file, or postgres://user@host/database
    #[arg(long, value_name = "PATH|ADDRESS", env = "STEADFAST_STORE", hide_env_values = true)]
    store: String,

    /// Take the password for PostgreSQL from this file
    #[arg(long, value_name = "FILE", env = "STEADFAST_STORE_PASSWORD_FILE")]
    store_password_file: Option<PathBuf>,

    /// The schema of the database that has the tables [default: steadfast]
    #[arg(long, value_name = "NAME", env = "STEADFAST_STORE_SCHEMA")]
    store_schema: Option<String>,
}

/// A store, and how to open it.
pub(crate) enum Store {
    Sqlite(steadfast_sqlite::Options),
    Postgres(steadfast_postgres::Options),
}

impl Place {
    pub(crate) fn store(self) -> Result<Store> {
        let Place { store, store_password_file, store_schema } = self;
        if steadfast_postgres::Options::is_address(&store) {
            let mut options = steadfast_postgres::Options::new(store);
            if let Some(file) = store_password_file {
                options = options.password_file(file);
            }
            let schema = store_schema.as_deref().unwrap_or("steadfast");
            return Ok(Store::Postgres(options.schema(schema)));
        }
        for (given, flag) in [
            (store_password_file.is_some(), "--store-password-file"),
            (store_schema.is_some(), "--store-schema"),
        ] {
            if given {
                let text =
                    format!("{flag} is for PostgreSQL: give --store postgres://user@host/database");
                return Err(Failure::with(2, text));
            }
        }
        if store == "memory:" {
            let text = "a store in memory dies with its process: there is nothing to move";
            return Err(Failure::with(2, text));
        }
        let path = store.strip_prefix("sqlite:").unwrap_or(&store);
        Ok(Store::Sqlite(steadfast_sqlite::Options::new(path)))
    }
}

/// Says how far it is, on standard error: often to a person, seldom to a log.
pub(crate) struct Progress {
    is_terminal: bool,
    last: Instant,
    shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress {
            is_terminal: std::io::stderr().is_terminal(),
            last: Instant::now(),
            shown: false,
        }
    }

    pub(crate) fn say(&mut self, what: &str, tally: &Tally) {
        let pause = Duration::from_millis(if self.is_terminal { 500 } else { 10_000 });
        if self.last.elapsed() < pause {
            return;
        }
        self.last = Instant::now();
        self.shown = self.is_terminal;
        let mut out = std::io::stderr().lock();
        // What can't be shown is no reason to stop.
        let _ = match self.is_terminal {
            true => write!(out, "\r\x1b[K{what}: {tally}"),
            false => writeln!(out, "{what}: {tally}"),
        };
    }

    /// Takes away the line that was written over and over.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
