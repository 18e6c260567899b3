//! How a running task is told that something happened to it.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use tokio::sync::Notify;

/// Flags that are set from anywhere and seen by the task's runner.
pub(crate) struct Nudge {
    /// The epoch of the lease that the runner works with.
    pub(crate) epoch: i64,
    flags: AtomicU8,
    /// The last message that the runner has seen.
    mail: AtomicI64,
    notify: Notify,
}

impl Nudge {
    /// There is mail.
    pub(crate) const MAIL: u8 = 1;
    /// The lease is gone: cancelled, or taken over.
    pub(crate) const LOST: u8 = 2;
    /// It was suspended.
    pub(crate) const HALT: u8 = 4;
    /// One of these, and its row tells which.
    pub(crate) const LOOK: u8 = 8;

    pub(crate) fn new(epoch: i64) -> Nudge {
        Nudge { epoch, flags: AtomicU8::new(0), mail: AtomicI64::new(0), notify: Notify::new() }
    }

    pub(crate) fn set(&self, why: u8) {
        self.flags.fetch_or(why, Ordering::AcqRel);
        self.notify.notify_one();
    }

    pub(crate) fn mail(&self) -> i64 {
        self.mail.load(Ordering::Acquire)
    }

    pub(super) fn set_mail(&self, seq: i64) {
        self.mail.store(seq, Ordering::Release);
    }

    /// Waits for a flag, and takes all that are set.
    pub(super) async fn wait(&self) -> u8 {
        loop {
            let flags = self.flags.swap(0, Ordering::AcqRel);
            if flags != 0 {
                return flags;
            }
            self.notify.notified().await;
        }
    }
}
