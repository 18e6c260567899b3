//! Ordinary calls, of clients that know no tasks, over a server that is killed with `kill -9`.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

mod asked;
mod batches;
mod calls;
mod client;
mod closed;
mod keys;
mod notices;
mod piped;
mod questions;
mod repeated;
mod revisions;
mod server;
mod sessions;
mod shared;
mod streams;
mod theirs;
