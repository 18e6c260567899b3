//! Time and chance, injected, so that a whole engine can run in a simulation from a seed.

use std::time::{SystemTime, UNIX_EPOCH};

use steadfast_core::{Moment, Timestamp};

/// Where time and randomness come from.
///
/// Sleeping goes through `tokio::time`, which a test can pause; this is for the rest.
pub trait World: Send + Sync + 'static {
    /// What time it is.
    fn now(&self) -> Timestamp;

    /// The same, as exactly as it is known.
    fn moment(&self) -> Moment {
        self.now().into()
    }

    /// 128 bits that nobody can guess.
    fn random(&self) -> u128;
}

/// The operating system's clock and random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl World for System {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(0).plus(since)
    }

    fn moment(&self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        // Without randomness ids could be guessed and tasks taken by strangers: there is nothing
        // sensible to go on with.
        if let Err(error) = getrandom::fill(&mut bytes) {
            panic!("the operating system has no random numbers: {error}");
        }
        u128::from_le_bytes(bytes)
    }
}

/// Virtual time and seeded dice: with `tokio::time::pause` a whole engine runs in a simulation,
/// the same way each time.
#[derive(Debug)]
pub struct Simulated {
    epoch: Timestamp,
    begun: tokio::time::Instant,
    dice: std::sync::Mutex<u64>,
}

impl Simulated {
    /// A world that begins at `epoch`, at the tokio clock's present.
    #[must_use]
    pub fn new(epoch: Timestamp, seed: u64) -> Simulated {
        Simulated { epoch, begun: tokio::time::Instant::now(), dice: seed.into() }
    }

    fn roll(&self) -> u64 {
        let mut dice = self.dice.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SplitMix64.
        *dice = dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*dice ^ (*dice >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl World for Simulated {
    fn now(&self) -> Timestamp {
        self.epoch.plus(self.begun.elapsed())
    }

    fn random(&self) -> u128 {
        u128::from(self.roll()) << 64 | u128::from(self.roll())
    }
}
