//! What outlives a crash: the store, the inbox, and a count of every effect.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use steadfast_core::{
    Action, Answer, Call, Effect, Event, Failure, FailureKind, Json, Kind, Message, Mode, OpId,
    Outcome, Record, Scope, StepGrant, TaskId, Timestamp, Turn, decode, encode,
};

use crate::{
    check::check_once,
    code::{Ended, Place},
};

/// A small generator of numbers from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// An attempt of an operation.
pub(crate) type Attempt = (OpId, u32);

/// The store and the outside, seen from one task.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) dice: Dice,
    pub(crate) wall: i64,
    pub(crate) history: Vec<Record>,
    pub(crate) inbox: Vec<(u64, Message)>,
    pub(crate) next_message: u64,
    pub(crate) questions: BTreeMap<String, OpId>,
    pub(crate) activities: BTreeSet<OpId>,
    pub(crate) children: BTreeMap<TaskId, OpId>,
    pub(crate) watches: BTreeSet<String>,
    pub(crate) state: BTreeMap<String, (u64, Option<Json>)>,
    /// Everything that may be asked of the world once.
    pub(crate) once: BTreeSet<String>,
    /// How often each attempt of a step ran, and how many crashes came before it was recorded.
    pub(crate) ran: BTreeMap<Attempt, u32>,
    pub(crate) lost: BTreeMap<Attempt, u32>,
    pub(crate) open: BTreeSet<Attempt>,
    pub(crate) sent: u64,
    /// What closures that run now will come to.
    pub(crate) running: BTreeMap<OpId, Ended>,
    pub(crate) created: BTreeMap<OpId, (Vec<OpId>, usize)>,
    pub(crate) read: Vec<OpId>,
    /// Payloads of signals that the code took in this run.
    pub(crate) signals_read: Vec<Json>,
    /// The next closures end within the poll that starts them.
    pub(crate) hasty: bool,
}

pub(crate) fn number(value: u64) -> Json {
    Json::of(&value).unwrap()
}

impl Store {
    pub(crate) fn new(seed: u64) -> Store {
        let started = Event::Started { input: number(0), seed, run: 0, carry: None };
        Store::resume(seed, vec![Record { at: Timestamp(1000), event: started }])
    }

    /// The world as it must be for this history.
    pub(crate) fn resume(seed: u64, history: Vec<Record>) -> Store {
        let mut store = Store {
            dice: Dice::new(seed),
            wall: history.iter().map(|r| r.at.0).max().unwrap_or(1000),
            history: Vec::new(),
            inbox: Vec::new(),
            next_message: 0,
            questions: BTreeMap::new(),
            activities: BTreeSet::new(),
            children: BTreeMap::new(),
            watches: BTreeSet::new(),
            state: BTreeMap::new(),
            once: BTreeSet::new(),
            ran: BTreeMap::new(),
            lost: BTreeMap::new(),
            open: BTreeSet::new(),
            sent: 0,
            running: BTreeMap::new(),
            created: BTreeMap::new(),
            read: Vec::new(),
            signals_read: Vec::new(),
            hasty: false,
        };
        for record in &history {
            match &record.event {
                Event::QuestionAsked { op, ask, .. } => {
                    store.questions.insert(ask.key.clone(), *op);
                }
                Event::ActivityScheduled { op, .. } => {
                    store.activities.insert(*op);
                }
                Event::ChildStarted { op, id, detached: false, .. } => {
                    store.children.insert(id.clone(), *op);
                }
                Event::ConditionWatched { key, .. } => {
                    store.watches.insert(key.clone());
                }
                Event::StateWritten { key, value, .. } => store.put(key.clone(), value.clone()),
                // A step that was started ran, for all we know.
                Event::StepStarted { op, attempt, .. } => {
                    store.ran.insert((*op, *attempt), 1);
                }
                Event::SignalReceived { .. } => store.sent += 1_000,
                event => {
                    if let Some(op) = event.op() {
                        store.questions.retain(|_, asked| *asked != op);
                        store.activities.remove(&op);
                        store.children.retain(|_, child| *child != op);
                    }
                }
            }
        }
        for record in &history {
            check_once(&mut store.once, &record.event);
        }
        store.history = history;
        store
    }

    pub(crate) fn at(&self) -> Timestamp {
        Timestamp(self.wall)
    }

    pub(crate) fn post(&mut self, message: Message) {
        self.next_message += 1;
        self.inbox.push((self.next_message, message));
    }

