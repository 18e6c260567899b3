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

use crate::outlet::Said;

/// What a request turns out to be answered with. Nothing, if the client took it back.
pub(super) type Work = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// Fires when a stream is to end before it is over.
pub(super) type HangUp = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is done when the response was sent.
pub(super) type Then = Box<dyn FnOnce() + Send>;

/// How long a client is to wait before it takes a stream up again. Most try twice: so long, twice, a server
/// may take to come back.
const RETRY: Duration = Duration::from_secs(2);

/// The messages of a stream, with its response at the end if it belongs to a request.
pub(super) struct Events {
    begin: Option<String>,
    first: Option<Said>,
    messages: mpsc::Receiver<Said>,
    work: Option<Work>,
    hang_up: Option<HangUp>,
    last: Option<String>,
    then: Option<Then>,
    over: bool,
    quiet: Pin<Box<Sleep>>,
    keep_alive: Duration,
}

impl Events {
    /// The messages of a request, beginning with `first`, and then its response.
    pub(super) fn of_request(
        first: Option<Said>,
        messages: mpsc::Receiver<Said>,
        work: Work,
        keep_alive: Duration,
    ) -> Events {
        Events { first, work: Some(work), ..Events::endless(messages, keep_alive) }
    }

    /// Messages until the sender goes away.
    pub(super) fn endless(messages: mpsc::Receiver<Said>, keep_alive: Duration) -> Events {
        let quiet = Box::pin(tokio::time::sleep(keep_alive));
        Events {
            begin: None,
            first: None,
            messages,
            work: None,
            hang_up: None,
            last: None,
            then: None,
            over: false,
            quiet,
            keep_alive,
        }
    }

    /// Tells the client first of all from where the stream can be taken up again.
    pub(super) fn begin(self, point: &str) -> Events {
        let retry = RETRY.as_millis();
        self.begin_with(format!("id: {point}\nretry: {retry}\ndata:\n\n"))
    }

    /// Begins with this event.
    pub(super) fn begin_with(mut self, event: String) -> Events {
        self.begin = Some(event);
        self
    }

    /// Does this when the response was sent.
    pub(super) fn then(mut self, then: Then) -> Events {
        self.then = Some(then);
        self
    }

    /// Ends the stream at a time, even if it is not over.
    pub(super) fn until(mut self, hang_up: HangUp) -> Events {
        self.hang_up = Some(hang_up);
        self
    }

    /// The event of something that was said. Nothing if it only says where the stream begins: that comes
    /// too late.
    fn event(&mut self, said: &Said) -> Option<Bytes> {
        let message = said.message.as_ref()?;
        let next = Instant::now() + self.keep_alive;
        self.quiet.as_mut().reset(next);
        let id = said.point.as_ref().map(|point| format!("id: {point}\n")).unwrap_or_default();
        // JSON text has no line breaks of its own.
        Some(Bytes::from(format!("event: message\n{id}data: {message}\n\n")))
    }
}

impl Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(begin) = self.begin.take() {
            return Poll::Ready(Some(Ok(Bytes::from(begin))));
        }
        if let Some(event) = self.first.take().and_then(|first| self.event(&first)) {
            return Poll::Ready(Some(Ok(event)));
        }
        if self.hang_up.as_mut().is_some_and(|hang_up| hang_up.as_mut().poll(cx).is_ready()) {
            (self.hang_up, self.over) = (None, true);
            self.messages.close();
            return Poll::Ready(None);
        }
        loop {
            // What was said before the response goes before it.
            match self.messages.poll_recv(cx) {
                Poll::Ready(Some(said)) => match self.event(&said) {
                    Some(event) => return Poll::Ready(Some(Ok(event))),
                    None => continue,
                },
                Poll::Ready(None) if self.work.is_none() && self.last.is_none() => {
                    return Poll::Ready(None);
                }
                Poll::Ready(None) | Poll::Pending => {}
            }
            if let Some(last) = self.last.take() {
                if let Some(then) = self.then.take() {
                    then();
                }
                let event = self.event(&Said { point: None, message: Some(last) });
                return Poll::Ready(event.map(Ok));
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
