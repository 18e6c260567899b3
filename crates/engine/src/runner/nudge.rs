//! How a running task is told that something happened to it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering},
};

use steadfast_core::{Principal, TaskId};
use steadfast_store::{Desk, TaskRow};
use tokio::sync::{Notify, SetOnce};

/// Flags that are set from anywhere and seen by the task's runner.
pub(crate) struct Nudge {
    /// The epoch of the lease that the runner works with.
    pub(crate) epoch: i64,
    flags: AtomicU8,
    /// The last message that the runner has seen.
    mail: AtomicI64,
    notify: Notify,
    /// Leave at once, whatever is in flight.
    stop: Notify,
    /// What the store holds of the task is not known.
    doubt: AtomicBool,
    pub(crate) id: TaskId,
    pub(crate) owner: Option<Principal>,
    /// Whose process it was started for, if it is of no use without that.
    pub(crate) bound: Option<Desk>,
    /// How many wait here for its end.
    waiting: AtomicUsize,
    /// Set when the task leaves memory: with its row if it has ended.
    left: SetOnce<Option<Arc<TaskRow>>>,
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
    /// The process is going down: finish what is in flight.
    pub(crate) const DRAIN: u8 = 16;

    /// For the runner of this task.
    pub(crate) fn new(epoch: i64, row: &TaskRow) -> Nudge {
        Nudge {
            epoch,
            flags: AtomicU8::new(0),
            mail: AtomicI64::new(0),
            notify: Notify::new(),
            stop: Notify::new(),
            doubt: AtomicBool::new(false),
            id: row.id.clone(),
            owner: row.owner.clone(),
            bound: row.bound,
            waiting: AtomicUsize::new(0),
            left: SetOnce::new(),
        }
    }

    pub(crate) fn set_doubt(&self) {
        self.doubt.store(true, Ordering::Release);
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt.load(Ordering::Acquire)
    }

    /// Whether it was told something that it did not take notice of.
    pub(crate) fn has_news(&self) -> bool {
        self.flags.load(Ordering::Acquire) & !Nudge::DRAIN != 0
    }

    /// Whether it was told anything at all.
    pub(super) fn is_told(&self) -> bool {
        self.flags.load(Ordering::Acquire) != 0
    }

    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }

    /// Waits until the task must leave at once. Of each task's own, because a token that all share
    /// is a lock that all share.
    pub(super) async fn stopped(&self) {
        self.stop.notified().await;
    }

    /// Waits until the task leaves memory; its row if it has ended.
    pub(crate) async fn left(&self) -> Option<Arc<TaskRow>> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.left.wait().await.clone()
    }

    /// Whether somebody wants to know how it ends.
    pub(super) fn is_watched(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// The task leaves memory. Only the first to say so is heard.
    pub(super) fn leave(&self, ended: Option<Arc<TaskRow>>) {
        drop(self.left.set(ended));
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

    /// Takes all flags that are set.
    pub(super) fn take(&self) -> u8 {
        self.flags.swap(0, Ordering::AcqRel)
    }

    /// Waits for a flag, and takes all that are set.
    pub(super) async fn wait(&self) -> u8 {
        loop {
            let flags = self.take();
            if flags != 0 {
                return flags;
            }
            self.notify.notified().await;
        }
    }
}
