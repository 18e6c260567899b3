//! Sessions.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::Timestamp;

use super::content::Content;
use crate::{SessionRow, session_scope};

/// All sessions, and the order in which they are over.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    rows: BTreeMap<String, SessionRow>,
    expiries: BTreeSet<(Timestamp, String)>,
}

impl Sessions {
    fn put(&mut self, row: SessionRow) {
        self.remove(&row.id);
        self.expiries.insert((row.expires, row.id.clone()));
        self.rows.insert(row.id.clone(), row);
    }

    fn remove(&mut self, id: &str) -> bool {
        let Some(row) = self.rows.remove(id) else { return false };
        self.expiries.remove(&(row.expires, row.id))
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.rows.contains_key(id)
    }
}

impl Content {
    pub(super) fn begin_session(&mut self, row: SessionRow, most: usize) {
        self.sessions.put(row);
        while self.sessions.rows.len() > most {
            let Some((_, first)) = self.sessions.expiries.first().cloned() else { break };
            self.end_session(&first);
        }
        self.changed();
    }

    /// Removes those that are over.
    pub(super) fn sweep_sessions(&mut self, now: Timestamp) {
        while let Some((expires, first)) = self.sessions.expiries.first().cloned()
            && expires <= now
        {
            self.end_session(&first);
        }
    }

    pub(super) fn keep_session(&mut self, mut row: SessionRow, before: &[u8]) -> bool {
        let Some(known) = self.sessions.rows.get(&row.id) else { return false };
        if known.body != before {
            return false;
        }
        row.expires = row.expires.max(known.expires);
        self.sessions.put(row);
        self.changed();
        true
    }

    pub(super) fn touch_session(&mut self, id: &str, expires: Timestamp) -> bool {
        let Some(known) = self.sessions.rows.get(id) else { return false };
        if known.expires < expires {
            let row = SessionRow { expires, ..known.clone() };
            self.sessions.put(row);
            self.changed();
        }
        true
    }

    pub(super) fn session(&self, id: &str, now: Timestamp) -> Option<SessionRow> {
        self.sessions.rows.get(id).filter(|row| row.expires > now).cloned()
    }

    pub(super) fn end_session(&mut self, id: &str) -> bool {
        let known = self.sessions.remove(id);
        if known {
            self.remove_states(&session_scope(id));
            self.changed();
        }
        known
    }
}
