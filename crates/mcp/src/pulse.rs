//! Since when a request may have been waiting for us to read it.
//!
//! A process that is stopped or swapped out, or whose threads are all held up by an author's code, reads what was
//! sent to it meanwhile as if it came just then. Its client may have made the request again elsewhere by that time,
//! and have the answer. So somebody here looks at the clock all the time, and sees that nobody did. (That clock
//! stands still with a machine that sleeps, on Linux: what came before the sleep counts as asked for that much later.)

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use steadfast_store::LATE;
use tokio::runtime::Handle;

/// How often somebody looks.
const BEAT: Duration = Duration::from_millis(250);
/// Who has not looked for so long has stood still. Less is the load of the machine.
const STILL: Duration = Duration::from_secs(1);
/// How long it takes to read all that came meanwhile.
const READ: Duration = Duration::from_secs(2);
/// How long ago a request counts as asked for at most whose own parts kept us waiting, so that it is not late by
/// that alone.
pub(crate) const WAITED: Duration = Duration::from_secs(LATE.as_secs() / 2);

#[derive(Debug)]
struct Beats {
    last: Instant,
    /// From when to when it has stood still last, and what came before that may not have been read yet.
    stood: Option<(Instant, Instant)>,
}

impl Beats {
    fn beat(&mut self, now: Instant) {
        if let Some(from) = self.stands(now) {
            self.stood = Some((from, now));
        }
        self.last = now;
    }

    /// Since when it has been standing still, if it has. What came before it stood still last may still be
    /// unread.
    fn stands(&self, now: Instant) -> Option<Instant> {
        let stands = now.saturating_duration_since(self.last) > STILL;
        stands.then(|| self.unread(self.last).unwrap_or(self.last))
    }

    /// From when there may be something that was not read yet, because it stood still.
    fn unread(&self, now: Instant) -> Option<Instant> {
        let (from, until) = self.stood?;
        (now.saturating_duration_since(until) < READ).then_some(from)
    }

    fn asked(&self, now: Instant) -> Instant {
        self.stands(now).or_else(|| self.unread(now)).unwrap_or(now)
    }
}

/// Whether this process has stood still, and since when.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Beats>);

impl Pulse {
    /// A thread of its own sees to it that the runtime looks: the runtime's own timers are held up by virtual time
    /// in tests, and the thread would not see what the runtime is at.
    pub(crate) fn start() -> Arc<Pulse> {
        let pulse = Arc::new(Pulse(Mutex::new(Beats { last: Instant::now(), stood: None })));
        let (beating, runtime) = (Arc::downgrade(&pulse), Handle::try_current().ok());
        let beats = move || {
            let waits = Arc::new(AtomicBool::new(false));
            while let Some(pulse) = beating.upgrade() {
                match &runtime {
                    // One that waits to be run is enough.
                    Some(_) if waits.swap(true, Ordering::AcqRel) => {}
                    Some(runtime) => {
                        let waits = waits.clone();
                        runtime.spawn(async move {
                            waits.store(false, Ordering::Release);
                            pulse.beats().beat(Instant::now());
                        });
                    }
                    None => pulse.beats().beat(Instant::now()),
                }
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

    /// When something came that is read now and had to wait since then, but no longer ago than this.
    pub(crate) fn asked_within(&self, asked: Instant, most: Duration) -> Instant {
        self.asked().checked_sub(most).map_or(asked, |least| asked.max(least))
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

    #[test]
    fn who_stands_still_again_before_all_is_read_has_not_read_what_came_first() {
        let begin = Instant::now();
        let at = |millis: u64| begin + Duration::from_millis(millis);
        let mut beats = Beats { last: begin, stood: None };
        // Stopped for nine seconds, and again a second later.
        beats.beat(at(9_000));
        beats.beat(at(10_000));
        assert_eq!(beats.asked(at(15_000)), begin);
        beats.beat(at(15_001));
        assert_eq!(beats.asked(at(15_500)), begin);
        // By now all was read that came before the second time, and what came before the third is another thing.
        for beat in [16_000, 17_000, 18_000] {
            beats.beat(at(beat));
        }
        assert_eq!(beats.asked(at(18_001)), at(18_001));
        assert_eq!(beats.asked(at(20_000)), at(18_000));
    }

    #[test]
    fn a_runtime_that_an_author_holds_up_stands_still() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let pulse = runtime.block_on(async { Pulse::start() });
        let author = runtime.spawn(async move {
            let begun = Instant::now();
            thread::sleep(STILL + BEAT);
            // Whatever is read now may have come then.
            (begun, pulse.asked())
        });
        let (begun, asked) = runtime.block_on(author).unwrap();
        assert!(asked <= begun, "{:?}", asked - begun);
    }

    #[test]
    fn what_keeps_us_waiting_is_not_late_by_that() {
        let pulse = Pulse(Mutex::new(Beats { last: Instant::now(), stood: None }));
        let (now, long) = (Instant::now(), Duration::from_secs(60));
        let asked = now.checked_sub(long).unwrap();
        let within = pulse.asked_within(asked, WAITED);
        assert!(within > asked && within.elapsed() >= WAITED, "{:?}", within.elapsed());
        assert_eq!(pulse.asked_within(now, WAITED), now);
    }
}
