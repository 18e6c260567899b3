//! Sessions: what is remembered of a client between requests, up to 2025-11-25.

mod all;
mod record;
mod theirs;

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

pub(crate) use all::Sessions;

use crate::{
    client::Client,
    outlet::Outlet,
    wire::{Id, RpcError},
};

/// Messages kept for a client that has no stream open.
const QUEUE: usize = 256;

/// Resources that a session can watch.
const SUBSCRIPTIONS: usize = 1_000;

/// A client from `initialize` on.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) client: Client,
    /// It is in the store, and not bound to a connection.
    pub(crate) is_stored: bool,
    /// Fires when it has ended.
    pub(crate) over: CancellationToken,
    state: Mutex<State>,
}

struct State {
    used: Instant,
    /// When it last went to the store, or came from there.
    written: Instant,
    log_level: Option<usize>,
    subscriptions: BTreeSet<String>,
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
    /// It was asked on the stream of its call.
    of_call: bool,
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
            written: Instant::now(),
            log_level: None,
            subscriptions: BTreeSet::new(),
            in_flight: HashMap::new(),
            stream: None,
            queue: VecDeque::new(),
            asked: HashMap::new(),
            looked_at: HashSet::new(),
            calls: HashMap::new(),
            expected: HashMap::new(),
            requests: 0,
        };
        let over = CancellationToken::new();
        Session { id, client, is_stored: true, over, state: Mutex::new(state) }
    }

    /// One that lives as long as its connection.
    pub(crate) fn of_connection(client: Client) -> Session {
        Session { is_stored: false, ..Session::new(random_id(), client) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        self.state().used = Instant::now();
    }

    fn last_use(&self) -> Instant {
        self.state().used
    }

    /// Whether anything of it is in use right now.
    fn is_busy(&self) -> bool {
        let state = self.state();
        let streams = state.stream.as_ref().is_some_and(|stream| !stream.is_closed());
        streams || !state.in_flight.is_empty()
    }

    /// Whether it has not been used for this long.
    fn is_idle(&self, time: Duration) -> bool {
        self.is_stored && !self.is_busy() && self.last_use().elapsed() > time
    }

    /// Whether it was used since it was written last.
    fn was_used(&self) -> bool {
        let used = |state: MutexGuard<'_, State>| state.used >= state.written;
        self.is_stored && (self.is_busy() || used(self.state()))
    }

    fn is_written(&self) {
        self.state().written = Instant::now();
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

    /// Cancels a request. False if it is not at work here.
    pub(crate) fn cancel(&self, id: &Id) -> bool {
        let state = self.state();
        let at_work = state.in_flight.get(id);
        at_work.inspect(|cancel| cancel.cancel()).is_some()
    }

    /// Another request may have the id of one that is at work. That one can still be cancelled if it is
    /// durable, because then it is found in the store.
    pub(crate) fn free(&self, id: &Id) {
        self.state().in_flight.remove(id);
    }

    pub(crate) fn set_log_level(&self, level: usize) {
        self.state().log_level = Some(level);
    }

    pub(crate) fn log_level(&self) -> Option<usize> {
        self.state().log_level
    }

    /// Watches a resource, unless the session watches too many.
    pub(crate) fn subscribe(&self, uri: String) -> Result<(), RpcError> {
        let mut state = self.state();
        if state.subscriptions.len() >= SUBSCRIPTIONS && !state.subscriptions.contains(&uri) {
            let message = format!("a session watches no more than {SUBSCRIPTIONS} resources");
            return Err(RpcError::invalid_request(message));
        }
        state.subscriptions.insert(uri);
        Ok(())
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

    /// Notes that a question goes out on a stream, which may be that of its call. None if it is out on one that is still open, or nobody listens to this one any more;
    /// otherwise how often it has been out before.
    pub(crate) fn ask(&self, task: &str, key: &str, on: &Outlet, of_call: bool) -> Option<u32> {
        let mut state = self.state();
        // A connection that nobody is at may look open for long.
        let replaced = || state.calls.get(task).is_some_and(|call| !call.on.is(on));
        if on.is_closed() || of_call && replaced() {
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
        state.asked.insert(place, Asked { on: Some(on.clone()), times, of_call, by_task: false });
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

    /// The stream of a call is taken up again. Of these open questions those that the client has need not
    /// be asked again; the others are, even if they were sent: they were lost on the way.
    pub(crate) fn keep_asked<'a>(
        &self,
        task: &str,
        open: impl Iterator<Item = (&'a str, bool)>,
        on: &Outlet,
    ) {
        let mut state = self.state();
        for (key, has) in open {
            let place = (task.to_owned(), key.to_owned());
            match state.asked.get_mut(&place) {
                Some(asked) if has || asked.by_task => asked.on = Some(on.clone()),
                // What was asked on another stream is none of this one's business.
                Some(asked) if asked.of_call => asked.on = None,
                Some(_) => {}
                None if has => {
                    let on = Some(on.clone());
                    let asked = Asked { on, times: 0, of_call: true, by_task: false };
                    state.asked.insert(place, asked);
                }
                None => {}
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
        let mut state = self.session.state();
        state.in_flight.remove(&self.id);
        state.used = Instant::now();
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
