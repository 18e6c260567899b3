//! A stream of events as it comes in.

use super::{
    link::Link,
    sse::{Event, Parser},
};
use crate::Error;

/// The events of a response.
#[derive(Debug)]
pub struct Events {
    url: String,
    /// Large, and mostly carried about.
    response: Box<reqwest::Response>,
    parser: Box<Parser>,
}

impl Events {
    pub(super) fn new(link: &Link, response: reqwest::Response) -> Events {
        Events { url: link.url().to_owned(), response: Box::new(response), parser: Box::default() }
    }

    /// The next event, or nothing at the end. It can be dropped while it waits, and nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.parser.next_event() {
                return Ok(Some(event));
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.parser.feed(&bytes),
                Ok(None) => return Ok(None),
                Err(error) => return Err(Error::broken(&self.url, &error)),
            }
        }
    }
}
