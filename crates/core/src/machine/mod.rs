//! The replay machine: a history on one side, the task's code on the other.
//!
//! The engine polls the task's future; every durable future in it asks the machine. The machine
//! numbers operations in program order, answers from the history what is recorded, lets a step run
//! when all it can depend on is durable, and collects what the next commit must hold.
//!
//! Two rules make replay equal the first run:
//! * Results are **delivered in recorded order**, one poll of the future for each, live and on
//!   replay alike ([`Machine::deliver`]).
//! * **Nothing new starts during replay.** An operation that the history does not know is only
//!   noted; what is still wanted when the history is used up is scheduled then
//!   ([`Machine::go_live`]). So the loser of a recorded race never runs again.

mod effect;
mod end;
mod halt;
mod join;
mod live;
mod op;
mod recorded;
mod replay;
mod say;
mod seen;
mod steer;
mod turn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use effect::Effect;
pub use halt::Halt;
use op::{Op, Phase};
pub use op::{OpPoll, StepGrant};
use recorded::{Delivery, Recorded};
use say::Passing;
use seen::Seen;
pub use turn::{Deferred, Turn, Urgency};

use crate::{Call, Failure, FailureKind, Json, Kind, Note, OpId, Record, Timestamp, Undo, View};

/// Bounds on what one task may have open or recorded.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events in the history before the task must continue as new.
    pub history: u64,
    /// Questions open at once.
    pub open_questions: usize,
    /// Steps in place that run at once; further ones wait for their turn.
    pub steps_in_flight: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { history: 50_000, open_questions: 64, steps_in_flight: 64 }
    }
}

/// Why the future is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollKind {
    /// A result was delivered, or it is the first poll: the code may go on.
    Delivery,
    /// A step's own I/O woke it: only steps may go on.
    Wake,
}

/// The replay machine: a history on one side, the task's code on the other.
///
/// Results are delivered in recorded order, one poll of the task's future for each, live and on
/// replay alike; and nothing new starts during replay. That makes replay equal the first run.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
    seed: u64,
    /// What ids of children and sent events are derived from, besides the operation.
    identity: u64,
    run: u32,
    input: Option<Json>,
    /// Time as the code sees it: when the last delivered event happened.
    now: Timestamp,
    /// Time as the engine last told it: what is appended now happened then.
    wall: Timestamp,
    /// The number of the next operation.
    next: u32,
    /// Boxed: a map makes room for a dozen at once, and most tasks have one or two at a time.
    ops: BTreeMap<OpId, Box<Op>>,
    /// When something of an open operation is due. May hold some that no longer are.
    deadlines: BTreeSet<(Timestamp, OpId)>,
    /// Operations in place that wait for leave to run.
    gated: BTreeSet<OpId>,
    /// What the history knows of operations that the code has not asked for yet.
    recorded: BTreeMap<OpId, Recorded>,
    /// The highest operation number in the loaded history.
    last_recorded: Option<OpId>,
    deliveries: VecDeque<(Timestamp, Delivery)>,
    live: bool,
    poll: PollKind,
    /// Name of the step whose closure is being polled; durable calls are refused in it.
    inside: Option<String>,
    halt: Option<Halt>,
    /// The future is being torn down: drops mean nothing.
    closing: bool,

    /// Events in the history, durable or not.
    appended: u64,
    durable: u64,
    /// Value of `appended` behind the last event that something can depend on.
    firm: u64,
    pending: Vec<Record>,
    effects: Vec<Effect>,
    deferred: Vec<Deferred>,
    /// Schedules and withdrawals decided during replay, to be carried out when live.
    late: Vec<Late>,

    steps_running: usize,
    /// No further steps are to start.
    frozen: bool,
    /// Events that came before anybody waited for them.
    buffered: Vec<(String, Json)>,
    seen: Seen,
    keys: BTreeMap<String, u32>,
    versions: BTreeMap<String, u32>,
    undos: Vec<Undo>,
    view: View,
    /// What the code wants to continue as.
    next_input: Option<Json>,
    /// The task begins anew with the turn to come.
    restart: bool,
    /// How many random numbers steps drew.
    drawn_inside: u64,
    /// Progress is not recorded.
    passes_progress: bool,
    passing: Vec<Passing>,
}

#[derive(Debug)]
enum Late {
    Schedule(OpId, Call),
    Withdraw(OpId, Box<Op>),
    Note(OpId, Note),
    Version(OpId, String, u32),
}

