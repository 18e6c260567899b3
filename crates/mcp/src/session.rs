//! Sessions: what is remembered of a client between requests, up to 2025-11-25.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use steadfast_core::Principal;
use tokio_util::sync::CancellationToken;

use crate::{
    client::Client,
    outlet::Outlet,
    wire::{Id, RpcError},
};

/// Messages kept for a client that has no stream open.
const QUEUE: usize = 256;

/// A client from `initialize` on.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) client: Client,
    state: Mutex<State>,
}

struct State {
    used: Instant,
    log_level: Option<usize>,
    subscriptions: HashSet<String>,
    in_flight: HashMap<Id, CancellationToken>,
    /// The stream for what belongs to no request.
    stream: Option<Outlet>,
    /// What waits for it.
    queue: VecDeque<String>,
    /// Questions that are out, by task and key, with the number of the last time.
    asked: HashMap<(String, String), (Outlet, u32)>,
}

impl Session {
    pub(crate) fn new(id: String, client: Client) -> Session {
        let state = State {
            used: Instant::now(),
            log_level: None,
            subscriptions: HashSet::new(),
            in_flight: HashMap::new(),
            stream: None,
            queue: VecDeque::new(),
            asked: HashMap::new(),
        };
        Session { id, client, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        self.state().used = Instant::now();
    }

    /// Begins a request. One that has the id of another in flight is refused, and the other goes on.
    pub(crate) fn begin(self: &Arc<Self>, id: &Id) -> Result<InFlight, RpcError> {
        let mut state = self.state();
        state.used = Instant::now();
        if state.in_flight.contains_key(id) {
            return Err(RpcError::invalid_request("a request with this id is still at work"));
        }
        let cancel = CancellationToken::new();
        state.in_flight.insert(id.clone(), cancel.clone());
        Ok(InFlight { session: self.clone(), id: id.clone(), cancel })
    }

    /// Cancels a request, if it is still at work.
    pub(crate) fn cancel(&self, id: &Id) {
        if let Some(cancel) = self.state().in_flight.get(id) {
            cancel.cancel();
        }
    }

    pub(crate) fn set_log_level(&self, level: usize) {
        self.state().log_level = Some(level);
    }

    pub(crate) fn log_level(&self) -> Option<usize> {
        self.state().log_level
    }

    pub(crate) fn subscribe(&self, uri: String) {
        self.state().subscriptions.insert(uri);
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.state().subscriptions.remove(uri);
    }

    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        self.state().subscriptions.contains(uri)
    }

    /// Opens the stream for what belongs to no request, in place of the one before, and sends what
    /// has waited for it.
    pub(crate) fn open_stream(&self, outlet: Outlet) {
        let mut state = self.state();
        while let Some(message) = state.queue.pop_front() {
            if !outlet.try_send(message.clone()) {
                state.queue.push_front(message);
                break;
            }
        }
        state.stream = Some(outlet);
    }

    /// The stream for what belongs to no request, if it is open.
    pub(crate) fn stream(&self) -> Option<Outlet> {
        self.state().stream.clone().filter(|stream| !stream.is_closed())
    }

    /// Sends something that belongs to no request, or keeps it for the next stream. The oldest goes
    /// when there is too much.
    pub(crate) fn push(&self, message: String) {
        let mut state = self.state();
        let sent = state.stream.as_ref().is_some_and(|stream| stream.try_send(message.clone()));
        if !sent {
            if state.queue.len() == QUEUE {
                state.queue.pop_front();
            }
            state.queue.push_back(message);
        }
    }

    /// Notes that a question goes out on a stream. None if it is out on one that is still open;
    /// otherwise how often it has been out before.
    pub(crate) fn ask(&self, task: &str, key: &str, on: &Outlet) -> Option<u32> {
        let mut state = self.state();
        // Those that are over are never asked for again.
        if state.asked.len() > 4 * QUEUE {
            state.asked.retain(|_, (outlet, _)| !outlet.is_closed());
        }
        let place = (task.to_owned(), key.to_owned());
        let before = match state.asked.get(&place) {
            Some((outlet, _)) if !outlet.is_closed() => return None,
            Some((_, times)) => times + 1,
            None => 0,
        };
        state.asked.insert(place, (on.clone(), before));
        Some(before)
    }
}

/// A request at work. It is over when this is dropped.
pub(crate) struct InFlight {
    session: Arc<Session>,
    id: Id,
    pub(crate) cancel: CancellationToken,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.session.state().in_flight.remove(&self.id);
    }
}

/// All sessions.
pub(crate) struct Sessions {
    most: usize,
    idle: Duration,
    map: Mutex<HashMap<String, Arc<Session>>>,
}

impl Sessions {
    pub(crate) fn new(most: usize, idle: Duration) -> Sessions {
        Sessions { most, idle, map: Mutex::default() }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, client: Client) -> Arc<Session> {
        let session = Arc::new(Session::new(random_id(), client));
        let mut map = self.map();
        if map.len() >= self.most {
            map.retain(|_, session| session.state().used.elapsed() < self.idle);
        }
        if map.len() >= self.most {
            let oldest = map.values().min_by_key(|session| session.state().used);
            if let Some(id) = oldest.map(|session| session.id.clone()) {
                map.remove(&id);
            }
        }
        map.insert(session.id.clone(), session.clone());
        session
    }

    /// Takes in a session that has a connection of its own, and ends with it.
    pub(crate) fn adopt(&self, session: &Arc<Session>) {
        self.map().insert(session.id.clone(), session.clone());
    }

    /// The session of this id, if it is this principal's and not over.
    pub(crate) fn get(&self, id: &str, principal: &Principal) -> Option<Arc<Session>> {
        let mut map = self.map();
        let session = map.get(id).filter(|session| session.client.principal == *principal)?.clone();
        let streams = session.stream().is_some();
        if !streams && session.state().used.elapsed() > self.idle {
            map.remove(id);
            return None;
        }
        session.touch();
        Some(session)
    }

    pub(crate) fn end(&self, id: &str) {
        self.map().remove(id);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.map().values().cloned().collect()
    }
}

/// 128 random bits.
pub(crate) fn random_id() -> String {
    let mut bits = [0; 16];
    // The system's source of randomness; without it nothing that is secret can be made.
    #[allow(clippy::expect_used)]
    getrandom::fill(&mut bits).expect("the system has a source of randomness");
    format!("{:032x}", u128::from_be_bytes(bits))
}
