//! What of a session is in the store: all that the client has said of itself and may rely on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_core::Principal;

use super::Session;
use crate::{
    client::{Capabilities, Client},
    identity::Claims,
    wire::Revision,
};

#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    principal: Principal,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    claims: Claims,
    revision: String,
    #[serde(default)]
    capabilities: Capabilities,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_level: Option<usize>,
    /// Each with the notice from which on it is watched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    subscriptions: BTreeMap<String, u64>,
    /// The last notice that it has heard.
    #[serde(default)]
    heard: u64,
    /// What tells the offer that it knows from others.
    #[serde(default)]
    offer: [u64; 3],
    /// It ends with its connection: nobody can come back to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    of_connection: bool,
}

impl Record {
    pub(super) fn of(session: &Session) -> Vec<u8> {
        let client = &session.client;
        let state = session.state();
        let record = Record {
            principal: client.principal.clone(),
            claims: Claims::clone(&client.claims),
            revision: client.revision.name().into(),
            capabilities: client.capabilities.clone(),
            client: client.info.clone(),
            log_level: state.log_level,
            subscriptions: state.subscriptions.clone(),
            heard: state.point.heard,
            offer: state.known_offer(),
            of_connection: !session.can_return,
        };
        // Strings, numbers and JSON values always serialise.
        serde_json::to_vec(&record).unwrap_or_default()
    }

    /// The session as it was written. An error if it was written by a server that knows more.
    pub(super) fn session(id: &str, body: &[u8]) -> Result<Session, String> {
        let record: Record = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if record.of_connection {
            return Err("it ended with its connection".into());
        }
        let revision = Revision::named(&record.revision)
            .ok_or_else(|| format!("revision {:?} is not known", record.revision))?;
        let session = Session::new(
            id.into(),
            Client {
                principal: record.principal,
                claims: record.claims.into(),
                credentials: Default::default(),
                revision,
                capabilities: record.capabilities,
                info: record.client,
            },
        );
        let mut state = session.state();
        (state.log_level, state.subscriptions) = (record.log_level, record.subscriptions);
        (state.point.heard, state.offer) = (record.heard, record.offer);
        drop(state);
        Ok(session)
    }
}
