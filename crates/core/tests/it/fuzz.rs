//! Bytes and histories that no task wrote: errors, and never a panic or a loop without end.

use std::{rc::Rc, task::Poll};

use proptest::prelude::*;
use steadfast_core::{
    Action, Answer, Call, Effect, Json, Kind, Limits, Machine, Message, OpId, Outcome, PollKind,
    Record, Scope, StepGrant, Timestamp, View, decode, encode,
};

use crate::{
    code::{Boxed, Ended, Place, Shared, poll_once},
    golden::{FILES, records},
    program::{Program, program},
    replay::run,
    world::{Dice, Store, number},
};

/// Where everything ends at once.
struct Haste;

impl Place for Haste {
    fn created(&self, _: OpId, _: Kind) {}

    fn start(&self, _: OpId, call: &Call, _: StepGrant) -> Option<Ended> {
        Some(match call {
            Call::StateGet { .. } => Ended::Read(None),
            Call::StateUpdate { .. } => Ended::Proposed(None, 0),
            Call::StateWait { .. } => Ended::Checked(None),
            _ => Ended::Step(Ok(Json::null())),
        })
    }

    fn read(&self, _: OpId, _: Kind, _: &Outcome) {}
}

fn any_op(dice: &mut Dice) -> u32 {
    match dice.below(4) {
        0 => u32::MAX,
        1 => u32::MAX - 1,
        _ => dice.below(8) as u32,
    }
}

/// The line with all its operation numbers replaced.
fn renumber(record: &Record, op: u32) -> Record {
    let mut value: serde_json::Value = serde_json::from_slice(&encode(record)).unwrap();
    let body = value["event"].as_object_mut().and_then(|event| event.values_mut().next());
    if let Some(number) = body.and_then(|body| body.get_mut("op")).filter(|n| n.is_number()) {
        *number = op.into();
    }
    decode(0, value.to_string().as_bytes()).unwrap()
}

fn spoil(history: &mut Vec<Record>, dice: &mut Dice, golden: &[Record]) {
    for _ in 0..=dice.below(4) {
        let (from, to) = (dice.below(history.len()), dice.below(history.len()));
        if history.is_empty() {
            return;
        }
        match dice.below(6) {
            0 => history.swap(from, to),
            1 => history.truncate(from + 1),
            2 => history.insert(to, history[from].clone()),
            3 => history[from] = renumber(&history[from], any_op(dice)),
            4 => history.insert(to, golden[dice.below(golden.len())].clone()),
            _ => drop(history.remove(from)),
        }
    }
}

/// Drives a machine over whatever history, with whatever messages, for a bounded time.
fn drive(program: &Program, history: Vec<Record>, dice: &mut Dice) {
    let machine = Machine::new(history, View::default(), Limits::default());
    if machine.input().is_none() {
        assert!(machine.halted().is_some());
        return;
    }
    let shared = Shared::new(machine, Rc::new(Haste), Timestamp(0));
    let mut future: Boxed<'_, Outcome> = program.start(&shared);
    let mut polls = 0;
    let mut poll = |kind, wall| {
        polls += 1;
        assert!(polls < 100_000, "no end");
        shared.wall.set(wall);
        shared.machine.borrow_mut().begin_poll(kind, wall);
        let Poll::Ready(outcome) = poll_once(&mut future) else { return false };
        shared.machine.borrow_mut().finish(outcome, wall);
        true
    };
    let mut over = poll(PollKind::Delivery, Timestamp(0));
    for round in 0..60 {
        if over {
            break;
        }
        let wall = Timestamp(round * 50);
        while !over && shared.machine.borrow_mut().deliver().is_some() {
            over = poll(PollKind::Delivery, wall);
        }
        if over {
            break;
        }
        shared.machine.borrow_mut().go_live();
        over = poll(PollKind::Wake, wall);
        let mut machine = shared.machine.borrow_mut();
        machine.apply(any_message(dice), wall);
        machine.tick(wall);
        let mut turn = machine.take_turn();
        for deferred in turn.deferred.clone() {
            let op = match deferred.effect {
                Effect::SwapState { op, .. } | Effect::ExpireQuestion { op, .. } => op,
                _ => deferred.op,
            };
            if dice.chance(30) {
                machine.refused(&mut turn, op);
            }
        }
        machine.committed(&turn);
        let _ = machine.runnable();
        machine.next_deadline();
        let _ = (machine.can_park(), machine.view());
    }
    shared.machine.borrow_mut().take_turn();
    shared.machine.borrow_mut().close();
}

fn any_message(dice: &mut Dice) -> Message {
    let op = OpId(any_op(dice));
    let outcome = Ok(number(1));
    match dice.below(5) {
        0 => Message::ActivityEnded { op, outcome },
        1 => Message::ChildEnded { op, outcome },
        2 => {
            let key = ["input", "key-1", "input-2"][dice.below(3)].to_owned();
            let answer = Answer { action: Action::Cancel, content: None };
            Message::Answer { key, answer }
        }
        3 => {
            let name = format!("signal-{}", dice.below(2));
            Message::Signal { name, id: None, payload: number(1) }
        }
        _ => Message::StateChanged { scope: Scope::Owner, key: "key-0".into() },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(0, &bytes);
    }

    #[test]
    fn a_spoilt_line_is_read_or_refused(
        line in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let lines: Vec<&str> = FILES.iter().flat_map(|file| file.lines()).collect();
        let mut bytes = line.get(&lines).as_bytes().to_vec();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(record) = decode(3, &bytes) {
            prop_assert!(decode(3, &encode(&record)).is_ok());
        }
    }

    #[test]
    fn a_spoilt_history_halts_or_goes_on(program in program(), seed in any::<u64>()) {
        let mut dice = Dice::new(seed);
        let golden: Vec<Record> = FILES.into_iter().flat_map(records).collect();
        let whole = run(&program, Store::new(seed), 0).pop().unwrap();
        for _ in 0..8 {
            let mut history = whole.clone();
            spoil(&mut history, &mut dice, &golden);
            drive(&program, history, &mut dice);
        }
    }

    #[test]
    fn a_history_of_another_task_halts_or_goes_on(program in program(), seed in any::<u64>()) {
        let mut dice = Dice::new(seed);
        for file in FILES {
            let mut history = records(file);
            drive(&program, history.clone(), &mut dice);
            spoil(&mut history, &mut dice, &records(file));
            drive(&program, history, &mut dice);
        }
    }
}
