//! The store on a real server.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;
mod documented;
mod fence;
mod health;
mod hosts;
mod limits;
mod lost;
mod meet;
mod model;
mod opening;
mod plans;
mod pooled;
mod proxy;
mod secure;
mod suite;
mod told;
mod transactions;
mod trouble;
mod versions;
mod works;
