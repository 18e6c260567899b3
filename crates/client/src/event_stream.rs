//! The session's own stream.

use std::{pin::Pin, time::Duration};

use serde_json::Value;
use tokio::time::sleep;

use crate::{
    Client, Error,
    wire::{Attempt, Body, Events, attempt},
};

/// The pause before a stream that ended is opened again, if the server wants no other.
const PAUSE: Duration = Duration::from_millis(100);

/// What a server says to a session that belongs to no request: notifications, and questions of tasks,
/// to be answered with [`Client::respond`].
pub struct EventStream {
    client: Client,
    state: State,
    last_event: Option<String>,
    pause: Duration,
}

enum State {
    Open(Events),
    Connecting(Pin<Box<dyn Future<Output = Result<Events, Error>> + Send>>),
}

impl EventStream {
    pub(crate) async fn open(client: &Client) -> Result<EventStream, Error> {
        let state = State::Open(connect(client, None).await?);
        Ok(EventStream { client: client.clone(), state, last_event: None, pause: PAUSE })
    }

    /// The next message. When the stream breaks it is opened again; what was said meanwhile is lost, if
    /// the server does not give its events ids. It can be dropped while it waits.
    pub async fn next(&mut self) -> Result<Value, Error> {
        loop {
            match &mut self.state {
                State::Open(events) => match events.next().await {
                    Ok(Some(event)) => {
                        self.last_event = event.id.or(self.last_event.take());
                        self.pause = event.retry.unwrap_or(self.pause);
                        if !event.data.trim().is_empty() {
                            return serde_json::from_str(&event.data)
                                .map_err(|error| Error::Protocol(format!("not JSON: {error}")));
                        }
                    }
                    Ok(None) | Err(_) => self.reopen(),
                },
                State::Connecting(connecting) => match connecting.as_mut().await {
                    Ok(events) => self.state = State::Open(events),
                    Err(error) => {
                        // Who asks again wants it tried again.
                        self.reopen();
                        return Err(error);
                    }
                },
            }
        }
    }

    fn reopen(&mut self) {
        let (client, after, pause) = (self.client.clone(), self.last_event.clone(), self.pause);
        self.state = State::Connecting(Box::pin(async move {
            sleep(pause).await;
            connect(&client, after).await
        }));
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").field("client", &self.client).finish_non_exhaustive()
    }
}

async fn connect(client: &Client, after: Option<String>) -> Result<Events, Error> {
    let what = Attempt::Get { headers: client.headers("", &Value::Null), after };
    let answer = attempt(&client.0.link, &what, client.0.patience).await?;
    match answer.body {
        Body::Events(events) if answer.status < 300 => Ok(events),
        body => Err(Error::refused(answer.status, &body)),
    }
}