impl Machine {
    /// Takes a task's whole history, of which the first event is [`Event::Started`](crate::Event::Started).
    ///
    /// A history that starts otherwise gives a machine that is halted.
    #[must_use]
    pub fn new(history: Vec<Record>, view: View, limits: Limits) -> Machine {
        let mut machine = Machine {
            limits,
            seed: 0,
            identity: 0,
            run: 0,
            input: None,
            now: Timestamp(0),
            wall: Timestamp(0),
            next: 0,
            ops: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            gated: BTreeSet::new(),
            recorded: BTreeMap::new(),
            last_recorded: None,
            deliveries: VecDeque::new(),
            live: false,
            poll: PollKind::Delivery,
            inside: None,
            halt: None,
            closing: false,
            appended: history.len() as u64,
            durable: history.len() as u64,
            firm: 0,
            pending: Vec::new(),
            effects: Vec::new(),
            deferred: Vec::new(),
            late: Vec::new(),
            steps_running: 0,
            frozen: false,
            buffered: Vec::new(),
            seen: Seen::default(),
            keys: BTreeMap::new(),
            versions: BTreeMap::new(),
            undos: Vec::new(),
            view: View { failure: None, retry_at: None, ..view },
            next_input: None,
            restart: false,
            drawn_inside: 0,
            passes_progress: false,
            passing: Vec::new(),
        };
        machine.load(history);
        machine
    }

    /// The task's input; `None` if the history does not begin with its start.
    #[must_use]
    pub fn input(&self) -> Option<&Json> {
        self.input.as_ref()
    }

    /// Time as the code sees it.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Why the task must stop, if it must.
    #[must_use]
    pub fn halted(&self) -> Option<&Halt> {
        self.halt.as_ref()
    }

    /// Whether the history is used up and new things may start.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Undo functions recorded so far, oldest first.
    #[must_use]
    pub fn undos(&self) -> &[Undo] {
        &self.undos
    }

    /// Says why the next poll of the future happens, and when.
    pub fn begin_poll(&mut self, kind: PollKind, wall: Timestamp) {
        self.poll = kind;
        self.wall = self.wall.max(wall);
    }

