//! A request until its response: what comes before it is heard, and what is asked is answered.

use serde_json::Value;

use crate::{
    Answer, Client, Error, Question, RpcError, asking::Asking, question::Ask, result::outcome,
    sending::Sending, wire::Exchange,
};

impl Client {
    /// Who answers questions of what is sent so.
    pub(crate) fn ask(&self, sending: &Sending) -> Option<Ask> {
        sending.handlers.ask.clone().or_else(|| self.0.ask.clone())
    }

    /// Who answers them, or dismisses them if there is nobody.
    pub(crate) fn ask_or_dismiss(&self, sending: &Sending) -> Ask {
        self.ask(sending).unwrap_or_else(|| Ask::new(|_| async { Answer::Cancel }))
    }

    pub(crate) async fn converse(
        &self,
        mut exchange: Exchange,
        sending: &Sending,
    ) -> Result<Value, Error> {
        let ask = self.ask_or_dismiss(sending);
        let mut asking = Asking::default();
        loop {
            let message = tokio::select! {
                message = exchange.next() => message,
                answered = asking.answered(), if !asking.is_idle() => {
                    if let Some((id, answer)) = answered {
                        self.respond(&id, Ok(answer.to_value())).await?;
                    }
                    continue;
                }
            };
            // Also when it came to nothing: somebody may go on from there.
            sending.bookmark.set_event(exchange.last_event_id());
            let Some(message) = message? else {
                return Err(Error::Protocol("there was no response".into()));
            };
            if let (Some(session), None) = (exchange.session(), self.session_id()) {
                let _ = self.0.session.set(session.to_owned());
            }
            let message: Value = serde_json::from_str(&message)
                .map_err(|error| Error::Protocol(format!("it is not JSON: {error}")))?;
            let (id, params) = (&message["id"], &message["params"]);
            match message["method"].as_str() {
                None => return outcome(message),
                Some("notifications/cancelled") => asking.withdraw(&params["requestId"]),
                Some(method) if id.is_null() => sending.handlers.hear(method, params),
                Some("ping") => self.respond(id, Ok(serde_json::json!({}))).await?,
                Some(method) => match Question::read(None, method, params) {
                    Ok(question) => {
                        asking.ask(id.clone(), question, exchange.connections(), &ask);
                    }
                    Err(_) => {
                        let message = format!("this client has no {method}");
                        let error = RpcError { code: -32601, message, data: None };
                        self.respond(id, Err(error)).await?;
                    }
                },
            }
        }
    }
}
