//! The front as its clients see it: over HTTP on a real socket, and over a pair of byte streams.

// The lint knows test functions, not those that they share.
#![allow(clippy::unwrap_used)]

mod bent;
mod heard;
mod http;
mod late;
mod pair;
mod site;
mod tools;
mod traffic;
mod unsteady;

mod again;
mod asking;
mod callers;
mod calls_2026;
mod companions;
mod copies;
mod early;
mod entry;
mod head;
mod legacy;
mod list;
mod musts_2025;
mod musts_2026;
mod own_stream;
mod rounds_2026;
mod sessions;
mod sse_2024;
mod stdio;
mod strangers;
mod tasks_2025;
mod tasks_2026;
mod theirs;
mod words;
