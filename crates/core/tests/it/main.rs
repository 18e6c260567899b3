//! The replay machine against random programs in a simulated world, and one behaviour at a time.

#![allow(clippy::unwrap_used)] // A helper that unwraps fails the test that it serves.

mod anew;
mod check;
mod code;
mod durable;
mod fuzz;
mod golden;
mod joins;
mod limits;
mod matching;
mod program;
mod race;
mod replay;
mod rig;
mod signals;
mod steps;
mod versions;
mod view;
mod world;
