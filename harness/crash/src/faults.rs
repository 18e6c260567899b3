//! What can go wrong between an engine and its store, by chance.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steadfast_store::{Change, Changes, Error, Result};
use tokio::time::Instant;

use crate::Rng;

/// What goes wrong, by chance.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Percent of commits that fail.
    pub fails: u64,
    /// Percent of commits that succeed and whose answer is lost.
    pub lost: u64,
    /// Percent of commits that take long.
    pub slow: u64,
    /// Percent of commits that succeed and whose answer is lost, until it is found out how they ended:
    /// that takes up to three seconds, and if the lease is over by then nobody knows.
    pub late: u64,
    /// Percent of commits from which on the store can't be reached for up to two seconds, nor be read.
    pub away: u64,
    /// Percent of the notices of what others changed that are lost. As on PostgreSQL that is seen by
    /// looking, within a second.
    pub unheard: u64,
}

/// Faults as they come.
pub(crate) struct Weather {
    faults: Faults,
    dice: Arc<Mutex<Rng>>,
    away: Mutex<Option<Instant>>,
}

/// What is to become of the answer to a commit.
#[derive(Default)]
pub(crate) struct Fate {
    lost: bool,
    late: Duration,
}

impl Fate {
    pub(crate) fn is_late(&self) -> bool {
        !self.late.is_zero()
    }

    pub(crate) async fn after_commit(self) -> Result<()> {
        if self.is_late() {
            tokio::time::sleep(self.late).await;
        }
        match self.lost {
            true => Err(Error::Unknown("the answer was lost on purpose".into())),
            false => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn on_purpose<T>() -> Result<T> {
    Err(Error::Unavailable("a fault on purpose".into()))
}

impl Weather {
    pub(crate) fn new(faults: Faults, seed: u64) -> Weather {
        let dice = Arc::new(Mutex::new(Rng::of(seed, 11)));
        Weather { faults, dice, away: Mutex::default() }
    }

    /// Whether the store can be reached.
    pub(crate) fn reach(&self) -> Result<()> {
        let mut away = lock(&self.away);
        match away.filter(|until| Instant::now() < *until) {
            Some(_) => on_purpose(),
            None => {
                *away = None;
                Ok(())
            }
        }
    }

    pub(crate) async fn before_commit(&self) -> Result<Fate> {
        self.reach()?;
        let (fails, lost, slow, late, away, time) = {
            let (mut dice, faults) = (lock(&self.dice), &self.faults);
            let rolled = [faults.fails, faults.lost, faults.slow].map(|chance| dice.chance(chance));
            let [fails, lost, slow] = rolled;
            // Nothing that is not wanted is rolled for: seeds stay what they were.
            let mut rare = |chance: u64| chance > 0 && dice.chance(chance);
            let (late, away) = (rare(faults.late), rare(faults.away));
            let time = if late || away { dice.below(3_000) } else { 0 };
            (fails, lost, slow, late, away, Duration::from_millis(time))
        };
        if slow {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        if away {
            *lock(&self.away) = Some(Instant::now() + time.min(Duration::from_secs(2)));
        }
        if fails || away {
            return on_purpose();
        }
        Ok(Fate { lost, late: if late { time } else { Duration::ZERO } })
    }

    /// What is heard of the notices of a store.
    pub(crate) fn hear(&self, said: Arc<Changes>) -> Arc<Changes> {
        let unheard = self.faults.unheard;
        if unheard == 0 {
            return said;
        }
        let (heard, dice) = (Arc::new(Changes::default()), self.dice.clone());
        let hears = heard.clone();
        tokio::spawn(async move {
            loop {
                let mut change = said.next().await;
                if lock(&dice).chance(unheard) {
                    // That there was something is seen a while later, and not what it was.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    change = Change::anything();
                }
                hears.tell(change);
            }
        });
        heard
    }
}
