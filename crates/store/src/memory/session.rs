//! Sessions.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::Timestamp;

use super::content::Content;
use crate::SessionRow;

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

    /// Removes those that are over.
    pub(super) fn sweep(&mut self, now: Timestamp) -> bool {
        let before = self.rows.len();
        while self.expiries.first().is_some_and(|(expires, _)| *expires <= now) {
            self.remove_first();
        }
        self.rows.len() < before
    }

    fn remove_first(&mut self) {
        if let Some((_, id)) = self.expiries.pop_first() {
            self.rows.remove(&id);
        }
    }
}

impl Content {
    pub(super) fn begin_session(&mut self, row: SessionRow, most: usize) {
        self.sessions.put(row);
        while self.sessions.rows.len() > most {
            self.sessions.remove_first();
        }
        self.changed();
    }

    pub(super) fn keep_session(&mut self, row: SessionRow) -> bool {
        let known = self.sessions.rows.contains_key(&row.id);
        if known {
            self.sessions.put(row);
            self.changed();
        }
        known
    }

    pub(super) fn session(&self, id: &str, now: Timestamp) -> Option<SessionRow> {
        self.sessions.rows.get(id).filter(|row| row.expires > now).cloned()
    }

    pub(super) fn end_session(&mut self, id: &str) -> bool {
        let known = self.sessions.remove(id);
        if known {
            self.changed();
        }
        known
    }
}
