//! What the kit promises.

mod effects;
mod process;
mod server;
mod tools;
mod virtual_time;
