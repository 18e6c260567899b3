//! What of a session is in the store: all that the client has said of itself and may rely on.
//!
//! Several processes may have a copy of it. What one of them changes is merged with what is in the row by
//! then, so that no copy takes back what another has written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_core::Principal;

use super::{Session, State};
use crate::{
    client::{Capabilities, Client},
    identity::Claims,
    outlet::Outlet,
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
    #[serde(flatten)]
    settings: Settings,
    /// It ends with its connection: nobody can come back to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    of_connection: bool,
}

/// What changes in the life of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
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
    /// The tasks by which the client answers questions, each by the name of its question.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    by_task: BTreeMap<String, String>,
    /// How those are, as the client has said to others than the process that asked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    told: BTreeMap<String, String>,
    /// The tasks that requests have found by their keys, each by the id of its request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    found: BTreeMap<String, String>,
}

impl Settings {
    fn of(state: &State) -> Settings {
        Settings {
            log_level: state.log_level,
            subscriptions: state.subscriptions.clone(),
            heard: state.point.heard,
            offer: state.known_offer(),
            by_task: state.by_task.clone(),
            told: state.told.clone(),
            found: state.found(),
        }
    }

    /// What somebody else has written, with what was changed here since both had `seen` the same.
    fn over(self, theirs: Settings, seen: &Settings) -> Settings {
        Settings {
            log_level: newer(self.log_level, theirs.log_level, &seen.log_level),
            subscriptions: merge(self.subscriptions, theirs.subscriptions, &seen.subscriptions),
            heard: newer(self.heard, theirs.heard, &seen.heard),
            offer: std::array::from_fn(|n| newer(self.offer[n], theirs.offer[n], &seen.offer[n])),
            by_task: merge(self.by_task, theirs.by_task, &seen.by_task),
            told: merge(self.told, theirs.told, &seen.told),
            found: merge(self.found, theirs.found, &seen.found),
        }
    }
}

fn newer<T: PartialEq>(ours: T, theirs: T, seen: &T) -> T {
    if ours == *seen { theirs } else { ours }
}

fn merge<T: PartialEq>(
    ours: BTreeMap<String, T>,
    mut theirs: BTreeMap<String, T>,
    seen: &BTreeMap<String, T>,
) -> BTreeMap<String, T> {
    theirs.retain(|name, _| ours.contains_key(name) || !seen.contains_key(name));
    for (name, value) in ours {
        if seen.get(&name) != Some(&value) {
            theirs.insert(name, value);
        }
    }
    theirs
}

/// What was last known to be in the row.
#[derive(Default)]
pub(super) struct Seen {
    body: Vec<u8>,
    settings: Settings,
}

/// A session as it is to be in the row, and as it was there.
pub(super) struct Draft {
    pub(super) body: Vec<u8>,
    pub(super) before: Vec<u8>,
    settings: Settings,
}

impl Session {
    /// Whether there is something to be written.
    pub(super) fn has_changed(&self) -> bool {
        let state = self.state();
        Settings::of(&state) != state.seen.settings
    }

    pub(super) fn draft(&self) -> Draft {
        let state = self.state();
        let settings = Settings::of(&state);
        let body = Record::body(self, settings.clone());
        Draft { body, before: state.seen.body.clone(), settings }
    }

    /// A draft is in the row.
    pub(super) fn is_written(&self, draft: Draft) {
        self.state().seen = Seen { body: draft.body, settings: draft.settings };
    }

    /// Takes in what is in the row, where this is what we offer. An error if it can't be read.
    pub(super) fn catch_up(&self, body: Vec<u8>, offer: [u64; 3]) -> Result<(), String> {
        if self.state().seen.body == body {
            return Ok(());
        }
        let record: Record = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let mut state = self.state();
        let ours = Settings::of(&state);
        let known = ours.offer;
        let now = ours.over(record.settings.clone(), &state.seen.settings);
        (state.log_level, state.subscriptions) = (now.log_level, now.subscriptions);
        state.answers_by(now.by_task);
        state.told = now.told;
        state.remember_found(&now.found);
        // A stream that is open here goes on from where it is itself.
        if state.stream.as_ref().is_none_or(Outlet::is_closed) {
            state.point.heard = now.heard;
        }
        if now.offer != known {
            (state.offer, state.changed) = (now.offer, Default::default());
            state.compare(offer);
        }
        state.seen = Seen { body, settings: record.settings };
        Ok(())
    }
}

impl Record {
    fn body(session: &Session, settings: Settings) -> Vec<u8> {
        let client = &session.client;
        let record = Record {
            principal: client.principal.clone(),
            claims: Claims::clone(&client.claims),
            revision: client.revision.name().into(),
            capabilities: client.capabilities.clone(),
            client: client.info.clone(),
            settings,
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
        let settings = record.settings;
        (state.log_level, state.subscriptions) =
            (settings.log_level, settings.subscriptions.clone());
        (state.point.heard, state.offer) = (settings.heard, settings.offer);
        state.answers_by(settings.by_task.clone());
        state.told = settings.told.clone();
        state.remember_found(&settings.found);
        state.seen = Seen { body: body.to_vec(), settings };
        drop(state);
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watching(names: &[&str]) -> Settings {
        let subscriptions = names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        Settings { subscriptions, ..Settings::default() }
    }

    #[test]
    fn what_each_of_two_copies_changed_is_in_both() {
        let seen = watching(&["kept", "left here", "left there"]);
        let ours = Settings { log_level: Some(1), ..watching(&["kept", "left there", "new here"]) };
        let theirs = Settings {
            heard: 7,
            offer: [1, 2, 3],
            ..watching(&["kept", "left here", "new there"])
        };
        let both = Settings { log_level: Some(1), ..theirs.clone() };
        let names = watching(&["kept", "new here", "new there"]).subscriptions;
        assert_eq!(ours.over(theirs, &seen), Settings { subscriptions: names, ..both });
    }

    #[test]
    fn what_both_changed_is_as_the_later_wrote_it() {
        let seen = Settings { log_level: Some(1), heard: 5, ..Settings::default() };
        let ours = Settings { log_level: Some(2), heard: 6, ..Settings::default() };
        let theirs = Settings { log_level: None, heard: 9, ..Settings::default() };
        assert_eq!(ours.clone().over(theirs.clone(), &seen), ours);
        assert_eq!(seen.clone().over(theirs.clone(), &seen), theirs);
    }
}
