//! The recorder: what a test holds.

use std::{ffi::CString, io, sync::Arc};

use crate::{
    image::Images,
    log::{Entry, Log, Tape},
    vfs::{self, Registered},
};

/// Records what is done to databases that are opened with its VFS. One database per recorder.
pub struct Recorder {
    tape: Arc<Tape>,
    registered: Registered,
}

impl Recorder {
    /// Registers a VFS of this name, on top of the system's own.
    ///
    /// # Errors
    ///
    /// If the name is taken or can't be one.
    pub fn register(name: &str) -> io::Result<Recorder> {
        let c_name = CString::new(name)?;
        let tape = Arc::new(Tape::default());
        let registered = vfs::register(c_name, Arc::clone(&tape))?;
        Ok(Recorder { tape, registered })
    }

    /// Notes something in the log. A mark says: what went before is done, the test was told so.
    pub fn mark(&self, label: impl AsRef<str>) {
        self.tape.push(Entry::Mark(label.as_ref().into()));
    }

    /// From now on flushes are acknowledged and not done: a mutant, to prove that a test finds
    /// what is lost then.
    pub fn drop_syncs(&self, on: bool) {
        self.tape.set_drop_syncs(on);
    }

    /// The next flushes, this many of them, fail: what was written before them may or may not be on
    /// the disk.
    pub fn fail_syncs(&self, count: u32) {
        self.tape.set_fail_syncs(count);
    }

    /// The log so far.
    #[must_use]
    pub fn log(&self) -> Log {
        self.tape.log()
    }

    /// `count` images that a power cut somewhere in the log so far can leave; the same ones for the
    /// same log and seed.
    #[must_use]
    pub fn images(&self, seed: u64, count: usize) -> Images {
        self.log().images(seed, count)
    }
}

impl Drop for Recorder {
    /// Databases that are still open stay usable; no further ones can be opened by the name.
    fn drop(&mut self) {
        self.registered.unregister();
        self.tape.clear();
    }
}
