//! Connecting, for the first time or again.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicU64},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    Answer, Client, Error, Question, Revision, client::Inner, question::Ask, sending::Sending,
    wire::Link,
};

/// How a client connects. `.await` it.
#[derive(Debug)]
#[must_use = "it does nothing until it is awaited"]
pub struct Connect {
    url: String,
    revision: Revision,
    session: Option<String>,
    bearer: Option<String>,
    name: String,
    version: String,
    patience: Duration,
    first_request_id: Option<u64>,
    ask: Option<Ask>,
}

impl Connect {
    pub(crate) fn new(url: &str) -> Connect {
        Connect {
            url: url.to_owned(),
            revision: Revision::default(),
            session: None,
            bearer: None,
            name: "steadfast-client".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            patience: Duration::from_secs(60),
            first_request_id: None,
            ask: None,
        }
    }

    pub(crate) fn again(url: &str, session: &str, revision: Revision) -> Connect {
        Connect { revision, session: Some(session.to_owned()), ..Connect::new(url) }
    }

    /// Speaks this revision (2026-07-28).
    pub fn revision(mut self, revision: Revision) -> Connect {
        self.revision = revision;
        self
    }

    /// Comes with this bearer token.
    pub fn bearer(mut self, token: impl Into<String>) -> Connect {
        self.bearer = Some(token.into());
        self
    }

    /// Says that it is this client.
    pub fn name(mut self, name: impl Into<String>, version: impl Into<String>) -> Connect {
        (self.name, self.version) = (name.into(), version.into());
        self
    }

    /// How long a server that is away is waited for, each time (a minute).
    pub fn patience(mut self, patience: Duration) -> Connect {
        self.patience = patience;
        self
    }

    /// Counts requests from here on (1; in a session that is taken up, a number that none before had).
    pub fn first_request_id(mut self, id: u64) -> Connect {
        self.first_request_id = Some(id);
        self
    }

    /// Answers questions, unless a call has somebody of its own for that. Without anybody, those of a
    /// call that is waited for are dismissed, and those of a task are left to others.
    pub fn on_question<F, Fut>(mut self, ask: F) -> Connect
    where
        F: Fn(Question) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answer> + Send + 'static,
    {
        self.ask = Some(Ask::new(ask));
        self
    }

    async fn run(self) -> Result<Client, Error> {
        let mut link = Link::new(&self.url)?;
        if let Some(token) = &self.bearer {
            link = link.bearer(token)?;
        }
        let again = self.session.is_some();
        if again && self.revision.is_stateless() {
            return Err(Error::Setup(format!("{} has no sessions", self.revision)));
        }
        let first = self.first_request_id.unwrap_or_else(|| if again { unused_id() } else { 1 });
        let session = OnceLock::new();
        if let Some(id) = self.session {
            let _ = session.set(id);
        }
        let client = Client(Arc::new(Inner {
            link,
            revision: self.revision,
            session,
            server: OnceLock::new(),
            info: json!({ "name": self.name, "version": self.version }),
            ids: AtomicU64::new(first),
            patience: self.patience,
            ask: self.ask,
            marked: Mutex::new(HashMap::new()),
        }));
        if !again {
            client.greet().await?;
        }
        Ok(client)
    }
}

impl IntoFuture for Connect {
    type Output = Result<Client, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A request id that the process before this one had not come to: it counted from 1.
fn unused_id() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX / 2)
}

impl Client {
    /// Begins a session, or asks who is there where there are none.
    async fn greet(&self) -> Result<(), Error> {
        let revision = self.revision();
        if revision.is_stateless() {
            let found = self.request("server/discover", json!({})).await?;
            let _ = self.0.server.set(found);
            return Ok(());
        }
        let params = json!({
            "protocolVersion": revision.name(),
            "clientInfo": self.0.info,
            "capabilities": self.capabilities(false),
        });
        let found = self.send("initialize", params, &Sending::default()).await?;
        match found["protocolVersion"].as_str() {
            Some(version) if version == revision.name() => {}
            other => {
                let other = other.unwrap_or("none");
                return Err(Error::Protocol(format!("it speaks {other}, and not {revision}")));
            }
        }
        let _ = self.0.server.set(found);
        self.notify("notifications/initialized", Value::Null).await
    }
}
