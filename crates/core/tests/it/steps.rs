//! How often a step runs.

use std::{rc::Rc, time::Duration};

use steadfast_core::{
    Call, Event, Failure, FailureKind, Limits, Mode, OpId, Outcome, Retry, Timestamp, Undo,
};

use crate::{
    code::Shared,
    rig::{Rig, history, json},
};

fn coded(code: &str) -> Failure {
    Failure { code: Some(code.into()), ..Failure::new(FailureKind::Error, "no") }
}

fn starts(rig: &Rig) -> Vec<u32> {
    let attempt = |event: &Event| match event {
        Event::StepStarted { attempt, .. } => Some(*attempt),
        _ => None,
    };
    rig.events().filter_map(attempt).collect()
}

fn unfinished(rig: &Rig) -> usize {
    rig.count(|event| matches!(event, Event::StepFailed { failure, .. } if failure.kind == FailureKind::Unfinished))
}

async fn charge(s: Rc<Shared>) -> Outcome {
    s.once("charge", &["declined"]).await
}

#[test]
fn an_at_most_once_step_runs_only_behind_its_durable_start() {
    let mut rig = Rig::start(charge);
    assert!(rig.bench.started.borrow().is_empty());
    let turn = rig.take();
    rig.land(turn);
    assert_eq!(*rig.bench.started.borrow(), [(OpId(0), 1)]);
}

#[test]
fn an_interrupted_at_most_once_step_is_unfinished_for_good() {
    let mut rig = Rig::start(charge);
    rig.commit();
    let mut again = Rig::load(rig.crash(), Limits::default(), charge);
    again.commit();
    assert!(again.bench.started.borrow().is_empty() && again.is_over());
    assert_eq!(unfinished(&again), 1);
    let failed = again.events().find_map(|event| match event {
        Event::Failed { failure } => Some(failure.clone()),
        _ => None,
    });
    assert!(failed.is_some_and(|f| f.permanent && f.kind == FailureKind::Unfinished));
}

#[test]
fn a_code_that_resets_runs_it_again_behind_a_new_start() {
    let mut rig = Rig::start(charge);
    rig.commit();
    rig.step_ends(0, Err(coded("declined")));
    rig.commit();
    let mut again = Rig::load(rig.crash(), Limits::default(), charge);
    assert_eq!(unfinished(&again), 0);
    again.tick(10_000);
    assert!(again.bench.started.borrow().is_empty(), "its second start is not durable");
    again.commit();
    assert_eq!(*again.bench.started.borrow(), [(OpId(0), 2)]);
    assert_eq!(starts(&again), [1, 2]);
    let mut last = Rig::load(again.crash(), Limits::default(), charge);
    last.commit();
    assert_eq!(unfinished(&last), 1, "the second attempt was cut off");
}

#[test]
fn another_code_ends_an_at_most_once_step() {
    let mut rig = Rig::start(charge);
    rig.commit();
    rig.step_ends(0, Err(coded("other")));
    rig.commit();
    assert!(rig.is_over());
    assert_eq!(starts(&rig), [1]);
}

fn retried() -> Call {
    let retry = Retry::exponential().attempts(2).first_delay(Duration::from_secs(60)).jitter(0.0);
    Call::Step { name: "try".into(), mode: Mode::AtLeastOnce, retry: Some(retry), undo: None }
}

#[test]
fn a_back_off_outlives_the_process() {
    let code = async |s: Rc<Shared>| s.call(retried()).await;
    let mut rig = Rig::start(code);
    rig.step_ends(0, Err(coded("busy")));
    rig.commit();
    let mut again = Rig::load(rig.crash(), Limits::default(), code);
    assert_eq!(again.shared.machine.borrow_mut().next_deadline(), Some(Timestamp(60_000)));
    again.tick(59_999);
    assert!(again.bench.started.borrow().is_empty());
    again.tick(60_000);
    assert_eq!(*again.bench.started.borrow(), [(OpId(0), 2)]);
    again.step_ends(0, Err(coded("busy")));
    again.commit();
    assert!(again.is_over(), "two attempts in all, over the restart");
}

#[test]
fn an_undo_is_recorded_once_also_when_only_it_was_committed() {
    let code = async |s: Rc<Shared>| {
        let undo = Some(Undo { function: "refund".into(), input: json(1) });
        let mode = Mode::AtMostOnce { reset_on: vec![] };
        s.call(Call::Step { name: "charge".into(), mode, retry: None, undo }).await
    };
    let mut rig = Rig::start(code);
    rig.commit();
    assert_eq!(rig.count(|e| matches!(e, Event::UndoRecorded { .. })), 1);
    let cut = rig.crash()[..2].to_vec();
    let mut again = Rig::load(cut, Limits::default(), code);
    again.commit();
    assert_eq!(again.count(|e| matches!(e, Event::UndoRecorded { .. })), 1);
    assert_eq!(again.shared.machine.borrow().undos().len(), 1);
    assert_eq!(starts(&again), [1]);
}

#[test]
fn time_is_that_of_the_last_delivery_live_and_on_replay() {
    let code = async |s: Rc<Shared>| {
        s.timer(100).await?;
        s.put("k", 1).await?;
        s.step("one").await?;
        Ok(json(s.machine.borrow().now()))
    };
    let mut rig = Rig::start(code);
    rig.tick(130);
    rig.commit();
    rig.now = Timestamp(170);
    rig.step_ends(1 + 1, Ok(json(1)));
    rig.commit();
    assert_eq!(rig.output().unwrap().text(), "170");
    let mut old = rig.crash();
    old.pop();
    let mut again = Rig::load(old, Limits::default(), code);
    again.commit();
    assert_eq!(again.output().unwrap().text(), "170");
}

#[test]
fn a_timer_that_was_set_keeps_its_time_whatever_the_code_says_now() {
    let set = Event::TimerSet { op: OpId(0), fire_at: Timestamp(50) };
    let mut rig =
        Rig::load(history([set]), Limits::default(), async |s: Rc<Shared>| s.timer(999).await);
    assert_eq!(rig.shared.machine.borrow_mut().next_deadline(), Some(Timestamp(50)));
    rig.tick(50);
    rig.commit();
    assert!(rig.is_over());
}
