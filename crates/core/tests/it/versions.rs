//! Version markers.

use std::rc::Rc;

use steadfast_core::{Event, Json, Limits, OpId, Outcome};

use crate::{
    code::Shared,
    rig::{Rig, completed, history, json},
};

fn marks(rig: &Rig) -> usize {
    rig.count(|event| matches!(event, Event::VersionMarked { .. }))
}

async fn changed(s: Rc<Shared>) -> Outcome {
    s.step("first").await?;
    let version = s.machine.borrow_mut().version("change", 3);
    if version > 0 {
        s.step("new").await?;
    }
    s.step("last").await?;
    Ok(json(version))
}

fn run_on(rig: &mut Rig) {
    while !rig.is_over() {
        rig.commit();
        let running = rig.bench.started.borrow().last().copied();
        if let Some((op, _)) = running.filter(|_| !rig.is_over()) {
            rig.step_ends(op.0, Ok(Json::null()));
        }
    }
    rig.commit();
}

#[test]
fn a_new_task_follows_the_newest_version_and_marks_it_once() {
    let mut rig = Rig::start(changed);
    run_on(&mut rig);
    assert_eq!(rig.output().unwrap().text(), "3");
    assert_eq!(marks(&rig), 1);
}

#[test]
fn a_history_from_before_the_marker_follows_the_old_code() {
    let old = history([completed(0, "first"), completed(1, "last")]);
    let mut rig = Rig::load(old, Limits::default(), changed);
    run_on(&mut rig);
    assert_eq!(rig.output().unwrap().text(), "0");
    assert_eq!(marks(&rig), 0);
}

#[test]
fn a_task_that_has_not_come_to_the_marker_follows_the_newest_version() {
    let mut rig = Rig::load(history([completed(0, "first")]), Limits::default(), changed);
    run_on(&mut rig);
    assert_eq!(rig.output().unwrap().text(), "3");
    assert_eq!(marks(&rig), 1);
}

#[test]
fn a_recorded_version_outlives_newer_code() {
    let mark = Event::VersionMarked { op: OpId(1), change: "change".into(), version: 2 };
    let mut rig = Rig::load(history([completed(0, "first"), mark]), Limits::default(), changed);
    run_on(&mut rig);
    assert_eq!(rig.output().unwrap().text(), "2");
}

#[test]
fn a_marker_in_a_loop_is_recorded_once() {
    let code = async |s: Rc<Shared>| {
        for _ in 0..3 {
            assert_eq!(s.machine.borrow_mut().version("change", 1), 1);
            s.step("each").await?;
        }
        Ok(Json::null())
    };
    let mut rig = Rig::start(code);
    run_on(&mut rig);
    assert_eq!(marks(&rig), 1);
    let mut old = rig.crash();
    old.pop();
    let again = Rig::load(old, Limits::default(), code);
    assert!(again.halted().is_none() && again.is_over());
}

#[test]
fn another_marker_in_its_place_is_noticed() {
    let mark = Event::VersionMarked { op: OpId(1), change: "older".into(), version: 1 };
    let old = history([completed(0, "first"), mark, completed(2, "last")]);
    let rig = Rig::load(old, Limits::default(), changed);
    let message = rig.complaint();
    assert!(message.contains("version marker \"older\""), "{message}");
    assert!(message.contains("step \"last\""), "{message}");
}

#[test]
fn a_draw_is_the_same_in_every_replay() {
    let code = async |s: Rc<Shared>| {
        let drawn = (s.draw(), s.draw());
        assert_ne!(drawn.0, drawn.1);
        s.say(format!("{drawn:?}"));
        s.step("one").await
    };
    let mut rig = Rig::start(code);
    rig.step_ends(2, Ok(json(1)));
    let trace = rig.shared.trace.borrow().clone();
    let turn = rig.take();
    let mut old = rig.crash();
    old.push(turn.events[0].clone());
    let again = Rig::load(old, Limits::default(), code);
    assert_eq!(*again.shared.trace.borrow(), trace);
}
