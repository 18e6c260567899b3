//! Trying again while the server is away.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{Answer, Headers, Link};
use crate::Error;

/// The pause after the first attempt; it doubles up to the longest.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Makes a message: a new one each time it is sent, if a server may still be at work on the last.
#[derive(Clone)]
pub struct Message(Arc<dyn Fn() -> String + Send + Sync>);

impl Message {
    /// A new one each time.
    pub fn new(make: impl Fn() -> String + Send + Sync + 'static) -> Message {
        Message(Arc::new(make))
    }

    /// The same each time.
    #[must_use]
    pub fn fixed(text: String) -> Message {
        Message::new(move || text.clone())
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Message(..)")
    }
}

/// Something to be sent.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// A message.
    Post {
        /// The headers it goes with.
        headers: Headers,
        /// The message.
        message: Message,
        /// Sending it twice does no harm.
        repeatable: bool,
    },
    /// A stream of a session, after an event if there is one.
    Get {
        /// The headers it goes with.
        headers: Headers,
        /// The event.
        after: Option<String>,
    },
}

impl Attempt {
    async fn once(&self, link: &Link) -> Result<Answer, Error> {
        match self {
            Attempt::Post { headers, message, .. } => link.post(headers, (message.0)()).await,
            Attempt::Get { headers, after } => link.get(headers, after.as_deref()).await,
        }
    }

    fn is_harmless(&self) -> bool {
        !matches!(self, Attempt::Post { repeatable: false, .. })
    }

    /// How long to wait before it is tried again, if it can be.
    fn pause(&self, tried: &Result<Answer, Error>, usual: Duration) -> Option<Duration> {
        match tried {
            // Refused before anything was done.
            Ok(answer) if matches!(answer.status, 429 | 503) => {
                Some(answer.retry_after.unwrap_or(usual))
            }
            // A proxy has no server behind it, or lost it in the middle.
            Ok(answer) if matches!(answer.status, 502 | 504) => self.is_harmless().then_some(usual),
            Ok(_) => None,
            Err(Error::Unreachable { .. }) => Some(usual),
            Err(Error::Broken { .. }) => self.is_harmless().then_some(usual),
            Err(_) => None,
        }
    }
}

/// Sends something as often as it takes: while the server is away or busy, for as long as there is
/// patience. What may have reached the server is sent again only if that does no harm.
pub async fn attempt(link: &Link, what: &Attempt, patience: Duration) -> Result<Answer, Error> {
    let begun = Instant::now();
    let mut usual = SHORTEST;
    loop {
        let tried = what.once(link).await;
        let Some(pause) = what.pause(&tried, usual) else { return tried };
        if begun.elapsed() + pause > patience {
            return tried;
        }
        sleep(pause).await;
        usual = (usual * 2).min(LONGEST);
    }
}
