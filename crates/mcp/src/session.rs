//! Sessions: what is remembered of a client between requests, up to 2025-11-25.

mod all;
mod early;
mod found;
mod record;
mod stream;
mod theirs;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

pub(crate) use all::Sessions;
pub(crate) use stream::StreamPoint;
pub(crate) use theirs::About;

use crate::{
    catalog::Change,
    client::Client,
    front::Starting,
    outlet::Outlet,
    repeat::RequestText,
    wire::{Id, RpcError},
};

/// Questions that were asked and tasks that were looked at, before those that are over are forgotten.
const MANY: usize = 1_024;

/// Resources that a session can watch.
const SUBSCRIPTIONS: usize = 1_000;

/// A client from `initialize` on.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) client: Client,
    /// It is not bound to a connection.
    pub(crate) can_return: bool,
    /// Fires when it has ended.
    pub(crate) over: CancellationToken,
    /// Held from the look at its row, or at the state, until what was read or written is known here: one
    /// that was read before another was written must not come after it.
    moving: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

struct State {
    used: Instant,
    /// The last use that is written down.
    written: Instant,
    /// Its row, when we last saw it.
    seen: record::Seen,
    /// What the store said of [solitude](steadfast_store::Store::solitude) before that.
    solitude: Option<u64>,
    log_level: Option<usize>,
    /// What it watches, and from which notice on.
    subscriptions: BTreeMap<String, u64>,
    in_flight: HashMap<Id, AtWork>,
    /// Requests that were begun, so that those of one id can be told apart.
    begun: u64,
    /// The tasks of calls whose streams were taken up.
    taken_up: HashSet<String>,
    /// Requests that have found the tasks of others, by an idempotency key.
    attached: HashMap<Id, found::Attached>,
    /// When requests were taken back that nobody has seen.
    early: VecDeque<Instant>,
    /// The stream for what belongs to no request.
    stream: Option<Outlet>,
    /// How far that has come.
    point: StreamPoint,
    /// What has changed of the offer while it was nowhere in memory.
    changed: BTreeSet<Change>,
    /// What tells the offer that it knows from others.
    offer: [u64; 3],
    /// Questions that are out, by task and key.
    asked: HashMap<(String, String), Asked>,
    /// Tasks that the client has shown to know.
    looked_at: HashSet<String>,
    /// The streams of calls that can be taken up again, by task.
    calls: HashMap<String, CallStream>,
    /// Who waits for the response to a request of ours, by its id.
    expected: HashMap<String, theirs::Reply>,
    /// The tasks by which the client answers questions, each by the name of its question.
    by_task: BTreeMap<String, String>,
    /// How those tasks are, as the client has said to others than the process that asked.
    told: BTreeMap<String, String>,
    /// The questions whose tasks are followed here.
    followed: HashSet<String>,
}

