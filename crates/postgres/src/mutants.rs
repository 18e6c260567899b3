//! Ways to be wrong on purpose, for tests of those who should notice.

use std::sync::atomic::{AtomicBool, Ordering};

static UNFENCED: AtomicBool = AtomicBool::new(false);
static UNDEAD: AtomicBool = AtomicBool::new(false);
static TRUSTING: AtomicBool = AtomicBool::new(false);

/// From now on this process takes whatever a task's former holder writes for the holder's.
pub fn unfence() {
    UNFENCED.store(true, Ordering::Relaxed);
}

/// From now on this process writes in the name of its desk, also when that is dead.
pub fn undie() {
    UNDEAD.store(true, Ordering::Relaxed);
}

/// From now on this process writes what it remembers of a row, also when that was changed by others.
pub fn trust_memory() {
    TRUSTING.store(true, Ordering::Relaxed);
}

pub(crate) fn is_unfenced() -> bool {
    UNFENCED.load(Ordering::Relaxed)
}

pub(crate) fn is_undead() -> bool {
    UNDEAD.load(Ordering::Relaxed)
}

pub(crate) fn trusts_memory() -> bool {
    TRUSTING.load(Ordering::Relaxed)
}
