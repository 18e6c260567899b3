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
        let name = name(task, key);
        state.by_task.remove(&name);
        state.told.remove(&name);
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

    /// A request of ours about a client's task, whose response will be waited for.
    pub(crate) fn expect(self: &Arc<Self>, method: &str, task: &str, key: &str) -> Expected {
        let (sender, response) = oneshot::channel();
        let id = About::id(method, task, key);
        self.state().expected.insert(id.clone(), sender);
        Expected { session: self.clone(), id, response }
    }

    /// Hands a response to whoever waits for it. Gives it back if nobody does here.
    pub(crate) fn respond(
        &self,
        id: &str,
        outcome: Result<Value, Value>,
    ) -> Option<Result<Value, Value>> {
        match self.state().expected.remove(id) {
            Some(reply) => reply.send(outcome).err(),
            None => Some(outcome),
        }
    }

    /// Whether the client answers a question by a task of its own.
    pub(crate) fn is_answered_by_task(&self, task: &str, key: &str) -> bool {
        self.state().by_task.contains_key(&name(task, key))
    }

    /// The client has said how its task is to a process that did not ask for it: to be written down for the
    /// one that did.
    pub(crate) fn tell_of_theirs(&self, task: &str, key: &str, status: &str) {
        self.state().told.insert(name(task, key), status.to_owned());
    }

    /// What a client has said of its task to another process than it was asked by.
    pub(crate) fn told_of_theirs(&self, task: &str, key: &str) -> Option<String> {
        self.state().told.get(&name(task, key)).cloned()
    }
}

/// What a request of ours was about: all that is needed to do something with its response in any process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct About<'a> {
    pub(crate) method: &'a str,
    pub(crate) task: &'a str,
    pub(crate) key: &'a str,
}

impl<'a> About<'a> {
    /// The id of such a request, which no other has.
    fn id(method: &str, task: &str, key: &str) -> String {
        format!("about:{}:{method}:{task}:{key}", random_id())
    }

    /// Reads such an id.
    pub(crate) fn read(id: &'a str) -> Option<About<'a>> {
        let mut parts = id.strip_prefix("about:")?.splitn(4, ':').skip(1);
        Some(About { method: parts.next()?, task: parts.next()?, key: parts.next()? })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_what_it_is_about() {
        let id = About::id("tasks/get", "task", "a key: with colons");
        let about = About { method: "tasks/get", task: "task", key: "a key: with colons" };
        assert_eq!(About::read(&id), Some(about));
        assert_ne!(About::id("m", "t", "k"), About::id("m", "t", "k"));
        for other in ["", "about:", "about:0123", "about:0123:tasks/get:task", "ask:t:0:k"] {
            assert_eq!(About::read(other), None, "{other}");
        }
    }
}
