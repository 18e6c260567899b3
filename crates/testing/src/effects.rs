//! What really happened, counted.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write,
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::wait::soon;

/// A record of effects, in their order, which outlives the server that has them. Clones are the same
/// record.
///
/// Steps write into it in place of the world outside, or beside it; the test counts.
///
/// ```
/// use steadfast::testing::Effects;
///
/// let effects = Effects::new();
/// effects.add("reserve");
/// effects.add("charge");
/// assert_eq!(effects.count("charge"), 1);
/// effects.assert_exactly([("reserve", 1), ("charge", 1)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Effects(Arc<Kept>);

#[derive(Debug)]
enum Kept {
    Memory { lines: Mutex<Vec<String>>, added: Notify },
    File(PathBuf),
}

impl Default for Kept {
    fn default() -> Kept {
        Kept::Memory { lines: Mutex::default(), added: Notify::new() }
    }
}

impl Effects {
    /// One in memory, for a [`TestServer`](crate::TestServer).
    #[must_use]
    pub fn new() -> Effects {
        Effects::default()
    }

    /// One in a file, for a [`TestProcess`](crate::TestProcess): a line an effect, which the process
    /// appends by itself, or by an `Effects` of its own. The file need not be there yet.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Effects {
        Effects(Arc::new(Kept::File(path.into())))
    }

    /// Notes an effect, and says how often it has happened by now.
    ///
    /// # Panics
    /// If its name has more than one line, or the file can't be written.
    pub fn add(&self, what: &str) -> usize {
        assert!(!what.contains('\n'), "an effect is one line: {what:?}");
        match &*self.0 {
            Kept::Memory { lines, added } => {
                lock(lines).push(what.to_owned());
                added.notify_waiters();
            }
            Kept::File(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                // In one piece: other processes may append as well.
                let written =
                    file.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes()));
                written
                    .unwrap_or_else(|error| panic!("{} can't be written: {error}", path.display()));
            }
        }
        self.count(what)
    }

    /// All effects in their order.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match &*self.0 {
            Kept::Memory { lines, .. } => lock(lines).clone(),
            Kept::File(path) => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                // What has no end is still being written.
                let whole = text.rfind('\n').map_or("", |end| &text[..end]);
                whole.lines().map(str::to_owned).collect()
            }
        }
    }

    /// How often this has happened.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        self.lines().iter().filter(|line| *line == what).count()
    }

    /// Waits until this has happened at least so often.
    ///
    /// # Panics
    /// If it does not in 30 seconds, or in a year of virtual time.
    #[track_caller]
    pub fn wait_for(&self, what: &str, times: usize) -> impl Future<Output = ()> {
        let (this, what) = (self.clone(), what.to_owned());
        soon(format!("the effect {what:?} to happen {times} times"), async move {
            let happened = || this.count(&what) >= times;
            match &*this.0 {
                Kept::Memory { added, .. } => loop {
                    // Listening begins before the look, so that none falls in between.
                    let mut next = pin!(added.notified());
                    next.as_mut().enable();
                    if happened() {
                        return;
                    }
                    next.await;
                },
                Kept::File(_) => {
                    while !happened() {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                }
            }
        })
    }

    /// Asserts that these effects happened so often, and no others, in whatever order.
    ///
    /// # Panics
    /// If not, with all that happened.
    #[track_caller]
    pub fn assert_exactly<'a>(&self, wanted: impl IntoIterator<Item = (&'a str, usize)>) {
        let lines = self.lines();
        let mut counted = BTreeMap::<&str, usize>::new();
        for line in &lines {
            *counted.entry(line).or_default() += 1;
        }
        let wanted = wanted.into_iter().filter(|(_, times)| *times > 0).collect();
        assert_eq!(
            counted, wanted,
            "effects (left), and what was wanted; in their order: {lines:?}"
        );
    }
}

fn lock(lines: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}
