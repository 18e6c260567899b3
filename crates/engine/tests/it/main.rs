//! The engine as its users see it, on the store in memory and in virtual time.

mod support;

mod activities;
mod children;
mod events;
mod operator;
mod questions;
mod replay;
mod sagas;
mod state;
mod steps;
mod steering;
