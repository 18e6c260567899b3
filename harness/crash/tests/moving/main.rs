//! All that is in a store goes on in another: SQLite to PostgreSQL and back, also what was running.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

mod booked;
mod home;
mod refused;
mod rows;
mod seen;
mod states;
mod states_tools;
mod undead;
mod workload;
