//! The session's own stream.

use serde_json::Value;

use crate::{
    Client, Error,
    wire::{Attempt, Body, Events, attempt},
};

/// What a server says to a session that belongs to no request: notifications, and questions of tasks,
/// to be answered with [`Client::respond`].
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    events: Events,
    last_event: Option<String>,
}

impl EventStream {
    pub(crate) async fn open(client: &Client) -> Result<EventStream, Error> {
        let events = connect(client, None).await?;
        Ok(EventStream { client: client.clone(), events, last_event: None })
    }

    /// The next message. When the stream breaks it is opened again. It can be dropped while it waits,
    /// and at most what was said while it was being opened again is lost.
    pub async fn next(&mut self) -> Result<Value, Error> {
        loop {
            match self.events.next().await {
                Ok(Some(event)) => {
                    self.last_event = event.id.or(self.last_event.take());
                    if !event.data.trim().is_empty() {
                        return serde_json::from_str(&event.data)
                            .map_err(|error| Error::Protocol(format!("it is not JSON: {error}")));
                    }
                }
                Ok(None) | Err(_) => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    self.events = connect(&self.client, self.last_event.clone()).await?;
                }
            }
        }
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
