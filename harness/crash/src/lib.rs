//! Kills Steadfast at every boundary and at random, and counts effects exactly.
//!
//! * [`everything`] is one task with every durable operation in it, for sweeps over all boundaries.
//! * [`booking`] is one with transactions: rows of its own that are committed with their steps.
//! * [`workload`] and [`driver`] are thousands of tasks of several kinds and whoever starts,
//!   answers, signals and cancels them; [`check`] compares what happened with what may have.
//! * [`payments`] are tasks with transactions beside these, whose rows are counted.
//! * [`Ledger`] is where effects and acknowledgements are noted, outside the process that dies.
//! * [`kept`] are tasks in every state, of which there is a database for each version of the tables.
//! * [`Bent`] is a store that dies, fails, loses answers, or is wrong on purpose.

mod bent;
pub mod booking;
pub mod check;
pub mod driver;
pub mod everything;
mod faults;
pub mod kept;
mod ledger;
pub mod payments;
mod place;
mod rng;
pub mod workload;

pub use bent::{At, Bent, Mutant};
pub use faults::Faults;
pub use ledger::{Entry, Ledger};
pub use place::Place;
pub use rng::Rng;
