//! Ways to be wrong on purpose, for tests of those who should notice.

use std::sync::atomic::{AtomicBool, Ordering};

static UNFENCED: AtomicBool = AtomicBool::new(false);

/// From now on this process takes whatever a task's former holder writes for the holder's.
pub fn unfence() {
    UNFENCED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_unfenced() -> bool {
    UNFENCED.load(Ordering::Relaxed)
}
