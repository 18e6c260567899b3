//! What a server offers by attributes, as a client sees and uses it.
#![allow(missing_docs)]

mod client;
mod prompts;
mod resources;
mod tools;