    /// Says that a step's closure is being polled, or no longer.
    pub fn enter_step(&mut self, name: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.inside, name)
    }

    /// From here on dropped futures mean nothing: the task leaves memory.
    pub fn close(&mut self) {
        self.closing = true;
    }

    fn stop(&mut self, halt: Halt) {
        self.halt.get_or_insert(halt);
    }

    /// The code asks for an operation: it gets its number.
    pub fn create(&mut self, call: Call) -> OpId {
        let (kind, name) = (call.kind(), call.name());
        if self.refuse_inside(|| format!("{kind} {name:?}")) {
            // No number is taken: on replay the step is not run, and so would not take it.
            return OpId(u32::MAX);
        }
        let id = self.number(kind, &name);
        let recorded = self.recorded.remove(&id);
        let key = match &call {
            Call::Ask(ask) => self.unique_key(&ask.key),
            _ => String::new(),
        };
        self.ops.insert(id, Op::new(call, key, recorded.map(Box::new)));
        id
    }

    /// Stops the task if a step's closure is being polled: what it asks for would not be asked for
    /// again on replay.
    fn refuse_inside(&mut self, what: impl FnOnce() -> String) -> bool {
        let Some(step) = &self.inside else { return false };
        let found = format!("{} inside the step {step:?}", what());
        self.stop(Halt::NotDurable { found });
        true
    }

    /// A question's key: as wished the first time, and made unique over the task's life after that.
    fn unique_key(&mut self, wish: &str) -> String {
        let mut key = if wish.is_empty() { "input" } else { wish }.to_owned();
        // A numbered key is looked up too: somebody may have wished for just this one.
        loop {
            let uses = self.keys.entry(key.clone()).or_insert(0);
            *uses = uses.saturating_add(1);
            if *uses == 1 {
                return key;
            }
            key = format!("{key}-{uses}");
        }
    }

    /// Takes the next number, compares it with the history, and guards against what is not durable.
    fn number(&mut self, kind: Kind, name: &str) -> OpId {
        let id = OpId(self.next);
        self.next = self.next.saturating_add(1);
        let found = || format!("{kind} {name:?} as operation {id}");
        if self.poll == PollKind::Wake {
            self.stop(Halt::NotDurable { found: found() });
        } else if let Some(rec) = self.recorded.get(&id).filter(|rec| !rec.matches(kind, name)) {
            let recorded = format!("{} as operation {id}", rec.describe());
            self.stop(Halt::NonDeterminism { recorded, found: found() });
        } else if self.live && self.appended > self.limits.history {
            // A replay never gets here: what was allowed once is allowed again.
            let message = format!(
                "the history has {} events, over the limit of {}; end the task or continue as new \
                 before that",
                self.appended, self.limits.history
            );
            self.stop(Halt::Limit(Failure::new(FailureKind::Limit, message).permanently()));
        }
        id
    }

    /// A durable future is polled.
    pub fn poll(&mut self, id: OpId) -> OpPoll {
        if self.halt.is_some() {
            return OpPoll::Pending;
        }
        let Some(op) = self.ops.get(&id) else { return OpPoll::Pending };
        match &op.phase {
            Phase::New if self.poll == PollKind::Wake => {
                let found = format!("{} {:?} awaited", op.call.kind(), op.call.name());
                self.stop(Halt::NotDurable { found });
                OpPoll::Pending
            }
            Phase::New => {
                self.begin(id);
                match self.ops.get(&id).map(|op| &op.phase) {
                    Some(Phase::New) | None => OpPoll::Pending,
                    Some(_) => self.poll(id),
                }
            }
            Phase::Done(_) => match self.ops.remove(&id).map(|op| op.phase) {
                Some(Phase::Done(outcome)) => OpPoll::Ready(outcome),
                _ => OpPoll::Pending,
            },
            Phase::Gated { gate, attempt } => {
                let open = self.live && *gate <= self.durable;
                let full = self.steps_running >= self.limits.steps_in_flight;
                if !open || full || self.is_held_back(op) {
                    return OpPoll::Pending;
                }
                let attempt = *attempt;
                let deadline = op.attempt_timeout();
                self.set(id, Phase::Running { attempt });
                self.steps_running += 1;
                OpPoll::Run(StepGrant { attempt, timeout: deadline })
            }
            _ => OpPoll::Pending,
        }
    }

    fn set(&mut self, id: OpId, phase: Phase) {
        match &phase {
            Phase::Waiting { until: Some(until) } | Phase::Backoff { until, .. } => {
                self.deadlines.insert((*until, id));
            }
            Phase::Gated { .. } => {
                self.gated.insert(id);
            }
            Phase::Running { .. } => {
                self.gated.remove(&id);
            }
            _ => {}
        }
        if let Some(op) = self.ops.get_mut(&id) {
            op.phase = phase;
        }
    }

    /// First poll: during replay an operation waits for its record, or for the end of the history.
    fn begin(&mut self, id: OpId) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        if let Some(rec) = &op.recorded {
            let phase = rec.phase(&op.call);
            op.trouble = rec.trouble.clone().map(Box::new);
            return self.set(id, phase);
        }
        op.phase = Phase::Begun;
        if let Call::Signal { name } = &op.call {
            let found = self.buffered.iter().position(|(buffered, _)| buffered == name);
            op.phase = match found {
                Some(at) => Phase::Done(Ok(self.buffered.remove(at).1)),
                None => Phase::Waiting { until: None },
            };
        } else if self.live {
            let call = op.call.clone();
            self.schedule(id, &call);
        } else if let Some(outcome) = op.immediate(self.identity, id) {
            // Ready at once, live or not; what it asks of the world comes when we are live.
            op.phase = Phase::Done(outcome);
            self.late.push(Late::Schedule(id, op.call.clone()));
        }
    }

    /// A durable future was dropped.
    pub fn drop_op(&mut self, id: OpId) {
        if self.closing || self.halt.is_some() {
            return;
        }
        let Some(op) = self.ops.remove(&id) else { return };
        self.gated.remove(&id);
        if self.poll == PollKind::Wake && !matches!(op.phase, Phase::New | Phase::Done(_)) {
            let found = format!("{} {:?} dropped", op.call.kind(), op.call.name());
            self.stop(Halt::NotDurable { found });
            return;
        }
        if matches!(op.phase, Phase::Running { .. }) {
            self.steps_running -= 1;
        }
        // What was computed and not yet taken into a turn is forgotten with its operation.
        self.deferred.retain(|deferred| deferred.op != id);
        match op.phase {
            Phase::Done(Ok(payload)) => {
                if let Call::Signal { name } = op.call {
                    self.put_back(name, payload);
                }
            }
            Phase::New | Phase::Begun | Phase::Replayed | Phase::Done(_) => {}
            _ if self.live => self.withdraw(id, &op),
            _ => self.late.push(Late::Withdraw(id, op)),
        }
    }
}

/// A well-mixed number from three others (SplitMix64's finaliser).
pub(crate) fn mix(seed: u64, a: u64, b: u64) -> u64 {
    let mut z = seed
        .wrapping_add(a.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(b.wrapping_mul(0xd1b5_4a32_d192_ed03));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
