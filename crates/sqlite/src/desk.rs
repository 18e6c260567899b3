//! Desks: a lock file each, held by the operating system for as long as the process lives.
//!
//! Nothing has to be written to stay alive, and a death is seen at once: whoever can lock the file
//! knows that nobody holds it. The lock belongs to the open file, so two handles in one process are
//! two desks.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// The directory of the lock files of one database.
#[derive(Clone, Debug)]
pub(crate) struct Desks(PathBuf);

/// A desk of this process. It is alive until this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) number: i64,
    _lock: File,
}

impl Desks {
    pub(crate) fn beside(database: &Path) -> Desks {
        let mut path = database.as_os_str().to_owned();
        path.push(".desks");
        Desks(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, desk: i64) -> PathBuf {
        self.0.join(desk.to_string())
    }

    /// Takes a desk that nobody ever had. It may be written to the database only after this.
    pub(crate) fn sit(&self) -> io::Result<Seat> {
        match std::fs::create_dir(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        loop {
            let number = (getrandom::u64().map_err(io::Error::other)? >> 1).max(1) as i64;
            let path = self.file(number);
            let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            // Between creation and lock somebody may have taken the file for a dead desk's.
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(error),
                Ok(()) if still_at(&file, &path) => return Ok(Seat { number, _lock: file }),
                Ok(()) => {}
            }
        }
    }

    /// Whether the process of a desk may still live. If that can't be told it does: taking from the
    /// living is worse than waiting for the dead.
    pub(crate) fn is_alive(&self, desk: i64) -> bool {
        match File::open(self.file(desk)) {
            Err(error) => error.kind() != io::ErrorKind::NotFound,
            // Shared, so that two who look at the same time don't take each other for the owner.
            Ok(file) => file.try_lock_shared().is_err(),
        }
    }

    /// How many desks are alive.
    pub(crate) fn alive(&self) -> usize {
        let Ok(entries) = std::fs::read_dir(&self.0) else { return 0 };
        let desk = |name: std::ffi::OsString| name.to_str().and_then(|name| name.parse().ok());
        let desks = entries.flatten().filter_map(|entry| desk(entry.file_name()));
        desks.filter(|desk| self.is_alive(*desk)).count()
    }

    /// Removes the lock files of dead desks that `is_bare` says hold nothing. Whatever can't be
    /// removed now stays for the next time.
    pub(crate) fn clean(&self, mut is_bare: impl FnMut(i64) -> bool) {
        let Ok(entries) = std::fs::read_dir(&self.0) else { return };
        for entry in entries.flatten() {
            let Some(desk) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // Asked first: the lock of a desk that holds something is left for those who look
            // whether it is alive.
            if is_bare(desk)
                && let Ok(file) = File::open(entry.path())
                && file.try_lock().is_ok()
            {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Removes the lock file of a desk that will never hold anything again.
    pub(crate) fn remove(&self, desk: i64) {
        let _ = std::fs::remove_file(self.file(desk));
    }
}

/// Whether the path still leads to this open file.
#[cfg(unix)]
fn still_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.ino() == named.ino() && open.dev() == named.dev(),
        _ => false,
    }
}

/// An open file can't be removed there.
#[cfg(not(unix))]
fn still_at(_: &File, _: &Path) -> bool {
    true
}
