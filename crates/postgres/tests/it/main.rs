//! The store on a real server.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;
mod model;
mod suite;
