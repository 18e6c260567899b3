//! Sessions: what is remembered of a client between requests, up to 2025-11-25.

mod theirs;

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
    /// Fires when it has ended.
    pub(crate) over: CancellationToken,
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
    /// Questions that are out, by task and key.
    asked: HashMap<(String, String), Asked>,
    /// Tasks that the client has shown to know.
    looked_at: HashSet<String>,
    /// The streams of calls that can be taken up again, by task.
    calls: HashMap<String, CallStream>,
    /// Who waits for the response to a request of ours, by its id.
    expected: HashMap<String, theirs::Reply>,
    /// Requests of ours that were waited for.
    requests: u64,
}

/// A question that was asked.
struct Asked {
    /// Nowhere, if it was lost.
    on: Option<Outlet>,
    /// How often it had been out before.
    times: u32,
    /// Which message of its call's stream it is.
    sent: Option<u64>,
    /// The client answers it by a task of its own, so that it need not be asked again.
    by_task: bool,
}

impl Asked {
    fn is_out(&self) -> bool {
        self.on.as_ref().is_some_and(|on| !on.is_closed())
    }
}

/// The stream of a call, of which there is one at a time.
struct CallStream {
    on: Outlet,
    /// Fires when it is over, or is to be.
    over: CancellationToken,
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
            looked_at: HashSet::new(),
            calls: HashMap::new(),
            expected: HashMap::new(),
            requests: 0,
        };
        Session { id, client, over: CancellationToken::new(), state: Mutex::new(state) }
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

    /// Notes that a question goes out on a stream, as the message of this number if it is that of a
    /// call. None if it is out on one that is still open, or nobody listens to this one any more;
    /// otherwise how often it has been out before.
    pub(crate) fn ask(&self, task: &str, key: &str, on: &Outlet, sent: Option<u64>) -> Option<u32> {
        let mut state = self.state();
        // A connection that nobody is at may look open for long.
        let replaced = || state.calls.get(task).is_some_and(|call| !call.on.is(on));
        if on.is_closed() || sent.is_some() && replaced() {
            return None;
        }
        // Those that are over are never asked for again.
        if state.asked.len() > 4 * QUEUE {
            state.asked.retain(|_, asked| asked.is_out() || asked.by_task);
        }
        let place = (task.to_owned(), key.to_owned());
        let times = match state.asked.get_mut(&place) {
            Some(asked) if asked.is_out() => return None,
            Some(asked) if asked.by_task => {
                asked.on = Some(on.clone());
                return None;
            }
            Some(asked) => asked.times + 1,
            None => 0,
        };
        state.asked.insert(place, Asked { on: Some(on.clone()), times, sent, by_task: false });
        Some(times)
    }

    /// Notes that the client looks at a task. True if it has done so before.
    pub(crate) fn look_at(&self, task: &str) -> bool {
        let mut state = self.state();
        if state.looked_at.len() > 4 * QUEUE {
            state.looked_at.clear();
        }
        !state.looked_at.insert(task.to_owned())
    }

    pub(crate) fn has_looked_at(&self, task: &str) -> bool {
        self.state().looked_at.contains(task)
    }

    /// Opens the stream of a call, in place of the one before, which ends. Fires when this one is to
    /// end, and is to be fired when it has.
    pub(crate) fn open_call(&self, task: &str, on: Outlet) -> CancellationToken {
        let mut state = self.state();
        state.calls.retain(|_, call| !call.over.is_cancelled());
        let over = CancellationToken::new();
        let call = CallStream { on, over: over.clone() };
        if let Some(before) = state.calls.insert(task.to_owned(), call) {
            before.over.cancel();
        }
        over
    }

    /// The stream of a call is taken up again, after this many messages: questions among them need not
    /// be asked again.
    pub(crate) fn keep_asked(&self, task: &str, sent: u64, on: &Outlet) {
        for ((of, _), asked) in &mut self.state().asked {
            if of != task {
                continue;
            }
            match asked.sent {
                Some(number) if number <= sent || asked.by_task => asked.on = Some(on.clone()),
                // What was asked on another stream is none of this one's business.
                None => {}
                Some(_) => (asked.on, asked.sent) = (None, None),
            }
        }
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
            let idle: Vec<Arc<Session>> = map
                .values()
                .filter(|session| session.state().used.elapsed() >= self.idle)
                .cloned()
                .collect();
            idle.iter().for_each(|session| remove(&mut map, &session.id));
        }
        if map.len() >= self.most {
            let oldest = map.values().min_by_key(|session| session.state().used);
            if let Some(id) = oldest.map(|session| session.id.clone()) {
                remove(&mut map, &id);
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
            remove(&mut map, id);
            return None;
        }
        session.touch();
        Some(session)
    }

    pub(crate) fn end(&self, id: &str) {
        remove(&mut self.map(), id);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.map().values().cloned().collect()
    }
}

fn remove(map: &mut HashMap<String, Arc<Session>>, id: &str) {
    if let Some(session) = map.remove(id) {
        session.over.cancel();
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
