//! One request and all that comes back for it.

use std::{pin::Pin, time::Duration};

use tokio::time::{Instant, sleep};

use super::{Answer, Attempt, Body, Events, Headers, Kind, Link, Message, attempt, kind};
use crate::Error;

/// A request on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The headers it goes with.
    pub headers: Headers,
    /// The message.
    pub message: Message,
    /// It belongs to a session: when its stream breaks, it can be taken up after the last event.
    pub in_session: bool,
    /// Sending it twice does no harm.
    pub repeatable: bool,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

enum State {
    Connecting(Connecting),
    Open(Events),
    Over,
}

/// A request and all that comes back for it, over however many connections that takes: when one breaks,
/// the stream is taken up after the last event, or the request is sent again if that does no harm.
pub struct Exchange {
    link: Link,
    request: Option<Outgoing>,
    /// For taking a stream up again.
    headers: Headers,
    patience: Duration,
    state: State,
    connections: u64,
    /// When the connection was opened that is open now.
    opened: Instant,
    /// Since when connections only break, and bring nothing.
    in_vain: Option<Instant>,
    last_event: Option<String>,
    retry: Duration,
    session: Option<String>,
    /// What came with the first answer, and nobody has taken yet.
    ready: Option<String>,
}

/// A connection that lasts this long was worth it, whatever it brought.
const LASTING: Duration = Duration::from_secs(5);

impl Exchange {
    /// Of a request that is still to be sent.
    #[must_use]
    pub fn new(link: Link, request: Outgoing, patience: Duration) -> Exchange {
        let headers = request.headers.clone();
        let mut exchange = Exchange::over(link, headers, patience);
        exchange.request = Some(request);
        exchange.send(Duration::ZERO);
        exchange
    }

    /// Of one whose stream broke after this event.
    #[must_use]
    pub fn resume(link: Link, headers: Headers, event: String, patience: Duration) -> Exchange {
        let mut exchange = Exchange::over(link, headers, patience);
        exchange.take_up(event, Duration::ZERO);
        exchange
    }

    fn over(link: Link, headers: Headers, patience: Duration) -> Exchange {
        Exchange {
            link,
            request: None,
            headers,
            patience,
            state: State::Over,
            connections: 0,
            opened: Instant::now(),
            in_vain: None,
            last_event: None,
            retry: Duration::from_millis(100),
            session: None,
            ready: None,
        }
    }

    /// The last event that came, from where a stream of a session can be taken up in another process.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event.as_deref()
    }

    /// The session that the server named with its answer.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// How many connections have brought something.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// Waits until the server has answered: it has taken the request. It can be dropped while it waits.
    pub async fn opened(&mut self) -> Result<(), Error> {
        while let (0, State::Connecting(connecting)) = (self.connections, &mut self.state) {
            let taken = match connecting.as_mut().await {
                Ok(answer) => self.take(answer),
                Err(error) => self.broke(error).map(|()| None),
            };
            match taken {
                Ok(message) => self.ready = message,
                Err(error) => {
                    self.state = State::Over;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The whole answer, if it is no stream: after [`opened`](Exchange::opened), and before the next
    /// message is taken.
    #[must_use]
    pub fn at_once(&self) -> Option<&str> {
        self.ready.as_deref()
    }

    /// The next message, or nothing after the response. It can be dropped while it waits, and nothing
    /// is lost, nor sent twice.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        if let Some(message) = self.ready.take() {
            return Ok(Some(message));
        }
        loop {
            let step = match &mut self.state {
                State::Over => return Ok(None),
                State::Connecting(connecting) => match connecting.as_mut().await {
                    Ok(answer) => self.take(answer),
                    Err(error) => self.broke(error).map(|()| None),
                },
                State::Open(events) => match events.next().await {
                    Ok(Some(event)) => {
                        self.last_event = event.id.or(self.last_event.take());
                        self.in_vain = None;
                        self.retry = event.retry.unwrap_or(self.retry);
                        Ok(Some(event.data).filter(|data| !data.trim().is_empty()))
                    }
                    Ok(None) => self
                        .broke(Error::Broken {
                            url: self.link.url().to_owned(),
                            reason: "the stream ended before the response".into(),
                        })
                        .map(|()| None),
                    Err(error) => self.broke(error).map(|()| None),
                },
            };
            match step {
                Ok(None) => {}
                Ok(Some(message)) => {
                    if matches!(kind(&message), Some(Kind::Response | Kind::Batch)) {
                        self.state = State::Over;
                    }
                    return Ok(Some(message));
                }
                Err(error) => {
                    self.state = State::Over;
                    return Err(error);
                }
            }
        }
    }

    /// Takes what a connection brings.
    fn take(&mut self, answer: Answer) -> Result<Option<String>, Error> {
        self.connections += 1;
        self.opened = Instant::now();
        self.session = answer.session.or(self.session.take());
        match answer.body {
            Body::Events(events) if answer.status < 300 => {
                self.state = State::Open(events);
                Ok(None)
            }
            Body::Text(text)
                if answer.status < 300
                    || matches!(kind(&text), Some(Kind::Response | Kind::Batch)) =>
            {
                // Whatever it is, no more comes.
                self.state = State::Over;
                match kind(&text) {
                    Some(_) => Ok(Some(text)),
                    None => Err(Error::Protocol(match text.trim().is_empty() {
                        true => "a request was answered with nothing".into(),
                        false => "a request was answered with something else than a message".into(),
                    })),
                }
            }
            body => Err(Error::refused(answer.status, &body)),
        }
    }

    /// Goes on after a connection broke, if there is a way.
    fn broke(&mut self, error: Error) -> Result<(), Error> {
        if !matches!(error, Error::Broken { .. }) {
            return Err(error);
        }
        if self.opened.elapsed() > LASTING {
            self.in_vain = None;
        }
        if self.in_vain.get_or_insert_with(Instant::now).elapsed() > self.patience {
            return Err(error);
        }
        let in_session = self.request.as_ref().is_none_or(|request| request.in_session);
        match &self.last_event {
            Some(event) if in_session => self.take_up(event.clone(), self.retry),
            _ if self.request.as_ref().is_some_and(|request| request.repeatable) => {
                self.send(self.retry);
            }
            _ => return Err(error),
        }
        Ok(())
    }

    fn send(&mut self, pause: Duration) {
        let Some(request) = &self.request else { return };
        let what = Attempt::Post {
            headers: request.headers.clone(),
            message: request.message.clone(),
            repeatable: request.repeatable,
        };
        self.connect(what, pause);
    }

    fn take_up(&mut self, event: String, pause: Duration) {
        let what = Attempt::Get { headers: self.headers.clone(), after: Some(event.clone()) };
        self.last_event = Some(event);
        self.connect(what, pause);
    }

    fn connect(&mut self, what: Attempt, pause: Duration) {
        let (link, patience) = (self.link.clone(), self.patience);
        self.state = State::Connecting(Box::pin(async move {
            sleep(pause).await;
            attempt(&link, &what, patience).await
        }));
    }
}