/// Requests of one id.
struct AtWork {
    /// Held while the task of one of them is started.
    starting: Starting,
    /// The first of them.
    number: u64,
    cancel: CancellationToken,
    /// What they ask for, if they may come more than once.
    text: Option<Arc<RequestText>>,
    /// How many there are.
    count: usize,
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
        let now = Instant::now();
        let state = State {
            used: now,
            written: now,
            seen: Default::default(),
            solitude: None,
            log_level: None,
            subscriptions: BTreeMap::new(),
            in_flight: HashMap::new(),
            begun: 0,
            taken_up: HashSet::new(),
            attached: HashMap::new(),
            early: VecDeque::new(),
            stream: None,
            point: StreamPoint::default(),
            changed: BTreeSet::new(),
            offer: [0; 3],
            asked: HashMap::new(),
            looked_at: HashSet::new(),
            calls: HashMap::new(),
            expected: HashMap::new(),
            by_task: BTreeMap::new(),
            told: BTreeMap::new(),
            followed: HashSet::new(),
        };
        let over = CancellationToken::new();
        let (moving, state) = (Default::default(), Mutex::new(state));
        Session { id, client, can_return: true, over, moving, state }
    }

    /// One that lives as long as its connection.
    pub(crate) fn of_connection(client: Client) -> Session {
        Session { can_return: false, ..Session::new(random_id(), client) }
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
        self.can_return && !self.is_busy() && self.last_use().elapsed() > time
    }

    /// The last use that is not written down, if there is one.
    fn unwritten_use(&self) -> Option<Instant> {
        if self.is_busy() {
            return Some(Instant::now());
        }
        let state = self.state();
        (state.used > state.written).then_some(state.used)
    }

    /// A use is written down.
    fn is_touched(&self, used: Instant) {
        let mut state = self.state();
        state.written = state.written.max(used);
    }

    /// Its row was looked at when the store said this.
    fn is_seen_in(&self, solitude: Option<u64>) {
        self.state().solitude = solitude;
    }

    fn was_seen_in(&self, solitude: Option<u64>) -> bool {
        self.state().solitude == solitude
    }

    /// Begins a request. One that has the id of another in flight is refused, and the other goes on;
    /// unless both have texts, and those are of the same request.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: &Id,
        text: Option<Arc<RequestText>>,
    ) -> Result<InFlight, RpcError> {
        let mut state = self.state();
        state.used = Instant::now();
        state.begun += 1;
        let number = state.begun;
        // One that was taken back holds its id no more.
        let before = state.in_flight.get_mut(id).filter(|before| !before.cancel.is_cancelled());
        let (cancel, starting, number, again) = match before {
            None => {
                let cancel = CancellationToken::new();
                let starting = Starting::new(text.is_none().into());
                let at_work = AtWork {
                    starting: starting.clone(),
                    number,
                    cancel: cancel.clone(),
                    text,
                    count: 1,
                };
                state.in_flight.insert(id.clone(), at_work);
                state.attached.remove(id);
                (cancel, starting, number, false)
            }
            Some(same)
                if text.zip(same.text.clone()).is_some_and(|(one, other)| one.is_same(&other)) =>
            {
                same.count += 1;
                (same.cancel.clone(), same.starting.clone(), same.number, true)
            }
            Some(_) => {
                return Err(RpcError::taken("a request with this id is still at work"));
            }
        };
        Ok(InFlight { session: self.clone(), id: id.clone(), number, cancel, starting, again })
    }

    /// Cancels a request, if it is at work here: nothing more is said of it, and another may have its id.
    /// Its task may just be in the making: that is over when the lock is free.
    pub(crate) fn cancel(&self, id: &Id) -> Option<Starting> {
        let at_work = self.state().in_flight.remove(id)?;
        at_work.cancel.cancel();
        Some(at_work.starting)
    }

    /// The stream of a call is taken up, so that another request may have its id. Until one has, it can be
    /// cancelled by that: it is found in the store.
    pub(crate) fn take_up(&self, id: &Id, task: &str) {
        let mut state = self.state();
        state.in_flight.remove(id);
        if state.taken_up.len() > MANY {
            state.taken_up.clear();
        }
        state.taken_up.insert(task.to_owned());
    }

    /// Whether the stream of a call was taken up here.
    pub(crate) fn has_taken_up(&self, task: &str) -> bool {
        self.state().taken_up.contains(task)
    }

    pub(crate) fn set_log_level(&self, level: usize) {
        self.state().log_level = Some(level);
    }

    pub(crate) fn log_level(&self) -> Option<usize> {
        self.state().log_level
    }

    /// Watches a resource from this notice on, unless the session watches too many.
    pub(crate) fn subscribe(&self, uri: String, from: u64) -> Result<(), RpcError> {
        let mut state = self.state();
        if state.subscriptions.len() >= SUBSCRIPTIONS && !state.subscriptions.contains_key(&uri) {
            let message = format!("a session watches no more than {SUBSCRIPTIONS} resources");
            return Err(RpcError::invalid_request(message));
        }
        state.subscriptions.entry(uri).or_insert(from);
        Ok(())
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.state().subscriptions.remove(uri);
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
        if state.asked.len() > MANY {
            state.asked.retain(|_, asked| asked.is_out() || asked.by_task);
        }
        let place = (task.to_owned(), key.to_owned());
        if !of_call && state.point.has_asked(task, key) && !state.asked.contains_key(&place) {
            // Before the stream broke, by a process that is gone: the client has it.
            let asked = Asked { on: Some(on.clone()), times: 0, of_call, by_task: false };
            state.asked.insert(place, asked);
            return None;
        }
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
        if state.looked_at.len() > MANY {
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

    /// The stream of a call, if it has one, is over: the client has made its request again.
    pub(crate) fn close_call(&self, task: &str) {
        if let Some(before) = self.state().calls.remove(task) {
            before.over.cancel();
        }
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
    number: u64,
    pub(crate) cancel: CancellationToken,
    pub(crate) starting: Starting,
    /// It is not the only one of its id.
    pub(crate) again: bool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.session.state();
        if let Some(at_work) = state.in_flight.get_mut(&self.id)
            && at_work.number == self.number
        {
            at_work.count -= 1;
            if at_work.count == 0 {
                state.in_flight.remove(&self.id);
            }
        }
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
