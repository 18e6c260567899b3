//! Since when a request may have been waiting for us to read it.
//!
//! A process that is stopped, swapped out or on a machine that is paused reads what was sent to it meanwhile as if
//! it came just then. Its client may have made the request again elsewhere by that time, and have the answer. So
//! somebody here looks at the clock all the time, and sees that nobody did.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How often somebody looks.
const BEAT: Duration = Duration::from_millis(250);
/// Who has not looked for so long has stood still. Less is the load of the machine.
const STILL: Duration = Duration::from_secs(1);
/// How long it takes to read all that came meanwhile.
const READ: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Beats {
    last: Instant,
    /// From when to when it has stood still last.
    stood: Option<(Instant, Instant)>,
}

impl Beats {
    fn beat(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) > STILL {
            self.stood = Some((self.last, now));
        }
        self.last = now;
    }

    fn asked(&self, now: Instant) -> Instant {
        if now.saturating_duration_since(self.last) > STILL {
            return self.last;
        }
        match self.stood {
            Some((from, until)) if now.saturating_duration_since(until) < READ => from,
            _ => now,
        }
    }
}

/// Whether this process has stood still, and since when.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Beats>);

impl Pulse {
    /// A thread of its own looks: one of the runtime's would be held up by virtual time in tests, and by
    /// whatever the runtime is at.
    pub(crate) fn start() -> Arc<Pulse> {
        let pulse = Arc::new(Pulse(Mutex::new(Beats { last: Instant::now(), stood: None })));
        let beating = Arc::downgrade(&pulse);
        let beats = move || {
            while let Some(pulse) = beating.upgrade() {
                pulse.beats().beat(Instant::now());
                drop(pulse);
                thread::sleep(BEAT);
            }
        };
        if let Err(error) = thread::Builder::new().name("steadfast-pulse".into()).spawn(beats) {
            // Then every request counts as one that may have waited.
            tracing::warn!(%error, "nobody sees whether this process stands still");
        }
        pulse
    }

    fn beats(&self) -> MutexGuard<'_, Beats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The earliest that a request can have come that is read now.
    pub(crate) fn asked(&self) -> Instant {
        self.beats().asked(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_after_standing_still_may_have_come_at_its_beginning() {
        let begin = Instant::now();
        let at = |millis: u64| begin + Duration::from_millis(millis);
        let mut beats = Beats { last: begin, stood: None };
        beats.beat(at(250));
        assert_eq!(beats.asked(at(300)), at(300));
        // Stopped from 500 to 9,000; the request is read before anybody has looked.
        beats.beat(at(500));
        assert_eq!(beats.asked(at(9_000)), at(500));
        beats.beat(at(9_001));
        beats.beat(at(9_250));
        assert_eq!(beats.asked(at(9_300)), at(500));
        // By now all of that was read.
        for beat in [10_000, 10_500, 11_000] {
            beats.beat(at(beat));
        }
        assert_eq!(beats.asked(at(11_002)), at(11_002));
    }
}
