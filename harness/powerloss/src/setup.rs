//! What every power-loss test needs around it.

use std::{io, ops::Range, path::Path};

use tempfile::TempDir;

/// A directory for files that nobody needs for long: in memory where the system offers that, so
/// that thousands of images don't wait for a disk.
///
/// # Errors
///
/// If it can't be created.
pub fn scratch() -> io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        return tempfile::tempdir_in(memory);
    }
    tempfile::tempdir()
}

/// The seeds of the runs to record: `usual` many, or as many as `POWERLOSS_RUNS` says for a longer
/// search.
#[must_use]
pub fn runs(usual: u64) -> Range<u64> {
    let wanted = std::env::var("POWERLOSS_RUNS").ok();
    0..wanted.and_then(|runs| runs.parse().ok()).unwrap_or(usual)
}