    pub(crate) fn put(&mut self, key: String, value: Option<Json>) {
        let entry = self.state.entry(key.clone()).or_default();
        *entry = (entry.0 + 1, value);
        if self.watches.contains(&key) {
            self.post(Message::StateChanged { scope: Scope::Owner, key });
        }
    }

    pub(crate) fn signal(&mut self) {
        self.sent += 1;
        let name = format!("signal-{}", self.dice.below(2));
        let id = self.dice.chance(50).then(|| format!("id-{}", self.sent));
        let message = Message::Signal { name, id, payload: number(self.sent) };
        if matches!(&message, Message::Signal { id: Some(_), .. }) && self.dice.chance(30) {
            self.post(message.clone());
        }
        self.post(message);
    }

    fn outcome(&mut self) -> Outcome {
        let value = number(self.dice.below(1000) as u64);
        if self.dice.chance(75) {
            return Ok(value);
        }
        let code = self.dice.chance(50).then(|| "again".to_owned());
        let failure = Failure::new(FailureKind::Error, format!("failed with {value:?}"));
        let data = self.dice.chance(30).then(Json::null);
        Err(Failure { code, data, ..failure })
    }

    /// Something outside happens.
    pub(crate) fn happen(&mut self) {
        match self.dice.below(6) {
            0 => self.signal(),
            1 => {
                let count = self.questions.len();
                let chosen = self.dice.below(count);
                if let Some(key) = self.questions.keys().nth(chosen).cloned() {
                    self.questions.remove(&key);
                    let content = self.dice.chance(60).then(Json::null);
                    let answer = Answer { action: Action::Accept, content };
                    self.post(Message::Answer { key, answer });
                }
            }
            2 => {
                let count = self.activities.len();
                let chosen = self.dice.below(count);
                if let Some(op) = self.activities.iter().nth(chosen).copied() {
                    self.activities.remove(&op);
                    let outcome = self.outcome();
                    self.post(Message::ActivityEnded { op, outcome });
                }
            }
            3 => {
                let count = self.children.len();
                let chosen = self.dice.below(count);
                let child = self.children.iter().nth(chosen).map(|(id, op)| (id.clone(), *op));
                if let Some((id, op)) = child {
                    self.children.remove(&id);
                    let outcome = self.outcome();
                    self.post(Message::ChildEnded { op, outcome });
                }
            }
            4 => {
                let key = format!("key-{}", self.dice.below(2));
                let value = self.dice.chance(80).then(|| number(self.wall as u64));
                self.put(key, value);
            }
            _ => self.wall += self.dice.below(200) as i64,
        }
    }

    fn ask_once(&mut self, what: String) {
        assert!(self.once.insert(what.clone()), "asked of the world twice: {what}");
    }

    /// The first deferred end of a turn that can't be accepted.
    pub(crate) fn refuses(&self, turn: &Turn) -> Option<OpId> {
        turn.deferred.iter().find_map(|deferred| match &deferred.effect {
            Effect::ExpireQuestion { op, key } => {
                (!self.questions.contains_key(key)).then_some(*op)
            }
            Effect::SwapState { op, key, expect, .. } => {
                let version = self.state.get(key).map_or(0, |(version, _)| *version);
                (version != *expect).then_some(*op)
            }
            // Decided when it lands.
            Effect::Join { .. } => None,
            other => panic!("{other:?} can't be refused"),
        })
    }

    /// The work of a step is committed with its turn, or rolled back: then it runs again.
    pub(crate) fn joins(&mut self, op: OpId) -> Option<Json> {
        if self.dice.chance(70) {
            return Some(number(self.dice.below(1000) as u64));
        }
        let again: Vec<Attempt> = self.open.iter().filter(|a| a.0 == op).copied().collect();
        for attempt in again {
            self.open.remove(&attempt);
            *self.lost.entry(attempt).or_default() += 1;
        }
        None
    }

    /// Makes a turn durable.
    pub(crate) fn commit(&mut self, turn: &Turn, consumed: u64) {
        assert_eq!(turn.restart, turn.first == 0, "a restart begins at the beginning");
        let run = self.run();
        if turn.restart {
            self.begin_anew(turn);
        }
        assert_eq!(turn.first as usize, self.history.len(), "a gap in the history");
        for record in turn.records() {
            // What is read back must be what was written.
            let back = decode(0, &encode(record)).unwrap();
            check_once(&mut self.once, &record.event);
            if let Event::StepCompleted { op, .. } | Event::StepFailed { op, .. } = &record.event {
                self.open.retain(|(open, _)| open != op);
            } else if let Event::StepRetrying { op, attempt, .. } = &record.event {
                self.open.remove(&(*op, *attempt));
            }
            self.history.push(back);
        }
        for effect in turn.effects.iter().chain(turn.deferred.iter().map(|d| &d.effect)) {
            self.take_effect(run, effect);
        }
        self.inbox.retain(|(seq, _)| *seq > consumed);
    }

