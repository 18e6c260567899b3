//! A Steadfast store on PostgreSQL, for any number of processes on any number of machines.
//!
//! ```no_run
//! # async fn example() -> Result<(), steadfast_postgres::OpenError> {
//! let store = steadfast_postgres::Store::open("postgres://app@db.example/app").await?;
//! # Ok(()) }
//! ```
//!
//! * [`Options`] opens a database, and says clearly why it can't: too old, a newer schema, a pooler in
//!   between. `given` understands what it is given, `address`, `hosts`, `password`, `tls` and `trust` are how
//!   it is reached, `conn` is one connection, `pooler` sees who is in between.
//! * A **desk** is a row with a time until which its process is alive, by the database's clock.
//!   Every transaction that writes checks it first, and holds it: a process that was stopped for
//!   longer than its lease can change nothing, whether somebody has noticed or not.
//! * `writer` takes every command that waits in the `queue`, loads and locks all that they involve in
//!   one trip, decides them in memory one after the other (`work`, `write`), writes the result back in
//!   a second trip and commits, and only then answers. The number of statements does not grow with
//!   the number of commands. What it knows by heart of the tasks in its hands it need not load: see
//!   `work::recall`.
//! * `solo` are calls that look for their rows by themselves, like a claim. `lane` is what both have
//!   in common: what becomes of a transaction that fails, and how a lost answer to a commit is found.
//! * [`in_postgres`] is SQL of an author's that is committed together with a step, on a connection of its own:
//!   see `join`.
//! * `read` is answered from connections of its own.
//! * `life` is the heartbeat, and how processes hear of each other: `news` is what they say, `bell` says when,
//!   and `ear` notices what was not heard. `health` says whether the database takes what is written.
//! * `moving` gives out all that is in a schema, to be moved to another store, and takes it in.
//! * `schema` has the tables.

mod address;
mod answer;
mod bell;
mod conn;
mod core;
mod ear;
mod error;
mod given;
mod health;
mod hosts;
mod join;
mod keys;
mod lane;
mod life;
mod locks;
mod moving;
#[cfg(feature = "mutants")]
pub mod mutants;
mod news;
mod options;
mod password;
mod pooler;
mod queue;
mod read;
mod row;
mod schema;
mod solo;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod tls;
mod trust;
mod version;
mod work;
mod write;
mod writer;

pub use error::OpenError;
pub use join::{InPostgres, Isolation, SqlError, Transaction, in_postgres};
pub use options::Options;
pub use store::Store;
/// What a [`Transaction`] takes and gives: parameters, rows, errors.
pub use tokio_postgres;
