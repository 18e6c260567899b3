//! A task of a few lines, driven by hand.

use std::{cell::RefCell, collections::BTreeMap, future::Future, rc::Rc, task::Poll};

use steadfast_core::{
    Ask, Call, Carry, Event, Halt, Json, Kind, Limits, Machine, Message, Mode, OpId, Outcome,
    PollKind, Record, Retry, Scope, StepGrant, TaskId, Timestamp, Turn, View,
};

use crate::code::{Boxed, Ended, Op, Place, Shared, poll_once};

/// Remembers which attempts were started; ends come from the test.
#[derive(Default)]
pub(crate) struct Bench {
    pub(crate) started: RefCell<Vec<(OpId, u32)>>,
    /// Ends of closures that end at once, by the name of the operation.
    pub(crate) at_once: RefCell<BTreeMap<String, Ended>>,
}

impl Place for Bench {
    fn created(&self, _: OpId, _: Kind) {}

    fn start(&self, id: OpId, call: &Call, grant: StepGrant) -> Option<Ended> {
        self.started.borrow_mut().push((id, grant.attempt));
        self.at_once.borrow().get(&*call.name()).cloned()
    }

    fn read(&self, _: OpId, _: Kind, _: &Outcome) {}
}

/// A task in memory and the history it left.
pub(crate) struct Rig {
    pub(crate) shared: Rc<Shared>,
    pub(crate) bench: Rc<Bench>,
    future: Option<Boxed<'static, Outcome>>,
    pub(crate) history: Vec<Record>,
    /// Every turn that was committed.
    pub(crate) turns: Vec<Turn>,
    pub(crate) now: Timestamp,
}

pub(crate) fn json(value: impl serde::Serialize) -> Json {
    Json::of(&value).unwrap()
}

pub(crate) fn record(event: Event) -> Record {
    Record { at: Timestamp(0), event }
}

pub(crate) fn started(carry: Option<Carry>) -> Record {
    record(Event::Started { input: Json::null(), seed: 7, run: 0, carry })
}

/// A history of a start and these events.
pub(crate) fn history(events: impl IntoIterator<Item = Event>) -> Vec<Record> {
    std::iter::once(started(None)).chain(events.into_iter().map(record)).collect()
}

pub(crate) fn completed(op: u32, name: &str) -> Event {
    Event::StepCompleted { op: OpId(op), name: name.into(), result: json(op) }
}

impl Rig {
    /// Replays a history against code and goes live, unless the task halts.
    pub(crate) fn load<F, C>(history: Vec<Record>, limits: Limits, code: C) -> Rig
    where
        C: FnOnce(Rc<Shared>) -> F,
        F: Future<Output = Outcome> + 'static,
    {
        let machine = Machine::new(history.clone(), View::default(), limits);
        Rig::run(machine, history, code)
    }

    /// The same, with progress that is not recorded.
    pub(crate) fn load_passing<F, C>(history: Vec<Record>, code: C) -> Rig
    where
        C: FnOnce(Rc<Shared>) -> F,
        F: Future<Output = Outcome> + 'static,
    {
        let machine = Machine::new(history.clone(), View::default(), Limits::default());
        Rig::run(machine.passing_progress(true), history, code)
    }

    fn run<F, C>(machine: Machine, history: Vec<Record>, code: C) -> Rig
    where
        C: FnOnce(Rc<Shared>) -> F,
        F: Future<Output = Outcome> + 'static,
    {
        let bench = Rc::new(Bench::default());
        let place: Rc<Bench> = Rc::clone(&bench);
        let now = history.iter().map(|r| r.at).max().unwrap_or_default();
        let shared = Shared::new(machine, place, now);
        let future: Option<Boxed<'static, Outcome>> = Some(Box::pin(code(Rc::clone(&shared))));
        let mut rig = Rig { shared, bench, future, history, turns: Vec::new(), now };
        rig.poll(PollKind::Delivery);
        rig.deliver();
        if rig.shared.machine.borrow_mut().go_live() {
            rig.poll(PollKind::Wake);
            rig.deliver();
        }
        rig
    }

    pub(crate) fn start<F, C>(code: C) -> Rig
    where
        C: FnOnce(Rc<Shared>) -> F,
        F: Future<Output = Outcome> + 'static,
    {
        Rig::load(history([]), Limits::default(), code)
    }

    pub(crate) fn poll(&mut self, kind: PollKind) {
        self.shared.wall.set(self.now);
        self.shared.machine.borrow_mut().begin_poll(kind, self.now);
        let Some(future) = &mut self.future else { return };
        if let Poll::Ready(outcome) = poll_once(future) {
            self.future = None;
            self.shared.machine.borrow_mut().finish(outcome, self.now);
        }
    }

    pub(crate) fn deliver(&mut self) {
        while self.future.is_some() {
            let delivered = self.shared.machine.borrow_mut().deliver();
            if delivered.is_none() {
                break;
            }
            self.poll(PollKind::Delivery);
        }
    }

    /// Ends the closure of a running operation.
    pub(crate) fn end(&mut self, op: u32, ended: Ended) {
        self.shared.ends.borrow_mut().insert(OpId(op), ended);
        self.poll(PollKind::Wake);
        assert!(self.shared.ends.borrow().is_empty(), "operation {op} does not run");
        self.deliver();
    }

