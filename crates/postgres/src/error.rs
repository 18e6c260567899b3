//! How opening can fail, and what PostgreSQL's errors mean for a call.

use std::error::Error as _;

use steadfast_store::{Error, Refusal};
use tokio_postgres::error::{Severity, SqlState};

/// Why a store can't be opened. No password is ever part of the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// What was given is no address of a database.
    #[error("{0}; it looks like postgres://user@host:5432/database?sslmode=verify-full")]
    Address(String),
    /// A file with a password or a certificate can't be used.
    #[error("can't use {path}: {detail}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        detail: String,
    },
    /// The server can't be reached, or did not let us in.
    #[error("can't connect to PostgreSQL: {0}")]
    Connect(String),
    /// The server is too old.
    #[error("PostgreSQL is version {found}; version 14 or newer is needed: upgrade the server")]
    ServerTooOld {
        /// Its version.
        found: String,
    },
    /// The database can't keep every text.
    #[error(
        "the database keeps its texts in {found}, which has no letters for some of them; UTF8 is \
         needed: make another by CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'"
    )]
    Encoding {
        /// In what it keeps them.
        found: String,
    },
    /// There is a pooler in between that gives each transaction another connection.
    #[error(
        "between this program and PostgreSQL there is a pooler that gives each transaction another \
         connection (PgBouncer with pool_mode = transaction): neither prepared statements nor \
         LISTEN work through it; connect to the server itself, or set pool_mode = session for this \
         database"
    )]
    Pooled,
    /// The schema was made by a later version of this software.
    #[error(
        "the schema {schema} has version {found} and this program knows versions up to {known}; \
         upgrade this program, or point it to another schema"
    )]
    Newer {
        /// The schema.
        schema: String,
        /// Its version.
        found: i64,
        /// The last version that this code knows.
        known: i64,
    },
    /// The schema is of an earlier version, and migrating was not allowed.
    #[error(
        "the schema {schema} has version {found} and this program needs {known}; run the \
         migration first, or let this program do it"
    )]
    Older {
        /// The schema.
        schema: String,
        /// Its version.
        found: i64,
        /// The version that this code needs.
        known: i64,
    },
    /// There is no schema, and making one was not allowed.
    #[error(
        "there is no schema {schema} in the database; run the migration first, or let this \
         program do it"
    )]
    NoSchema {
        /// The schema.
        schema: String,
    },
    /// Its tasks were moved to another store.
    #[error(
        "the tasks in the schema {schema} were exported to {to} at {at}, to go on in another store, and \
         would run in both; point this program to that store. If they are not to go on there, \
         `steadfast reopen` opens this one again"
    )]
    Moved {
        /// The schema.
        schema: String,
        /// Where to.
        to: String,
        /// When.
        at: String,
    },
    /// A migration failed. Nothing was changed by it.
    #[error("can't bring the schema {schema} up to date: {detail}; it was left as it is")]
    Migration {
        /// The schema.
        schema: String,
        /// Why.
        detail: String,
    },
    /// PostgreSQL said no, or the operating system.
    #[error("can't open the store: {0}")]
    Failed(String),
}

impl OpenError {
    pub(crate) fn failed(error: &tokio_postgres::Error) -> OpenError {
        OpenError::Failed(cause(error))
    }
}

/// How a command can fail while it is decided.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was found wanting before its first change, so the rest of the batch is not concerned.
    Refused(Error),
    /// Something must be loaded first; what, is noted. All of the batch is decided again.
    Miss,
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        Fault::Refused(refusal.into())
    }
}

/// What is to be done about an error of PostgreSQL before anything was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The same again: somebody else was in the way.
    Again,
    /// The same on another connection.
    Reconnect,
    /// Nothing now. It may work later.
    Wait,
    /// What was to be written can't be.
    Never,
}

