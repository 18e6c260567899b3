//! The engine as its users see it, on the store in memory and in virtual time.

// The lint knows test functions, not those that they share.
#![allow(clippy::unwrap_used)]

mod slow;
mod support;

mod activities;
mod anew;
mod apart;
mod bound;
mod cancel;
mod children;
mod effects;
mod events;
mod follow;
mod front;
mod held_back;
mod idle;
mod limits;
mod lost_answers;
mod names;
mod operator;
mod panics;
mod parking;
mod processes;
mod questions;
mod rehearsal;
mod replay;
mod rerun;
mod retention;
mod sagas;
mod slow_store;
mod start;
mod state;
mod steering;
mod steps;
mod stuck;
mod tokens;
