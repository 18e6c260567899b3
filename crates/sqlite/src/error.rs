//! How opening can fail, and what SQLite's errors mean for a call.

use std::path::PathBuf;

use rusqlite::ErrorCode;
use steadfast_store::{Error, Refusal};

/// Why a file can't be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory is missing.
    #[error("can't open {path}: its directory doesn't exist; create it first")]
    NoDirectory {
        /// The file.
        path: PathBuf,
    },
    /// It is on a network file system.
    #[error(
        "can't open {path}: it is on {system}, a network file system, where the shared memory and \
         locks that keep the file whole don't work; put it on a local disk, or use PostgreSQL to \
         share tasks between machines"
    )]
    Network {
        /// The file.
        path: PathBuf,
        /// The kind of file system.
        system: &'static str,
    },
    /// It was written by a later version of this software.
    #[error(
        "can't open {path}: it has schema version {found} and this program knows versions up to \
         {known}; upgrade this program, or point it to another file"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The last version that this code knows.
        known: i64,
    },
    /// It is a database of something else.
    #[error(
        "can't open {path}: it is a SQLite database of another application; point to another file"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Its tasks were moved to another store.
    #[error(
        "can't open {path}: its tasks were exported to {to} at {at}, to go on in another store, and \
         would run in both; point this program to that store. If they are not to go on there, \
         `steadfast reopen --store {path}` opens this one again"
    )]
    Moved {
        /// The file.
        path: PathBuf,
        /// Where to.
        to: String,
        /// When.
        at: String,
    },
    /// It is damaged, or no database at all.
    #[error(
        "can't open {path}: {detail}; it was left as it is: restore it from a backup, or move it \
         away to begin with an empty one"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        detail: String,
    },
    /// A setting did not take.
    #[error(
        "can't open {path}: SQLite answers {setting} = {found} where {wanted} was asked for; the \
         promised durability can't be kept"
    )]
    Setting {
        /// The file.
        path: PathBuf,
        /// Which.
        setting: &'static str,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// The lock file of this process can't be made.
    #[error("can't make a lock file in {path}: {source}; check the permissions of the directory")]
    Lock {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The operating system or SQLite said no.
    #[error("can't open {path}: {detail}; check that it is a file this user may read and write")]
    Failed {
        /// The file.
        path: PathBuf,
        /// Why.
        detail: String,
    },
}

/// How a command can fail inside a transaction.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was found wanting before its first write, so the rest of the batch is not concerned.
    Refused(Error),
    /// SQLite failed; what was written so far must be undone.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        Fault::Refused(refusal.into())
    }
}

/// What an error means for a call whose effects were undone, or that had none.
pub(crate) fn undone(error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Corrupt(error.to_string())
        }
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => {
            Error::Corrupt(error.to_string())
        }
        // A value that is not what the schema says it is.
        None => Error::Corrupt(error.to_string()),
        Some(_) => Error::Unavailable(error.to_string()),
    }
}

/// What an error of COMMIT itself means. A full disk or a busy file stops it before the frame that
/// makes it count is written; after anything else that frame may be on the disk.
pub(crate) fn uncommitted(error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Unavailable(error.to_string())
        }
        _ => Error::Unknown(error.to_string()),
    }
}
