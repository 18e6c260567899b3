//! Power-loss tests: a SQLite VFS that records what is written, and the images a power cut can
//! leave.
//!
//! A killed process leaves everything it wrote, because the operating system still has it; only a
//! power cut shows whether a flush was forgotten. So instead of cutting the power, this crate
//! records each write, truncation, deletion and flush of a database in one [`Log`], cuts the log
//! anywhere, and builds what a disk may then hold: all that was flushed, and of the rest anything
//! at all, torn writes included.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let recorder = steadfast_powerloss::Recorder::register("recorded")?;
//! // Open a database with the VFS "recorded", and after each commit that returned:
//! recorder.mark("commit 17");
//! for image in recorder.images(1, 500) {
//!     let dir = steadfast_powerloss::scratch()?;
//!     image.write_to(dir.path())?;
//!     // Open the copy with the usual VFS: all of image.marks must be there.
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The disk that is modelled
//!
//! * A flush of a file makes durable what was written to that file before, and the file's own
//!   directory entry.
//! * The first flush of a new journal or WAL flushes the directory as well, as SQLite's unix VFS
//!   does: from then on all earlier creations and deletions in it are durable.
//! * Sectors of 512 bytes stand or fall alone. A torn write never damages bytes outside its range,
//!   which is what SQLite counts on by default ("powersafe overwrite").
//! * Nothing is said about disks that acknowledge a flush and lie; [`Recorder::drop_syncs`] makes
//!   one, to prove that a test would notice.

// It wraps SQLite's unix VFS and reads paths as unix has them.
#![cfg(unix)]
// A VFS is a table of C functions; every block says why it is sound.
#![allow(unsafe_code)]

mod disk;
mod file;
mod image;
mod log;
mod recorder;
mod rng;
mod setup;
mod vfs;

pub use image::{Image, Images, Loss};
pub use log::{Entry, Log, Node};
pub use recorder::Recorder;
pub use rng::Rng;
pub use setup::{runs, scratch};
