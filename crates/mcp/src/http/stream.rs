//! Server-sent events.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures_core::Stream;
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep},
};

/// What a request turns out to be answered with. Nothing, if the client took it back.
pub(super) type Work = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// The messages of a stream, with its response at the end if it belongs to a request.
pub(super) struct Events {
    first: Option<String>,
    messages: mpsc::Receiver<String>,
    work: Option<Work>,
    last: Option<String>,
    over: bool,
    quiet: Pin<Box<Sleep>>,
    keep_alive: Duration,
}

impl Events {
    /// The messages of a request, beginning with `first`, and then its response.
    pub(super) fn of_request(
        first: Option<String>,
        messages: mpsc::Receiver<String>,
        work: Work,
        keep_alive: Duration,
    ) -> Events {
        Events { first, work: Some(work), ..Events::endless(messages, keep_alive) }
    }

    /// Messages until the sender goes away.
    pub(super) fn endless(messages: mpsc::Receiver<String>, keep_alive: Duration) -> Events {
        let quiet = Box::pin(tokio::time::sleep(keep_alive));
        Events { first: None, messages, work: None, last: None, over: false, quiet, keep_alive }
    }

    fn event(&mut self, message: &str) -> Bytes {
        let next = Instant::now() + self.keep_alive;
        self.quiet.as_mut().reset(next);
        // JSON text has no line breaks of its own.
        Bytes::from(format!("event: message\ndata: {message}\n\n"))
    }
}

impl Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            let event = self.event(&first);
            return Poll::Ready(Some(Ok(event)));
        }
        loop {
            // What was said before the response goes before it.
            match self.messages.poll_recv(cx) {
                Poll::Ready(Some(message)) => {
                    let event = self.event(&message);
                    return Poll::Ready(Some(Ok(event)));
                }
                Poll::Ready(None) if self.work.is_none() && self.last.is_none() => {
                    return Poll::Ready(None);
                }
                Poll::Ready(None) | Poll::Pending => {}
            }
            if let Some(last) = self.last.take() {
                let event = self.event(&last);
                return Poll::Ready(Some(Ok(event)));
            }
            if self.over {
                return Poll::Ready(None);
            }
            match self.work.as_mut().map(|work| work.as_mut().poll(cx)) {
                Some(Poll::Ready(last)) => {
                    // Once more around: its last words may be in the channel.
                    (self.work, self.last, self.over) = (None, last, true);
                }
                Some(Poll::Pending) | None => {
                    if self.quiet.as_mut().poll(cx).is_ready() {
                        let next = Instant::now() + self.keep_alive;
                        self.quiet.as_mut().reset(next);
                        return Poll::Ready(Some(Ok(Bytes::from_static(b": still here\n\n"))));
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

/// The response that a stream goes out in.
pub(super) fn respond(events: Events) -> Response {
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells proxies to pass each event on at once.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
