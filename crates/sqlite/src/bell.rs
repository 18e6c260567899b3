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
            atomic::{AtomicBool, AtomicU64, Ordering},
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
        /// How often others were seen to come or go.
        moves: AtomicU64,
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
                moves: AtomicU64::new(0),
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
            let mut others = self.others();
            if let Some(found) = self.bells() {
                self.now(&mut others, found);
            }
        }

        /// The sockets of the others.
        fn bells(&self) -> Option<Vec<PathBuf>> {
            let entries = std::fs::read_dir(self.own.parent()?).ok()?;
            let paths = entries.flatten().map(|entry| entry.path());
            let bells = paths.filter(|path| path.extension().is_some_and(|ext| ext == "bell"));
            Some(bells.filter(|path| *path != self.own).collect())
        }

        fn now(&self, others: &mut Vec<PathBuf>, found: Vec<PathBuf>) {
            *others = found;
            self.company.store(!others.is_empty(), Ordering::Release);
            // Also if the same are there as before: some may have come and gone in between.
            self.moves.fetch_add(1, Ordering::AcqRel);
        }

        /// A number as long as nobody else is there; another one if somebody was there since.
        pub(crate) fn solitude(&self) -> Option<u64> {
            let alone = !self.company.load(Ordering::Acquire);
            alone.then(|| self.moves.load(Ordering::Acquire))
        }

        /// Tells the others that the file has changed.
        pub(crate) fn ring(&self) {
            if self.company.load(Ordering::Acquire) {
                self.send(CHANGED);
            }
        }

        fn send(&self, what: u8) {
            let mut others = self.others();
            let before = others.len();
            others.retain(|path| match self.mouth.send_to(&[what], path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    // Nobody is behind it: its process has died.
                    let _ = std::fs::remove_file(path);
                    false
                }
                Err(error) => error.kind() != io::ErrorKind::NotFound,
                Ok(_) => true,
            });
            if before > 0 && others.is_empty() {
                // The hello of another may have been lost among the rings.
                let found = self.bells().unwrap_or_default();
                self.now(&mut others, found);
            }
        }

        /// Waits until somebody says that the file has changed. False when the bell is closed.
        pub(crate) fn listen(&self) -> bool {
            loop {
                let mut byte = [0];
                let heard = self.ear.recv(&mut byte);
                if self.closed.load(Ordering::Acquire) || heard.is_err() {
                    return false;
                }
                // Who rings is there, even if its hello was lost.
                if byte[0] == HELLO || !self.company.load(Ordering::Acquire) {
                    self.look_around();
                }
                if byte[0] != HELLO {
                    return true;
                }
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
        pub(crate) fn solitude(&self) -> Option<u64> {
            None
        }
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
        let alone = one.solitude();
        assert!(alone.is_some());
        let two = Bell::hang(dir.path(), 2).unwrap();
        two.ring();
        assert!(one.listen(), "behind the hello of the second");
        assert_eq!((one.solitude(), two.solitude()), (None, None));
        one.ring();
        assert!(two.listen());
        // As if its process had died: nobody is behind its socket any more.
        drop(two);
        one.ring();
        assert!(!dir.path().join("2.bell").exists());
        assert!(
            one.solitude().is_some_and(|number| Some(number) != alone),
            "not as if nobody had come"
        );
        one.close();
        assert!(!one.listen());
        assert!(!dir.path().join("1.bell").exists());
    }
}
