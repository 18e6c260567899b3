//! Values, who watches them, sessions and notices.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use steadfast_core::Timestamp;
use steadfast_store::{SESSION_SCOPE, SessionRow};

use super::{Done, Reach, WATCHES, Work};
use crate::error::Fault;

pub(super) type At = (String, String);

/// What a batch knows of values, and what becomes of them.
#[derive(Debug, Default)]
pub(super) struct States<'b> {
    /// Those that were written before.
    pub(super) versions: HashMap<At, i64>,
    pub(super) watchers: HashMap<At, BTreeSet<i64>>,
    pub(super) written: BTreeMap<At, Option<&'b [u8]>>,
    /// All that is in them goes.
    pub(super) scopes_gone: BTreeSet<String>,
    pub(super) watched: BTreeSet<(At, i64)>,
    pub(super) unwatched: BTreeSet<(At, i64)>,
    /// Tasks whose watches all go.
    pub(super) watches_cleared: HashSet<i64>,
    pub(super) sessions: HashSet<String>,
    pub(super) sessions_put: BTreeMap<&'b str, &'b SessionRow>,
    pub(super) sessions_gone: BTreeSet<String>,
    /// How many there are, and those that would be over first: as many as may have to go.
    pub(super) session_count: i64,
    pub(super) first_over: BTreeSet<(i64, String)>,
    pub(super) last_notice: Option<i64>,
    pub(super) notices: Vec<(i64, i64, &'b [u8])>,
    /// Up to which they go.
    pub(super) notices_gone: i64,
}

impl<'b> Work<'b> {
    /// How often a value was written.
    pub(crate) fn version(&mut self, scope: &str, key: &str) -> Done<i64> {
        let at = (scope.to_owned(), key.to_owned());
        if !self.needs.states.contains(&at) {
            self.missing.states.insert(at);
            return Err(Fault::Miss);
        }
        Ok(self.states.versions.get(&at).copied().unwrap_or(0))
    }

    pub(crate) fn write_state(
        &mut self,
        scope: &str,
        key: &str,
        value: Option<&'b [u8]>,
        notice: &'b [u8],
        by: &mut Reach,
    ) -> Done<()> {
        let version = self.version(scope, key)?;
        // What is written to a session that is over would never be removed.
        if let Some(id) = scope.strip_prefix(SESSION_SCOPE)
            && !self.has_session(id)?
        {
            return Ok(());
        }
        let at = (scope.to_owned(), key.to_owned());
        let watchers = self.states.watchers.get(&at).cloned().unwrap_or_default();
        self.states.versions.insert(at.clone(), version + 1);
        self.states.written.insert(at, value);
        self.changed();
        for watcher in watchers {
            if self.is_open(watcher)? {
                self.replace_notice(watcher, notice);
                self.deliver(watcher, None, true, notice.into(), by)?;
            }
        }
        Ok(())
    }

    pub(crate) fn watch(&mut self, task: i64, scope: &str, key: &str) -> Done<()> {
        let at = (scope.to_owned(), key.to_owned());
        if !self.needs.watched.contains(&at) {
            self.missing.watched.insert(at);
            return Err(Fault::Miss);
        }
        self.states.watchers.entry(at.clone()).or_default().insert(task);
        self.states.unwatched.remove(&(at.clone(), task));
        self.states.watched.insert((at, task));
        self.leaves(task, WATCHES);
        self.changed();
        Ok(())
    }

    pub(crate) fn unwatch(&mut self, task: i64, scope: &str, key: &str) {
        let at = (scope.to_owned(), key.to_owned());
        if let Some(watchers) = self.states.watchers.get_mut(&at) {
            watchers.remove(&task);
        }
        self.states.watched.remove(&(at.clone(), task));
        self.states.unwatched.insert((at, task));
        self.changed();
    }

    pub(crate) fn clear_watches(&mut self, task: i64) {
        for watchers in self.states.watchers.values_mut() {
            watchers.remove(&task);
        }
        self.states.watched.retain(|(_, watcher)| *watcher != task);
        self.states.watches_cleared.insert(task);
    }

    /// Removes all values of a scope.
    pub(crate) fn remove_scope(&mut self, scope: &str) {
        self.states.versions.retain(|at, _| at.0 != scope);
        self.states.written.retain(|at, _| at.0 != scope);
        self.states.scopes_gone.insert(scope.to_owned());
    }

    // ---- sessions ----

    pub(crate) fn has_session(&mut self, id: &str) -> Done<bool> {
        if !self.needs.sessions.contains(id) {
            self.missing.sessions.insert(id.to_owned());
            return Err(Fault::Miss);
        }
        Ok(self.states.sessions.contains(id))
    }

    pub(crate) fn put_session(&mut self, session: &'b SessionRow) {
        let states = &mut self.states;
        if states.sessions.insert(session.id.clone()) {
            states.session_count += 1;
        }
        states.first_over.retain(|(_, id)| *id != session.id);
        states.first_over.insert((session.expires.0, session.id.clone()));
        states.sessions_put.insert(&session.id, session);
        self.changed();
    }

    /// Of more than `most` sessions those go that would be over first.
    pub(crate) fn limit_sessions(&mut self, most: usize) {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        while self.states.session_count > most {
            let Some((_, first)) = self.states.first_over.first().cloned() else { return };
            self.remove_session(&first);
        }
    }

    pub(crate) fn remove_session(&mut self, id: &str) {
        let states = &mut self.states;
        states.sessions.remove(id);
        states.session_count -= 1;
        states.first_over.retain(|(_, other)| other != id);
        states.sessions_put.remove(id);
        states.sessions_gone.insert(id.to_owned());
        self.remove_scope(&format!("{SESSION_SCOPE}{id}"));
        self.asks();
    }

    // ---- notices ----

    /// Puts up a notice: its number.
    pub(crate) fn post(&mut self, body: &'b [u8], until: Timestamp, most: usize) -> Done<i64> {
        let Some(last) = self.states.last_notice.as_mut() else {
            self.missing.notices = true;
            return Err(Fault::Miss);
        };
        *last += 1;
        let n = *last;
        self.states.notices.push((n, until.0, body));
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.states.notices_gone = self.states.notices_gone.max(n.saturating_sub(most));
        self.asks();
        Ok(n)
    }
}
