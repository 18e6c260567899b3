//! The session with the server, which the client knows nothing of.

use std::sync::Arc;

use serde_json::Value;
use steadfast_client::{
    Error,
    wire::{Exchange, Headers, Kind, Message, Outgoing, headers, kind},
};
use tokio::task::AbortHandle;

use super::{Bridge, lock, settings::Settings};

/// What is known of the session.
#[derive(Default)]
pub(super) struct Session {
    id: Option<String>,
    version: Option<String>,
    /// The client's `initialize`, to be said again if the server forgets the session.
    opening: Option<String>,
    /// How many there were before this one.
    pub(super) generation: u64,
    pub(super) stream: Option<AbortHandle>,
    settings: Settings,
}

impl Bridge {
    /// Takes the answer to an `initialize`.
    pub(super) fn opened(&self, opening: &str, session: Option<&str>, answer: &Value) {
        let Some(version) = answer["result"]["protocolVersion"].as_str() else { return };
        let mut known = lock(&self.session);
        known.id = session.map(str::to_owned);
        known.version = Some(version.to_owned());
        known.opening = Some(opening.to_owned());
        known.generation += 1;
    }

    /// A request of the session was granted.
    pub(super) fn granted(&self, request: &Value) {
        let mut known = lock(&self.session);
        match request["method"] == "initialize" {
            // The client itself begins anew.
            true => known.settings = Settings::default(),
            false => known.settings.note(request),
        }
    }

    pub(super) fn has_session(&self) -> bool {
        lock(&self.session).id.is_some()
    }

    pub(super) fn generation(&self) -> u64 {
        lock(&self.session).generation
    }

    /// The headers of what belongs to the session.
    pub(super) fn session_headers(&self) -> Headers {
        let known = lock(&self.session);
        match &known.version {
            Some(version) => headers::of_session(version, known.id.as_deref()),
            None => Headers::new(),
        }
    }

    /// Begins a new session in place of one that the server no longer knows: it was idle for too long,
    /// and a client of stdio has no way to hear of that. What the client had set is set again. Once,
    /// however many find out.
    pub(super) async fn renew(self: &Arc<Self>, old: u64) -> Result<(), Error> {
        let _one = self.renewing.lock().await;
        if self.generation() != old {
            return Ok(());
        }
        let opening = lock(&self.session).opening.clone();
        let gone = || Error::Status { status: 404, message: "there is no session".into() };
        let opening = opening.ok_or_else(gone)?;
        let outgoing = Outgoing {
            headers: Headers::new(),
            message: Message::fixed(opening.clone()),
            in_session: false,
            repeatable: true,
        };
        let mut exchange = Exchange::new(self.link.clone(), outgoing, self.patience);
        let answer = exchange.next().await?.ok_or_else(gone)?;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        self.opened(&opening, exchange.session(), &answer);
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        self.set_again().await;
        self.open_stream();
        Ok(())
    }

    async fn set_again(&self) {
        let requests = lock(&self.session).settings.requests();
        for request in requests {
            let outgoing = Outgoing {
                headers: self.session_headers(),
                message: Message::fixed(request.to_string()),
                in_session: true,
                repeatable: true,
            };
            let mut exchange = Exchange::new(self.link.clone(), outgoing, self.patience);
            let failed = match exchange.next().await {
                Ok(Some(answer)) if kind(&answer) == Some(Kind::Response) => continue,
                Ok(answer) => answer.unwrap_or_default(),
                Err(error) => error.to_string(),
            };
            let method = request["method"].as_str().unwrap_or_default();
            eprintln!("steadfast: {method} failed in the new session: {failed}");
        }
    }
}
