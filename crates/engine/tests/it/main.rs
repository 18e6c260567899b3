//! The engine as its users see it, on the store in memory and in virtual time.

mod support;

mod activities;
mod anew;
mod cancel;
mod children;
mod events;
mod idle;
mod limits;
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
