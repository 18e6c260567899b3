//! When to try again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Failure;

/// A retry policy: how often, how soon, and for which errors.
///
/// ```
/// # use steadfast_core::Retry;
/// # use std::time::Duration;
/// let patient = Retry::exponential().attempts(5).only(["busy"]);
/// let stubborn = Retry::forever().first_delay(Duration::from_secs(1)).timeout(Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retry {
    attempts: Option<u32>,
    first_delay_ms: u64,
    max_delay_ms: u64,
    factor: f64,
    jitter: f64,
    timeout_ms: Option<u64>,
    only: Option<Vec<String>>,
    except: Vec<String>,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            attempts: Some(3),
            first_delay_ms: 100,
            max_delay_ms: 60_000,
            factor: 2.0,
            jitter: 0.2,
            timeout_ms: None,
            only: None,
            except: Vec::new(),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Retry {
    /// Three attempts in all; 0.1 s before the second, then doubling up to a minute, 20 % jitter.
    #[must_use]
    pub fn exponential() -> Retry {
        Retry::default()
    }

    /// The same delays, without an end.
    #[must_use]
    pub fn forever() -> Retry {
        Retry { attempts: None, ..Retry::default() }
    }

    /// One attempt: only the per-attempt timeout applies.
    #[must_use]
    pub fn never() -> Retry {
        Retry { attempts: Some(1), ..Retry::default() }
    }

    /// How many attempts in all. Zero counts as one.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Retry {
        self.attempts = Some(attempts.max(1));
        self
    }

    /// The delay before the second attempt.
    #[must_use]
    pub fn first_delay(mut self, delay: Duration) -> Retry {
        self.first_delay_ms = millis(delay);
        self
    }

    /// No delay is longer than this.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Retry {
        self.max_delay_ms = millis(delay);
        self
    }

    /// What each delay is multiplied by; less than one counts as one.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Retry {
        self.factor = if factor.is_finite() { factor.max(1.0) } else { 1.0 };
        self
    }

    /// How far a delay may stray to either side, as a share of it, from 0 to 1.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Retry {
        self.jitter = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self
    }

    /// How long one attempt may take. A longer one fails as timed out, and counts.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Retry {
        self.timeout_ms = Some(millis(timeout));
        self
    }

    /// Retry only errors with one of these codes (and attempts that timed out).
    #[must_use]
    pub fn only<S: Into<String>>(mut self, codes: impl IntoIterator<Item = S>) -> Retry {
        self.only = Some(codes.into_iter().map(Into::into).collect());
        self
    }

    /// Never retry errors with one of these codes.
    #[must_use]
    pub fn except<S: Into<String>>(mut self, codes: impl IntoIterator<Item = S>) -> Retry {
        self.except = codes.into_iter().map(Into::into).collect();
        self
    }

    /// The time one attempt may take.
    #[must_use]
    pub fn attempt_timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    /// How long to wait after attempt number `attempt` (from 1) failed, or `None` to give up.
    ///
    /// `dice` is any number; it decides the jitter, so that the same number gives the same delay.
    #[must_use]
    pub fn after(&self, attempt: u32, failure: &Failure, dice: u64) -> Option<Duration> {
        use crate::FailureKind;
        let code = failure.code.as_deref();
        let listed = |codes: &[String]| code.is_some_and(|code| codes.iter().any(|c| c == code));
        let wanted = match &self.only {
            None => true,
            Some(only) => listed(only) || failure.kind == FailureKind::TimedOut,
        };
        let spent = self.attempts.is_some_and(|most| attempt >= most);
        if failure.permanent || !wanted || listed(&self.except) || spent {
            return None;
        }
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.first_delay_ms as f64 * self.factor.powi(exponent);
        // Nothing stays nothing, however often it is doubled: zero times infinity is no number.
        let grown = if self.first_delay_ms == 0 { 0.0 } else { grown };
        let capped = grown.min(self.max_delay_ms as f64);
        // The upper 53 bits make a float in 0..1.
        let unit = (dice >> 11) as f64 / (1u64 << 53) as f64;
        let strayed = capped * (1.0 + self.jitter * (2.0 * unit - 1.0));
        Some(Duration::from_millis(strayed.max(0.0) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureKind;

    fn coded(code: &str) -> Failure {
        Failure { code: Some(code.into()), ..Failure::new(FailureKind::Error, "no") }
    }

    #[test]
    fn delays_double_up_to_the_cap_and_stay_within_the_jitter() {
        let retry = Retry::forever().max_delay(Duration::from_millis(1000));
        let no = Failure::new(FailureKind::Error, "no");
        for (attempt, middle) in
            [(1, 100.0), (2, 200.0), (4, 800.0), (5, 1000.0), (4_000_000, 1000.0)]
        {
            for dice in [0, u64::MAX / 2, u64::MAX] {
                let delay = retry.after(attempt, &no, dice).unwrap().as_millis() as f64;
                assert!((delay - middle).abs() <= middle * 0.2 + 1.0, "{attempt} {delay}");
            }
        }
    }

    #[test]
    fn no_delay_stays_no_delay() {
        let retry = Retry::forever().first_delay(Duration::ZERO);
        let no = Failure::new(FailureKind::Error, "no");
        assert_eq!(retry.after(4_000_000, &no, 7), Some(Duration::ZERO));
    }

    #[test]
    fn codes_decide_what_may_retry() {
        let retry = Retry::exponential().only(["busy"]).except(["gone"]);
        assert!(retry.after(1, &coded("busy"), 0).is_some());
        assert!(retry.after(1, &coded("other"), 0).is_none());
        assert!(retry.after(1, &coded("gone"), 0).is_none());
        assert!(retry.after(1, &coded("busy").permanently(), 0).is_none());
        assert!(retry.after(3, &coded("busy"), 0).is_none(), "three attempts in all");
        assert!(retry.after(1, &Failure::new(FailureKind::TimedOut, "slow"), 0).is_some());
    }
}