    fn take_effect(&mut self, run: u32, effect: &Effect) {
        match effect.clone() {
            Effect::OpenQuestion { op, ask } => {
                self.ask_once(format!("question {}", ask.key));
                self.questions.insert(ask.key, op);
            }
            Effect::CloseQuestion { key } => {
                self.ask_once(format!("close {key}"));
                self.questions.remove(&key);
            }
            Effect::ExpireQuestion { key, .. } => {
                self.questions.remove(&key);
            }
            Effect::ScheduleActivity { op, .. } => {
                self.ask_once(format!("activity {run} {op}"));
                self.activities.insert(op);
            }
            Effect::CancelActivity { op } => {
                self.ask_once(format!("cancel activity {run} {op}"));
                self.activities.remove(&op);
            }
            Effect::StartChild { op, id, detached, .. } => {
                self.ask_once(format!("child {id}"));
                if !detached {
                    self.children.insert(id, op);
                }
            }
            Effect::CancelChild { id } => {
                self.ask_once(format!("cancel child {id}"));
                self.children.remove(&id);
            }
            Effect::WriteState { key, value, .. } | Effect::SwapState { key, value, .. } => {
                self.put(key, value);
            }
            Effect::Watch { key, .. } => {
                self.watches.insert(key);
            }
            Effect::Unwatch { key, .. } => {
                self.watches.remove(&key);
            }
            Effect::Send { id, .. } => self.ask_once(format!("sent {id}")),
            Effect::Join { op } => self.ask_once(format!("joined {run} {op}")),
        }
    }

    fn run(&self) -> u32 {
        match self.history.first().map(|r| &r.event) {
            Some(Event::Started { run, .. }) => *run,
            _ => 0,
        }
    }

    /// The process dies: what runs is lost, and what ran without a record is counted.
    pub(crate) fn die(&mut self) {
        for attempt in std::mem::take(&mut self.open) {
            *self.lost.entry(attempt).or_default() += 1;
        }
        self.leave_memory();
    }

    pub(crate) fn leave_memory(&mut self) {
        self.running.clear();
        self.created.clear();
        self.read.clear();
        self.signals_read.clear();
    }

    fn come_to(&mut self, call: &Call) -> Ended {
        match call {
            Call::StateGet { key, .. } => {
                Ended::Read(self.state.get(key).and_then(|(_, value)| value.clone()))
            }
            Call::StateUpdate { key, .. } => {
                let version = self.state.get(key).map_or(0, |(version, _)| *version);
                Ended::Proposed(Some(number(version + 100)), version)
            }
            Call::StateWait { key, .. } => {
                let value = self.state.get(key).and_then(|(_, value)| value.clone());
                Ended::Checked(value.map(Some))
            }
            Call::Step { mode: Mode::AtLeastOnce, .. } if self.dice.chance(20) => Ended::Joins,
            _ => Ended::Step(self.outcome()),
        }
    }
}

impl Place for RefCell<Store> {
    fn created(&self, id: OpId, _: Kind) {
        let mut store = self.borrow_mut();
        let read = store.read.clone();
        let signals = store.signals_read.len();
        store.created.insert(id, (read, signals));
    }

    fn start(&self, id: OpId, call: &Call, grant: StepGrant) -> Option<Ended> {
        let mut store = self.borrow_mut();
        store.check_start(id, call, grant);
        if matches!(call, Call::Step { .. }) {
            *store.ran.entry((id, grant.attempt)).or_default() += 1;
            store.open.insert((id, grant.attempt));
        }
        let ended = store.come_to(call);
        if store.hasty {
            return Some(ended);
        }
        store.running.insert(id, ended);
        None
    }

    fn read(&self, id: OpId, kind: Kind, outcome: &Outcome) {
        let mut store = self.borrow_mut();
        match (kind, outcome) {
            (Kind::Signal, Ok(payload)) => store.signals_read.push(payload.clone()),
            _ => store.read.push(id),
        }
    }
}
