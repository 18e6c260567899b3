//! The client against a server that is a process, and is killed with `kill -9`; and against servers that
//! answer as no server should.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

mod broken;
mod cancelled;
mod questions;
mod server;
mod sessions;
mod survival;
mod tasks;
mod tools;
