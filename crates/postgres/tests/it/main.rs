//! The store on a real server.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;
mod fence;
mod lost;
mod meet;
mod model;
mod opening;
mod plans;
mod proxy;
mod secure;
mod suite;
mod told;
mod transactions;
mod trouble;
