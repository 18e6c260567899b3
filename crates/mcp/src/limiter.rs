//! How much one principal may ask for: so many calls a second, and so many tasks that have not ended.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use steadfast_core::Principal;

/// Principals that are remembered; those that have asked for nothing lately are forgotten first.
const MOST: usize = 10_000;

/// Calls a second for each principal, with as many at once after a pause.
pub(crate) struct Rate {
    per_second: f64,
    left: Mutex<HashMap<Principal, (f64, Instant)>>,
}

impl Rate {
    /// No limit if it is zero.
    pub(crate) fn new(per_second: u32) -> Rate {
        Rate { per_second: f64::from(per_second), left: Mutex::default() }
    }

    /// Takes one, or says after how long there will be one.
    pub(crate) fn take(&self, principal: &Principal, now: Instant) -> Result<(), Duration> {
        if self.per_second == 0.0 {
            return Ok(());
        }
        let mut left = lock(&self.left);
        make_room(&mut left, principal, now, Duration::from_secs(1));
        let (count, at) = left.entry(principal.clone()).or_insert((self.per_second, now));
        let passed = now.saturating_duration_since(*at).as_secs_f64();
        *count = (*count + passed * self.per_second).min(self.per_second);
        *at = now;
        if *count < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - *count) / self.per_second));
        }
        *count -= 1.0;
        Ok(())
    }
}

/// How many tasks of each principal have not ended, at most: to count them costs too much to do it for
/// every call, so that what is started is added, and what has ended is found at the next count.
#[derive(Default)]
pub(crate) struct Counted(Mutex<HashMap<Principal, (u64, Instant)>>);

/// How long a count holds: others may start tasks as well.
const HOLDS: Duration = Duration::from_secs(60);
/// How long one holds that says there are too many.
const HOLDS_FULL: Duration = Duration::from_secs(2);

impl Counted {
    /// The count, or nothing if the caller is to count anew; others go by the old one until it has.
    pub(crate) fn get(&self, principal: &Principal, most: u64, now: Instant) -> Option<u64> {
        let mut counts = lock(&self.0);
        make_room(&mut counts, principal, now, HOLDS);
        let Some((count, at)) = counts.get_mut(principal) else {
            counts.insert(principal.clone(), (0, now));
            return None;
        };
        let holds = if *count < most { HOLDS } else { HOLDS_FULL };
        if now.saturating_duration_since(*at) < holds {
            return Some(*count);
        }
        *at = now;
        None
    }

    pub(crate) fn set(&self, principal: &Principal, count: u64) {
        if let Some((known, _)) = lock(&self.0).get_mut(principal) {
            *known = count;
        }
    }

    /// One more is started.
    pub(crate) fn add(&self, principal: &Principal) {
        if let Some((count, _)) = lock(&self.0).get_mut(principal) {
            *count += 1;
        }
    }
}

/// Forgets those of whom nothing was heard for a while if there are too many, and if that does not help,
/// all.
fn make_room<T>(
    known: &mut HashMap<Principal, (T, Instant)>,
    principal: &Principal,
    now: Instant,
    lately: Duration,
) {
    if known.len() < MOST || known.contains_key(principal) {
        return;
    }
    known.retain(|_, (_, at)| now.saturating_duration_since(*at) < lately);
    if known.len() >= MOST {
        known.clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds_for_each_by_itself_and_comes_back_with_time() {
        let (ada, bob) = (Principal::new("ada").unwrap(), Principal::new("bob").unwrap());
        let (rate, start) = (Rate::new(10), Instant::now());
        for _ in 0..10 {
            rate.take(&ada, start).unwrap();
        }
        let wait = rate.take(&ada, start).unwrap_err();
        assert_eq!(wait.as_millis(), 100);
        rate.take(&bob, start).unwrap();
        rate.take(&ada, start + wait).unwrap();
        rate.take(&ada, start + wait).unwrap_err();
        // A long pause saves up no more than a second's.
        let later = start + Duration::from_secs(60);
        let taken = (0..100).filter(|_| rate.take(&ada, later).is_ok()).count();
        assert_eq!(taken, 10);
        let unlimited = Rate::new(0);
        (0..1_000).for_each(|_| unlimited.take(&ada, start).unwrap());
    }

    #[test]
    fn tasks_are_counted_now_and_then_and_sooner_when_there_are_too_many() {
        let (ada, now) = (Principal::new("ada").unwrap(), Instant::now());
        let counted = Counted::default();
        assert_eq!(counted.get(&ada, 9, now), None);
        counted.set(&ada, 7);
        counted.add(&ada);
        assert_eq!(counted.get(&ada, 9, now + HOLDS_FULL), Some(8));
        counted.add(&ada);
        assert_eq!(counted.get(&ada, 9, now), Some(9));
        let later = now + HOLDS_FULL;
        assert_eq!(counted.get(&ada, 9, later), None);
        assert_eq!(counted.get(&ada, 9, later), Some(9), "one counts, the others go by the old");
        counted.set(&ada, 1);
        assert_eq!(counted.get(&ada, 9, later), Some(1));
        assert_eq!(counted.get(&ada, 9, later + HOLDS), None, "others may have started some");
    }

    #[test]
    fn no_more_principals_are_remembered_than_there_is_room_for() {
        let (rate, counted, now) = (Rate::new(1), Counted::default(), Instant::now());
        for n in 0..=MOST {
            let one = Principal::new(format!("p{n}")).unwrap();
            rate.take(&one, now).unwrap();
            counted.get(&one, 1, now);
        }
        assert!(lock(&rate.left).len() <= MOST && lock(&counted.0).len() <= MOST);
    }
}
