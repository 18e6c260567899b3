//! An rmcp handler as the clients of a Steadfast server see it, over HTTP.

// The lint knows test functions, not those that they share.
#![allow(clippy::unwrap_used)]

mod shop;
mod site;

mod calls;
mod changes;
mod durable;
mod macros;
mod reading;
