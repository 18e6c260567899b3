//! SQL of an author's in the transaction that records it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod alone;
#[path = "../common/mod.rs"]
mod common;
mod rails;
mod slow;
mod tasks;
mod work;
