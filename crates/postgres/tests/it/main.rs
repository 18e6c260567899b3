//! The store on a real server.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod certificates;
mod common;
mod documented;
mod fence;
mod health;
mod hosts;
mod lost;
mod meet;
mod model;
mod opening;
mod papers;
mod plans;
mod pooled;
mod proxy;
mod secure;
mod silent;
mod suite;
mod told;
mod transactions;
mod trouble;
mod versions;
