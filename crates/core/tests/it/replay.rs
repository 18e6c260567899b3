//! Random programs in a random world: replay equals the first run, and no crash shows.

use std::{cell::RefCell, rc::Rc, task::Poll};

use proptest::prelude::*;
use steadfast_core::{Event, Limits, Machine, Outcome, PollKind, Record, Turn, Urgency, View};

use crate::{
    code::{Boxed, Shared, poll_once},
    program::{Program, program},
    world::Store,
};

/// One life of a task in memory.
struct Life {
    store: Rc<RefCell<Store>>,
    shared: Rc<Shared>,
    future: Option<Boxed<'static, Outcome>>,
    flight: Option<(Turn, u64)>,
    applied: u64,
}

#[derive(Debug, PartialEq)]
enum After {
    Ended,
    Anew,
    Gone,
}

impl Life {
    fn new(program: &Program, store: &Rc<RefCell<Store>>) -> Life {
        let history = store.borrow().history.clone();
        let limits = Limits { open_questions: 2, steps_in_flight: 3, ..Limits::default() };
        let machine = Machine::new(history, View::default(), limits);
        let place: Rc<RefCell<Store>> = Rc::clone(store);
        let shared = Shared::new(machine, place, store.borrow().at());
        let future = Some(program.start(&shared));
        Life { store: Rc::clone(store), shared, future, flight: None, applied: 0 }
    }

    fn poll(&mut self, kind: PollKind) {
        let wall = self.store.borrow().at();
        self.shared.wall.set(wall);
        self.shared.machine.borrow_mut().begin_poll(kind, wall);
        let Some(future) = &mut self.future else { return };
        if let Poll::Ready(outcome) = poll_once(future) {
            self.future = None;
            self.shared.machine.borrow_mut().finish(outcome, wall);
        }
        let machine = self.shared.machine.borrow();
        assert_eq!(machine.halted(), None);
        // A closure whose operation was dropped no longer runs.
        let started = self.store.borrow().running.len() + self.shared.ends.borrow().len();
        assert!(machine.steps_running() <= started);
    }

    fn deliver_all(&mut self) {
        while self.future.is_some() {
            let delivered = self.shared.machine.borrow_mut().deliver();
            if delivered.is_none() {
                break;
            }
            self.poll(PollKind::Delivery);
        }
    }

    fn replay(&mut self) {
        self.poll(PollKind::Delivery);
        self.deliver_all();
        assert_eq!(self.shared.machine.borrow().halted(), None);
    }

    fn go_live(&mut self) {
        if self.future.is_some() && self.shared.machine.borrow_mut().go_live() {
            self.poll(PollKind::Wake);
            self.deliver_all();
        }
        assert_eq!(self.shared.machine.borrow().halted(), None);
    }

    fn take_turn(&mut self) {
        if self.flight.is_none() && self.shared.machine.borrow().urgency() != Urgency::Idle {
            self.flight = Some((self.shared.machine.borrow_mut().take_turn(), self.applied));
        }
    }

    /// The turn under way reaches the store; the machine is told if it still lives.
    fn land(&mut self, told: bool) -> Option<After> {
        let (mut turn, consumed) = self.flight.take()?;
        if let Some(op) = turn.joint() {
            assert_eq!((turn.records().count(), turn.effects.len()), (1, 0), "it is not alone");
            let result = self.store.borrow_mut().joins(op);
            let mut machine = self.shared.machine.borrow_mut();
            match (result, turn.deferred[0].record.event.clone()) {
                (Some(result), Event::StepCompleted { name, .. }) => {
                    let wall = self.store.borrow().at();
                    turn.set_joint(machine.joined(op, name, result, wall));
                }
                _ => drop(machine.refused(&mut turn, op)),
            }
        }
        loop {
            let refused = self.store.borrow().refuses(&turn);
            let Some(op) = refused else { break };
            self.shared.machine.borrow_mut().refused(&mut turn, op);
        }
        let ended = Machine::ended(&turn).is_some();
        if ended {
            self.check_end(&turn);
        }
        self.store.borrow_mut().commit(&turn, consumed);
        if ended {
            return Some(After::Ended);
        }
        if turn.restart {
            return Some(After::Anew);
        }
        if told {
            self.shared.machine.borrow_mut().committed(&turn);
            self.wake();
            self.deliver_all();
        }
        None
    }

    fn check_end(&self, turn: &Turn) {
        let mut store = self.store.borrow_mut();
        // Counted over the history with this turn in it.
        let before = store.history.len();
        let records: Vec<Record> = turn.records().cloned().collect();
        store.history.extend(records);
        store.check_counts();
        store.history.truncate(before);
    }

    fn wake(&mut self) {
        if !self.shared.machine.borrow().runnable().is_empty() {
            let hasty = self.store.borrow_mut().dice.chance(20);
            self.store.borrow_mut().hasty = hasty;
            self.poll(PollKind::Wake);
            self.store.borrow_mut().hasty = false;
        }
    }

