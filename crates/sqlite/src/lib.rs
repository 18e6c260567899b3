//! A Steadfast store in one SQLite file, for one process or several on one machine.
//!
//! ```no_run
//! # fn main() -> Result<(), steadfast_sqlite::OpenError> {
//! let store = steadfast_sqlite::Store::open("tasks.db")?;
//! # Ok(()) }
//! ```
//!
//! * [`Options`] opens a file and refuses, untouched, one that it can't keep its promises on:
//!   damaged, newer, of another application, on a network file system.
//! * `writer` is the one thread that writes. It takes every command that waits in the `queue`,
//!   applies them in one transaction, commits, and only then answers: one flush for all of them. A
//!   refused command has not written anything; a failed one is undone with its batch, and the
//!   others are done again without it.
//! * `write` holds the commands, one file per family, and `read` what is answered from connections
//!   of their own.
//! * `desk` is who is alive: a lock file per handle, in the directory `<file>.desks`. Removing that
//!   directory while a process runs makes it look dead.
//! * [`in_sqlite`] is SQL of an author's that is committed together with a step, `rails` what keeps it from
//!   doing harm, and `join` how the writer runs it.
//! * `moving` gives out all that is in a file, to be moved to another store, and takes it in.
//! * `schema` has the tables, and says where a task lies and how events are found.

mod asks;
mod bell;
mod desk;
mod error;
mod history;
mod join;
mod memory;
mod moving;
mod options;
mod place;
mod queue;
mod rails;
mod read;
mod row;
mod schema;
mod store;
mod transaction;
mod tx;
mod write;
mod writer;

pub use error::OpenError;
pub use join::{InSqlite, in_sqlite};
pub use options::{Durability, Options};
/// What a [`Transaction`] takes and gives: parameters, rows, errors.
pub use rusqlite;
pub use store::Store;
pub use transaction::Transaction;
