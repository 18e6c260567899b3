//! What a session knows of its client's tasks, and of our requests about them.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;

use super::{Asked, Session};
use crate::outlet::Outlet;

/// Takes the response to a request.
pub(super) type Reply = oneshot::Sender<Result<Value, Value>>;

impl Session {
    /// The client answers a question by a task of its own. False if it does so already by another.
    pub(crate) fn answers_by_task(&self, task: &str, key: &str) -> bool {
        let place = (task.to_owned(), key.to_owned());
        let none = Asked { on: None, times: 0, of_call: false, by_task: false };
        let mut state = self.state();
        let asked = state.asked.entry(place).or_insert(none);
        !std::mem::replace(&mut asked.by_task, true)
    }

    /// It does so no longer.
    pub(crate) fn is_done_by_task(&self, task: &str, key: &str) {
        if let Some(asked) = self.state().asked.get_mut(&(task.to_owned(), key.to_owned())) {
            asked.by_task = false;
        }
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
        let mut state = self.state();
        state.requests += 1;
        let id = format!("about:{}", state.requests);
        state.expected.insert(id.clone(), sender);
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
