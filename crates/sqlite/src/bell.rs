//! How processes on one file tell each other that it changed.
//!
//! Each open handle has a socket beside its lock file, and after a commit a byte goes to all the
//! others. Where that can't be had (a path too long for a socket, a system without them) the file
//! is looked at more often instead.

#[cfg(not(unix))]
pub(crate) use nowhere::Bell;
#[cfg(unix)]
pub(crate) use unix::Bell;

/// A byte from a handle that is new here.
#[cfg(unix)]
const HELLO: u8 = b'h';
/// A byte from one that has committed.
#[cfg(unix)]
const CHANGED: u8 = b'c';

#[cfg(unix)]
mod unix {
    use std::{
        io,
        os::unix::net::UnixDatagram,
        path::{Path, PathBuf},
        sync::{
            Mutex, MutexGuard, PoisonError,
            atomic::{AtomicBool, Ordering},
        },
    };

    use super::{CHANGED, HELLO};

    /// This handle's socket, and the others'.
    pub(crate) struct Bell {
        own: PathBuf,
        /// Where others ring. Waits for ever.
        ear: UnixDatagram,
        /// Never waits: whoever does not listen now has something to hear already.
        mouth: UnixDatagram,
        others: Mutex<Vec<PathBuf>>,
        /// There are others. Alone on the file, a commit pays a look at this.
        company: AtomicBool,
        closed: AtomicBool,
    }

    impl Bell {
        /// Makes the socket of a desk, and says hello to the others.
        pub(crate) fn hang(desks: &Path, desk: i64) -> io::Result<Bell> {
            let own = desks.join(format!("{desk}.bell"));
            let ear = UnixDatagram::bind(&own)?;
            let mouth = UnixDatagram::unbound()?;
            mouth.set_nonblocking(true)?;
            let bell = Bell {
                own,
                ear,
                mouth,
                others: Mutex::default(),
                company: AtomicBool::new(false),
                closed: AtomicBool::new(false),
            };
            bell.look_around();
            bell.send(HELLO);
            Ok(bell)
        }

        fn others(&self) -> MutexGuard<'_, Vec<PathBuf>> {
            self.others.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Finds the sockets of the others.
        fn look_around(&self) {
            let Some(Ok(entries)) = self.own.parent().map(std::fs::read_dir) else { return };
            let paths = entries.flatten().map(|entry| entry.path());
            let bells = paths.filter(|path| path.extension().is_some_and(|ext| ext == "bell"));
            let found: Vec<PathBuf> = bells.filter(|path| *path != self.own).collect();
            self.company.store(!found.is_empty(), Ordering::Release);
            *self.others() = found;
        }

        /// Tells the others that the file has changed.
        pub(crate) fn ring(&self) {
            if self.company.load(Ordering::Acquire) {
                self.send(CHANGED);
            }
        }

        fn send(&self, what: u8) {
            let mut others = self.others();
            others.retain(|path| match self.mouth.send_to(&[what], path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    // Nobody is behind it: its process has died.
                    let _ = std::fs::remove_file(path);
                    false
                }
                Err(error) => error.kind() != io::ErrorKind::NotFound,
                Ok(_) => true,
            });
            self.company.store(!others.is_empty(), Ordering::Release);
        }

        /// Waits until somebody says that the file has changed. False when the bell is closed.
        pub(crate) fn listen(&self) -> bool {
            loop {
                let mut byte = [0];
                let heard = self.ear.recv(&mut byte);
                if self.closed.load(Ordering::Acquire) || heard.is_err() {
                    return false;
                }
                if byte[0] != HELLO {
                    return true;
                }
                self.look_around();
            }
        }

        /// Takes it down, and ends whoever listens.
        pub(crate) fn close(&self) {
            self.closed.store(true, Ordering::Release);
            let _ = self.mouth.send_to(&[CHANGED], &self.own);
            let _ = std::fs::remove_file(&self.own);
        }
    }
}

#[cfg(not(unix))]
mod nowhere {
    use std::{io, path::Path};

    pub(crate) struct Bell;

    impl Bell {
        pub(crate) fn hang(_: &Path, _: i64) -> io::Result<Bell> {
            Err(io::ErrorKind::Unsupported.into())
        }
        pub(crate) fn ring(&self) {}
        pub(crate) fn listen(&self) -> bool {
            false
        }
        pub(crate) fn close(&self) {}
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::Bell;

    #[test]
    fn who_comes_later_is_heard_and_hears_and_the_dead_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let one = Bell::hang(dir.path(), 1).unwrap();
        one.ring();
        let two = Bell::hang(dir.path(), 2).unwrap();
        two.ring();
        assert!(one.listen(), "behind the hello of the second");
        one.ring();
        assert!(two.listen());
        // As if its process had died: nobody is behind its socket any more.
        drop(two);
        one.ring();
        assert!(!dir.path().join("2.bell").exists());
        one.close();
        assert!(!one.listen());
        assert!(!dir.path().join("1.bell").exists());
    }
}
