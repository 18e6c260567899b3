//! The engine as its users see it, on the store in memory and in virtual time.

// The lint knows test functions, not those that they share.
#![allow(clippy::unwrap_used)]

mod support;

mod activities;
mod anew;
mod cancel;
mod children;
mod events;
mod idle;
mod limits;
mod names;
mod operator;
mod panics;
mod parking;
mod processes;
mod questions;
mod replay;
mod rerun;
mod retention;
mod sagas;
mod start;
mod state;
mod steering;
mod steps;
mod stuck;
mod tokens;