    fn finish_one(&mut self) {
        let mut store = self.store.borrow_mut();
        let count = store.running.len();
        let chosen = store.dice.below(count);
        let Some(op) = store.running.keys().nth(chosen).copied() else { return };
        let Some(ended) = store.running.remove(&op) else { return };
        drop(store);
        self.shared.ends.borrow_mut().insert(op, ended);
        self.poll(PollKind::Wake);
        // The code may hold it and look elsewhere.
        self.store.borrow_mut().running.append(&mut self.shared.ends.borrow_mut());
    }

    fn apply_one(&mut self) {
        let store = self.store.borrow();
        let next = store.inbox.iter().find(|(seq, _)| *seq > self.applied).cloned();
        let wall = store.at();
        drop(store);
        if let Some((seq, message)) = next {
            self.applied = seq;
            self.shared.machine.borrow_mut().apply(message, wall);
        }
    }

    /// One thing happens. `Some` if this life is over.
    fn step(&mut self, crashes: bool) -> Option<After> {
        let roll = self.store.borrow_mut().dice.below(100);
        // Once the code has returned there is only its last commit.
        let roll = if self.future.is_none() && roll < 97 { 0 } else { roll };
        let ended = match roll {
            0..25 => self.land(true),
            25..45 => {
                self.finish_one();
                None
            }
            45..60 => {
                self.apply_one();
                None
            }
            60..70 => {
                let wall = self.store.borrow().at();
                self.shared.machine.borrow_mut().tick(wall);
                None
            }
            70..95 => {
                self.store.borrow_mut().happen();
                None
            }
            95..97 => {
                self.poll(PollKind::Wake);
                None
            }
            97 if self.shared.machine.borrow().can_park() && self.flight.is_none() => {
                Some(After::Gone)
            }
            _ if crashes => {
                // The last commit may have made it, unknown to the process.
                let landed = self.store.borrow_mut().dice.chance(50);
                let end = if landed { self.land(false) } else { None };
                self.store.borrow_mut().die();
                return Some(end.unwrap_or(After::Gone));
            }
            _ => None,
        };
        if ended.is_some() {
            return ended;
        }
        self.deliver_all();
        self.wake();
        self.deliver_all();
        if self.store.borrow_mut().dice.chance(70) {
            self.take_turn();
        }
        None
    }

    fn close(self) -> Vec<String> {
        self.shared.machine.borrow_mut().close();
        drop(self.future);
        self.store.borrow_mut().leave_memory();
        self.shared.trace.take()
    }
}

fn agree(one: &[String], other: &[String]) {
    let both = one.len().min(other.len());
    assert_eq!(one[..both], other[..both], "a replay went another way");
}

/// Runs a program to its end, and gives back each run's history.
pub(crate) fn run(program: &Program, store: Store, mut crashes: u32) -> Vec<Vec<Record>> {
    let store = Rc::new(RefCell::new(store));
    let mut histories = Vec::new();
    let mut before: Vec<String> = Vec::new();
    for _ in 0..2_000 {
        let mut life = Life::new(program, &store);
        life.replay();
        agree(&before, &life.shared.trace.borrow());
        life.go_live();
        let mut over = None;
        for _ in 0..20_000 {
            over = life.step(crashes > 0);
            if over.is_some() {
                break;
            }
        }
        let Some(over) = over else {
            let view = life.shared.machine.borrow().view();
            panic!("no end: {view:?} {:#?}", life.shared.machine.borrow());
        };
        crashes = crashes.saturating_sub(1);
        before = life.close();
        match over {
            After::Ended => {
                histories.push(store.borrow().history.clone());
                return histories;
            }
            After::Anew => before.clear(),
            After::Gone => {}
        }
    }
    panic!("no end after many lives");
}

/// A replay of a whole history: what the code asked for and saw.
fn trace(program: &Program, history: &[Record]) -> Vec<String> {
    let store = Rc::new(RefCell::new(Store::resume(0, history.to_vec())));
    let mut life = Life::new(program, &store);
    life.replay();
    life.close()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_crash_shows_in_what_a_task_does(
        program in program(), seed in any::<u64>(), crashes in 0..8u32,
    ) {
        run(&program, Store::new(seed), crashes);
    }

    #[test]
    fn every_event_is_a_point_to_go_on_from(
        program in program(), seed in any::<u64>(), crashes in 0..3u32,
    ) {
        let mut histories = run(&program, Store::new(seed), crashes);
        let mut history = histories.pop().unwrap();
        let completed = matches!(history.pop().unwrap().event, Event::Completed { .. });
        prop_assert!(completed);
        let whole = trace(&program, &history);
        for length in 1..=history.len() {
            let part = &history[..length];
            agree(&whole, &trace(&program, part));
            if (seed as usize ^ length).is_multiple_of(3) {
                run(&program, Store::resume(seed, part.to_vec()), 1);
            }
        }
    }
}
