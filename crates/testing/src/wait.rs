//! Waiting for things with an end to it.

use std::{
    fmt::Display,
    panic::Location,
    pin::pin,
    time::{Duration, Instant},
};

use tokio::time::{Instant as Tick, sleep};

/// How long is waited for anything, on the clock on the wall.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same on a clock that is paused, and jumps when nothing else happens.
const VIRTUAL_PATIENCE: Duration = Duration::from_secs(366 * 24 * 3600);

struct Wait {
    at: &'static Location<'static>,
    wall: Instant,
    clock: Tick,
}

impl Wait {
    #[track_caller]
    fn begin() -> Wait {
        Wait { at: Location::caller(), wall: Instant::now(), clock: Tick::now() }
    }

    /// Until the next look: soon at first, and so that even a year takes only thousands of looks.
    fn pause(&self) -> Duration {
        (self.clock.elapsed() / 100).max(Duration::from_millis(2))
    }

    fn check(&self, what: &impl Display) {
        let (wall, clock) = (self.wall.elapsed(), self.clock.elapsed());
        if wall > PATIENCE || clock > VIRTUAL_PATIENCE {
            self.fail(what, clock.max(wall));
        }
    }

    fn fail(&self, what: &impl Display, waited: Duration) -> ! {
        panic!("{}: waited {} for {what}", self.at, shown(waited));
    }
}

/// For people: nobody reads millions of seconds.
fn shown(time: Duration) -> String {
    match time.as_secs() {
        0..600 => format!("{:.1} s", time.as_secs_f64()),
        seconds if seconds < 2 * 86_400 => format!("{} min", seconds / 60),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Waits until something is so, or panics with `what`, after 30 seconds or a virtual year.
///
/// It looks again and again; in virtual time more rarely the longer it takes, by a hundredth. What can be
/// awaited is better awaited, with [`soon`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let file = std::path::Path::new(".");
/// steadfast::testing::until("the file is there", || file.exists()).await;
/// # }
/// ```
#[track_caller]
pub fn until(what: impl Display, mut holds: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let wait = Wait::begin();
    async move {
        while !holds() {
            wait.check(&what);
            sleep(wait.pause()).await;
        }
    }
}

/// Awaits something, or panics with `what`, after 30 seconds or a virtual year.
#[track_caller]
pub fn soon<T>(what: impl Display, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let wait = Wait::begin();
    async move {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                done = &mut future => return done,
                () = sleep(wait.pause()) => wait.check(&what),
            }
        }
    }
}

/// Awaits something, or panics with `what` when it takes longer than `limit` on tokio's clock.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use steadfast::testing::within;
///
/// let (say, heard) = tokio::sync::oneshot::channel();
/// tokio::spawn(async move { say.send("hello") });
/// assert_eq!(within(Duration::from_secs(5), "a greeting", heard).await, Ok("hello"));
/// # }
/// ```
#[track_caller]
pub fn within<T>(
    limit: Duration,
    what: impl Display,
    future: impl Future<Output = T>,
) -> impl Future<Output = T> {
    let wait = Wait::begin();
    async move {
        match tokio::time::timeout(limit, future).await {
            Ok(done) => done,
            Err(_) => wait.fail(&what, limit),
        }
    }
}

/// Whether tokio's clock stands still. There is nobody to ask, so it is looked at twice.
pub(crate) fn clock_is_paused() -> bool {
    let before = Tick::now();
    std::thread::sleep(Duration::from_millis(2));
    Tick::now() == before
}