pub(crate) fn remedy(error: &tokio_postgres::Error) -> Remedy {
    let Some(state) = error.code() else {
        // A row that is not what was expected has no code, and no connection was lost with it.
        return match error.is_closed() || error.source().is_some_and(|s| s.is::<std::io::Error>()) {
            true => Remedy::Reconnect,
            false => Remedy::Never,
        };
    };
    // With that the server has ended the connection, whatever for (an idle_session_timeout).
    let severity = error.as_db_error().and_then(|said| said.parsed_severity());
    if matches!(severity, Some(Severity::Fatal | Severity::Panic)) {
        return Remedy::Reconnect;
    }
    match *state {
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::UNIQUE_VIOLATION
        | SqlState::LOCK_NOT_AVAILABLE => Remedy::Again,
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        // The server has become a standby: the one to write to is another.
        | SqlState::READ_ONLY_SQL_TRANSACTION => Remedy::Reconnect,
        _ => match &state.code()[..2] {
            "08" => Remedy::Reconnect,
            // Of data, of integrity, too large.
            "22" | "23" | "54" => Remedy::Never,
            _ => Remedy::Wait,
        },
    }
}

/// Whether the server says by an error that came for a commit that nothing was committed. It does so by all but
/// those that end the connection: that may have been after the commit, as while it waited for a standby. What
/// is no word of the server's says nothing.
pub(crate) fn undid(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|said| said.parsed_severity() == Some(Severity::Error))
}

/// What an error means for a call whose effects were undone, or that had none.
pub(crate) fn undone(error: &tokio_postgres::Error) -> Error {
    match remedy(error) {
        Remedy::Never => Error::Corrupt(cause(error)),
        Remedy::Again | Remedy::Reconnect | Remedy::Wait => Error::Unavailable(cause(error)),
    }
}

/// The text of an error with what is behind it, and with what to do about it.
pub(crate) fn cause(error: &tokio_postgres::Error) -> String {
    let mut text = match error.as_db_error() {
        Some(said) => format!("PostgreSQL says: {} ({})", said.message(), said.code().code()),
        None => {
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(behind) = source {
                let behind_text = behind.to_string();
                if !text.contains(&behind_text) {
                    text = format!("{text}: {behind_text}");
                }
                source = behind.source();
            }
            text
        }
    };
    text.push_str(match error.code() {
        Some(&SqlState::DISK_FULL) => "; the disk of the database server is full: make room on it",
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => {
            "; the server only reads now, as a standby does: it must be promoted, or another be \
             reached (target_session_attrs=read-write)"
        }
        Some(&SqlState::TOO_MANY_CONNECTIONS) => {
            "; raise max_connections of the server, or run fewer processes"
        }
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => "; grant it to the user, or use another",
        _ => "",
    });
    text
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What a call is told whose server answers it with this.
    async fn said(severity: &str, code: &str) -> tokio_postgres::Error {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let mut config = tokio_postgres::Config::new();
        config.user("ann").ssl_mode(tokio_postgres::config::SslMode::Disable);
        let fields = format!("S{severity}\0V{severity}\0C{code}\0Mno\0\0");
        let server = async move {
            let mut heard = [0; 4096];
            assert!(theirs.read(&mut heard).await.unwrap() > 0);
            // Let in, and ready for a query.
            theirs.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await.unwrap();
            assert!(theirs.read(&mut heard).await.unwrap() > 0);
            let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
            theirs.write_all(&[b"E", &length[..], fields.as_bytes()].concat()).await.unwrap();
        };
        let calling = async {
            let (client, wire) = config.connect_raw(ours, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(wire);
            client.batch_execute("SELECT").await.unwrap_err()
        };
        tokio::join!(server, calling).1
    }

    #[tokio::test]
    async fn who_is_told_that_the_connection_is_over_takes_another() {
        // Idle sessions, idle transactions, long ones, and what is not known yet.
        for code in ["57P05", "25P03", "25P04", "57P01", "99999"] {
            let error = said("FATAL", code).await;
            assert_eq!(error.code().unwrap().code(), code);
            assert_eq!(remedy(&error), Remedy::Reconnect, "{code}");
        }
        assert_eq!(remedy(&said("PANIC", "XX000").await), Remedy::Reconnect);
        assert_eq!(remedy(&said("ERROR", "57014").await), Remedy::Wait);
        assert_eq!(remedy(&said("ERROR", "22P05").await), Remedy::Never);
    }
}
