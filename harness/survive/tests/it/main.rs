//! Ordinary calls, of clients that know no tasks, over a server that is killed with `kill -9`; and all kinds
//! of requests to one of several processes that share a store about what another is at.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

/// Makes a test of each of these functions on each store that processes can share.
macro_rules! on_each_store {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[test] fn $case() { super::$case($crate::server::Place::Sqlite); })*
        }
        mod postgres {
            $(#[test] fn $case() { super::$case($crate::server::Place::Postgres); })*
        }
    };
}

mod apart;
mod asked;
mod batches;
mod between;
mod calls;
mod client;
mod closed;
mod keys;
mod migrated;
mod notices;
mod piped;
mod questions;
mod repeated;
mod replicas;
mod revisions;
mod secrets;
mod server;
mod sessions;
mod shared;
mod streams;
mod theirs;
mod trouble;
