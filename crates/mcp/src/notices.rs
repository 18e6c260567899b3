//! What all clients are told: that the offer has changed, or a resource. Each is a notice in the store, so
//! that a client that comes back hears what it missed, from whatever process, and one that is connected to
//! another process hears it too.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steadfast_engine::{CallError, Engine};
use tokio::sync::{mpsc, watch};

use crate::catalog::Change;

/// Notices that are kept in memory, so that not every stream has to read them.
const RECENT: usize = 256;

pub(crate) struct Notices {
    engine: Engine,
    recent: Mutex<Recent>,
    last: watch::Sender<u64>,
}

/// The last that were read, and the number behind which they are all there.
#[derive(Default)]
struct Recent {
    behind: u64,
    notices: VecDeque<(u64, Change)>,
}

impl Notices {
    pub(crate) fn new(engine: Engine) -> Notices {
        Notices { engine, recent: Mutex::default(), last: watch::Sender::new(0) }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the last that there is.
    pub(crate) async fn last(&self) -> Result<u64, CallError> {
        Ok(self.engine.notices(u64::MAX, 0).await?.1)
    }

    /// Changes when there are more.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The notices behind this number, or the first of them if there are many.
    pub(crate) async fn behind(&self, number: u64) -> Result<Vec<(u64, Change)>, CallError> {
        {
            let recent = self.recent();
            if number >= recent.behind {
                let later = recent.notices.iter().filter(|(n, _)| *n > number);
                return Ok(later.cloned().collect());
            }
        }
        let (posted, _) = self.engine.notices(number, RECENT).await?;
        Ok(posted.iter().map(|(n, body)| (*n, Change::read(body))).collect())
    }

    /// Puts up what changes here, and reads what others put up, for ever.
    pub(crate) async fn keep(&self, mut changes: mpsc::UnboundedReceiver<Change>) {
        let mut elsewhere = self.engine.news();
        while let Err(error) = self.begin().await {
            away(&error).await;
        }
        loop {
            tokio::select! {
                Some(change) = changes.recv() => {
                    while let Err(error) = self.engine.post(&change).await {
                        away(&error).await;
                    }
                }
                changed = elsewhere.changed() => if changed.is_err() { return },
            }
            while let Err(error) = self.read().await {
                away(&error).await;
            }
        }
    }

    /// What was there before is for those who come back.
    async fn begin(&self) -> Result<(), CallError> {
        let last = self.last().await?;
        self.recent().behind = last;
        self.last.send_replace(last);
        Ok(())
    }

    /// Reads those that are new.
    async fn read(&self) -> Result<(), CallError> {
        loop {
            let known = *self.last.borrow();
            let (posted, _) = self.engine.notices(known, RECENT).await?;
            let Some(&(last, _)) = posted.last() else { return Ok(()) };
            let mut recent = self.recent();
            recent.notices.extend(posted.iter().map(|(n, body)| (*n, Change::read(body))));
            while recent.notices.len() > RECENT {
                recent.behind = recent.notices.pop_front().map_or(recent.behind, |(n, _)| n);
            }
            drop(recent);
            self.last.send_replace(last);
        }
    }
}

/// The store may be away for a while.
async fn away(error: &CallError) {
    tracing::warn!(%error, "can't reach the notices; trying again");
    tokio::time::sleep(Duration::from_millis(200)).await;
}
