//! Points in time and lifetimes, in whole milliseconds but for where it matters which of two came first.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since the Unix epoch.
///
/// Arithmetic saturates, so that a lifetime of any size is safe to add.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// A point later than any other.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// This point plus a duration, or [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Timestamp {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    /// How long from this point until `later`; zero if it has passed.
    #[must_use]
    pub fn until(self, later: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

/// A point in time that is told from others close to it: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// Later than any other.
    pub const MAX: Moment = Moment(i64::MAX);

    /// So long before this.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Moment {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Moment(self.0.saturating_sub(micros))
    }

    /// How long from this point until `later`; zero if it has passed.
    #[must_use]
    pub fn until(self, later: Moment) -> Duration {
        Duration::from_micros(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Moment {
        Moment(at.0.saturating_mul(1_000))
    }
}

/// How long something is kept: a number of milliseconds of any size, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ttl {
    /// Kept this many milliseconds.
    Millis(u64),
    /// Never removed.
    Forever,
}

impl Ttl {
    /// A lifetime of whole days.
    #[must_use]
    pub const fn days(days: u64) -> Ttl {
        Ttl::Millis(days.saturating_mul(24 * 60 * 60 * 1000))
    }

    /// When something that starts to age at `from` is to be removed; `None` for never.
    #[must_use]
    pub fn expiry(self, from: Timestamp) -> Option<Timestamp> {
        match self {
            Ttl::Forever => None,
            Ttl::Millis(millis) => {
                let at = from.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX));
                // A lifetime past the end of time is no lifetime at all.
                (at != i64::MAX).then_some(Timestamp(at))
            }
        }
    }
}

impl From<Duration> for Ttl {
    fn from(duration: Duration) -> Ttl {
        Ttl::Millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_of_any_size_never_expires_early() {
        let now = Timestamp(1_800_000_000_000);
        assert_eq!(Ttl::Millis(1 << 31).expiry(now), Some(Timestamp(now.0 + (1 << 31))));
        assert_eq!(Ttl::Millis(u64::MAX).expiry(now), None);
        assert_eq!(Ttl::Forever.expiry(now), None);
        assert_eq!(now.plus(Duration::MAX), Timestamp::MAX);
        assert_eq!(now.until(Timestamp(0)), Duration::ZERO);
    }
}
