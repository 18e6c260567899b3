//! The store on a real server.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod certificates;
mod claims;
mod common;
mod documented;
mod fence;
mod freed;
mod health;
mod hosts;
mod limits;
mod lost;
mod meet;
mod memory;
mod model;
mod opening;
mod papers;
mod plans;
mod pooled;
mod proxy;
mod reading;
mod secure;
mod silent;
mod suite;
mod sweep;
mod told;
mod transactions;
mod trouble;
mod versions;
mod works;
