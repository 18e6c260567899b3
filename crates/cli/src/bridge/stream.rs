//! The session's own stream.

use std::{sync::Arc, time::Duration};

use steadfast_client::wire::{Attempt, Body, Events, attempt};

use super::{Bridge, lock};

/// The pause before a stream that ended is opened again, if the server wants no other.
const PAUSE: Duration = Duration::from_millis(200);

impl Bridge {
    /// Opens the session's own stream, in place of that of the session before.
    pub(super) fn open_stream(self: &Arc<Self>) {
        if !self.has_session() {
            return;
        }
        let following = tokio::spawn(self.clone().follow_stream());
        let before = lock(&self.session).stream.replace(following.abort_handle());
        if let Some(before) = before {
            before.abort();
        }
    }

    /// Passes on what comes on it, for as long as there is one.
    async fn follow_stream(self: Arc<Self>) {
        let (mut last, mut pause) = (None, PAUSE);
        loop {
            let generation = self.generation();
            let what = Attempt::Get { headers: self.session_headers(), after: last.clone() };
            match attempt(&self.link, &what, self.patience).await {
                Ok(answer) if answer.status == 404 => {
                    // It opens a stream of its own.
                    if let Err(error) = self.renew(generation).await {
                        eprintln!("steadfast: the session is gone: {error}");
                    }
                    return;
                }
                Ok(answer) => match answer.body {
                    Body::Events(events) if answer.status < 300 => {
                        self.pass_on(events, &mut last, &mut pause).await;
                    }
                    // Not every server has one.
                    _ => return,
                },
                // It is tried for as long as the client is there.
                Err(error) => eprintln!("steadfast: {error}"),
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn pass_on(&self, mut events: Events, last: &mut Option<String>, pause: &mut Duration) {
        while let Ok(Some(event)) = events.next().await {
            *last = event.id.or(last.take());
            *pause = event.retry.unwrap_or(*pause);
            if !event.data.trim().is_empty() {
                self.out.line(&event.data);
            }
        }
    }
}
