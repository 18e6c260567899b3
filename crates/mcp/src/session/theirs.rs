//! What a session knows of its client's tasks, and of our requests about them.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use tokio::sync::oneshot;

use super::{Asked, Session, State, random_id};
use crate::outlet::Outlet;

/// How many tasks of its client a session remembers over a restart, and how long their ids may be: it is
/// the client who names them. Those beyond are followed as long as this process lives.
const REMEMBERED: usize = 256;
const LONGEST: usize = 512;

/// The name of a question. No id of a task has a line break.
fn name(task: &str, key: &str) -> String {
    format!("{task}\n{key}")
}

impl State {
    /// These questions are answered by tasks, which is why they are not asked again.
    pub(super) fn answers_by(&mut self, tasks: BTreeMap<String, String>) {
        for (task, key) in tasks.keys().filter_map(|name| name.split_once('\n')) {
            self.asked_by_task(task, key);
        }
        self.by_task = tasks;
    }

    fn asked_by_task(&mut self, task: &str, key: &str) {
        let none = Asked { on: None, times: 0, of_call: false, by_task: false };
        let place = (task.to_owned(), key.to_owned());
        self.asked.entry(place).or_insert(none).by_task = true;
    }
}

/// Takes the response to a request.
pub(super) type Reply = oneshot::Sender<Result<Value, Value>>;

impl Session {
    /// The client answers a question by this task of its own. False if it does so already by another.
    pub(crate) fn answers_by_task(&self, task: &str, key: &str, theirs: &str) -> bool {
        let mut state = self.state();
        let name = name(task, key);
        match state.by_task.get(&name) {
            Some(known) if known != theirs => return false,
            None if state.followed.contains(&name) => return false,
            Some(_) => {}
            None => {
                let room = state.by_task.len() < REMEMBERED && theirs.len() <= LONGEST;
                if self.can_return && room {
                    state.by_task.insert(name, theirs.to_owned());
                }
            }
        }
        state.asked_by_task(task, key);
        true
    }

    /// It does so no longer.
    pub(crate) fn is_done_by_task(&self, task: &str, key: &str) {
        let mut state = self.state();
        if let Some(asked) = state.asked.get_mut(&(task.to_owned(), key.to_owned())) {
            asked.by_task = false;
        }
        state.by_task.remove(&name(task, key));
    }

    /// Whether somebody is to begin to follow the client's task for a question: nobody does so here yet.
    pub(crate) fn begin_following(&self, task: &str, key: &str) -> bool {
        self.state().followed.insert(name(task, key))
    }

    pub(crate) fn end_following(&self, task: &str, key: &str) {
        self.state().followed.remove(&name(task, key));
    }

    /// The questions whose tasks nobody follows here, each by our task, its key and theirs: the client
    /// answered them in another process, which may be gone.
    pub(crate) fn unfollowed(&self) -> Vec<(String, String, String)> {
        let state = self.state();
        let unfollowed = state.by_task.iter().filter(|(name, _)| !state.followed.contains(*name));
        let parts = unfollowed.filter_map(|(name, theirs)| {
            let (task, key) = name.split_once('\n')?;
            Some((task.to_owned(), key.to_owned(), theirs.clone()))
        });
        parts.collect()
    }

    /// Where to ask how far the client is with a question: where that was asked, else on the session's
    /// own stream. Nowhere, if the client listens to neither.
    pub(crate) fn stream_of(&self, task: &str, key: &str) -> Option<Outlet> {
        let place = (task.to_owned(), key.to_owned());
        let on = self.state().asked.get(&place).and_then(|asked| asked.on.clone());
        on.filter(|on| !on.is_closed()).or_else(|| self.stream())
    }

    /// A request of ours whose response will be waited for.
    pub(crate) fn expect(self: &Arc<Self>) -> Expected {
        let (sender, response) = oneshot::channel();
        // Its response may come to another process, or late: it must be that of no other request.
        let id = format!("about:{}", random_id());
        self.state().expected.insert(id.clone(), sender);
        Expected { session: self.clone(), id, response }
    }

    /// Hands a response to whoever waits for it, if anybody does.
    pub(crate) fn respond(&self, id: &str, outcome: Result<Value, Value>) {
        if let Some(reply) = self.state().expected.remove(id) {
            // Who is gone does not want it any more.
            let _ = reply.send(outcome);
        }
    }
}

/// A request of ours. Nobody waits for its response any more when this is dropped.
pub(crate) struct Expected {
    session: Arc<Session>,
    pub(crate) id: String,
    pub(crate) response: oneshot::Receiver<Result<Value, Value>>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.session.state().expected.remove(&self.id);
    }
}
