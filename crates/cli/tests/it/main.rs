//! The program as a process, against a server that is another, and is killed with `kill -9`.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

mod bridge;
mod calls;
mod dev;
mod migrate;
mod moving;
mod process;
mod questions;
#[path = "../../../client/tests/it/server.rs"]
mod server;
mod stdio;
#[path = "../../../client/tests/it/tools.rs"]
mod tools;