    pub(crate) fn step_ends(&mut self, op: u32, outcome: Outcome) {
        self.end(op, Ended::Step(outcome));
    }

    pub(crate) fn apply(&mut self, message: Message) {
        self.shared.machine.borrow_mut().apply(message, self.now);
        self.deliver();
    }

    pub(crate) fn signal(&mut self, name: &str, id: Option<&str>, payload: u64) {
        let (name, id) = (name.into(), id.map(Into::into));
        self.apply(Message::Signal { name, id, payload: json(payload) });
    }

    pub(crate) fn tick(&mut self, at: i64) {
        self.now = Timestamp(at);
        self.shared.machine.borrow_mut().tick(self.now);
        self.deliver();
        self.poll(PollKind::Wake);
        self.deliver();
    }

    pub(crate) fn take(&mut self) -> Turn {
        self.shared.machine.borrow_mut().take_turn()
    }

    /// Makes a turn durable, and lets start what waited for it.
    pub(crate) fn land(&mut self, turn: Turn) {
        if turn.restart {
            self.history.clear();
        }
        self.history.extend(turn.records().cloned());
        self.shared.machine.borrow_mut().committed(&turn);
        self.turns.push(turn);
        self.poll(PollKind::Wake);
        self.deliver();
    }

    /// Commits until nothing is pending.
    pub(crate) fn commit(&mut self) {
        loop {
            let turn = self.take();
            if turn.is_empty() {
                return;
            }
            self.land(turn);
        }
    }

    pub(crate) fn halted(&self) -> Option<Halt> {
        self.shared.machine.borrow().halted().cloned()
    }

    /// The task's failure, if it halted.
    pub(crate) fn complaint(&self) -> String {
        self.halted().map(|halt| halt.failure().message).unwrap_or_default()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.future.is_none()
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.history.iter().map(|record| &record.event)
    }

    pub(crate) fn count(&self, pick: impl Fn(&Event) -> bool) -> usize {
        self.events().filter(|event| pick(event)).count()
    }

    /// The process dies: what was committed is all that is left.
    pub(crate) fn crash(self) -> Vec<Record> {
        self.shared.machine.borrow_mut().close();
        self.history
    }

    pub(crate) fn output(&self) -> Option<Json> {
        self.events().find_map(|event| match event {
            Event::Completed { output } => Some(output.clone()),
            _ => None,
        })
    }
}

/// The author's words for the operations.
impl Shared {
    pub(crate) fn step(self: &Rc<Shared>, name: &str) -> Op {
        self.call(Call::Step {
            name: name.into(),
            mode: Mode::AtLeastOnce,
            retry: None,
            undo: None,
        })
    }

    pub(crate) fn once(self: &Rc<Shared>, name: &str, reset_on: &[&str]) -> Op {
        let reset_on = reset_on.iter().map(|code| (*code).to_owned()).collect();
        let mode = Mode::AtMostOnce { reset_on };
        self.call(Call::Step { name: name.into(), mode, retry: None, undo: None })
    }

    pub(crate) fn timer(self: &Rc<Shared>, until: i64) -> Op {
        self.call(Call::Timer { until: Timestamp(until) })
    }

    pub(crate) fn wait(self: &Rc<Shared>, name: &str) -> Op {
        self.call(Call::Signal { name: name.into() })
    }

    pub(crate) fn ask(self: &Rc<Shared>, key: &str, deadline: Option<i64>) -> Op {
        self.call(Call::Ask(Ask {
            key: key.into(),
            message: "well?".into(),
            schema: Json::null(),
            data: None,
            deadline: deadline.map(Timestamp),
        }))
    }

    pub(crate) fn activity(self: &Rc<Shared>, name: &str) -> Op {
        let (name, retry) = (name.into(), Retry::never());
        self.call(Call::Activity { name, input: Json::null(), retry, heartbeat_ms: None })
    }

    pub(crate) fn child(self: &Rc<Shared>, tool: &str, detached: bool) -> Op {
        let tool = tool.into();
        let spec = steadfast_core::ChildSpec { tool, input: Json::null(), id: None, detached };
        self.call(Call::Child(spec))
    }

    pub(crate) fn until(self: &Rc<Shared>, key: &str) -> Op {
        self.call(Call::StateWait { scope: Scope::Task, key: key.into() })
    }

    pub(crate) fn update(self: &Rc<Shared>, key: &str) -> Op {
        self.call(Call::StateUpdate { scope: Scope::Task, key: key.into() })
    }

    pub(crate) fn put(self: &Rc<Shared>, key: &str, value: u64) -> Op {
        let (scope, key) = (Scope::Task, key.into());
        self.call(Call::StateSet { scope, key, value: Some(json(value)) })
    }

    pub(crate) fn draw(&self) -> u64 {
        self.machine.borrow_mut().draw()
    }

    pub(crate) fn send(self: &Rc<Shared>, name: &str) -> Op {
        let to = TaskId::new("other").unwrap();
        self.call(Call::Send { to, name: name.into(), payload: Json::null() })
    }
}
