//! Code that no longer matches its history is told what was recorded and what was found.

use std::rc::Rc;

use steadfast_core::{Event, Halt, Json, Limits, Machine, OpId, Timestamp, View};

use crate::{
    code::Shared,
    rig::{Rig, completed, history},
};

fn recorded() -> Vec<steadfast_core::Record> {
    history([completed(0, "first"), completed(1, "second")])
}

fn differs(rig: &Rig, recorded: &str, found: &str) {
    let Some(Halt::NonDeterminism { recorded: r, found: f }) = rig.halted() else {
        panic!("{:?}", rig.halted())
    };
    assert!(r.contains(recorded) && f.contains(found), "{r:?} and {f:?}");
    let message = rig.complaint();
    assert!(message.contains(&r) && message.contains(&f), "{message}");
}

#[test]
fn the_same_code_goes_on() {
    let mut rig = Rig::load(recorded(), Limits::default(), async |s: Rc<Shared>| {
        s.step("first").await?;
        s.step("second").await
    });
    assert_eq!(rig.halted(), None);
    rig.commit();
    assert_eq!(rig.output().unwrap().text(), "1");
}

#[test]
fn another_kind_is_named() {
    let rig = Rig::load(recorded(), Limits::default(), async |s: Rc<Shared>| {
        s.step("first").await?;
        s.activity("second").await
    });
    differs(&rig, "step \"second\" as operation #1", "activity \"second\" as operation #1");
}

#[test]
fn another_name_is_named() {
    let rig = Rig::load(recorded(), Limits::default(), async |s: Rc<Shared>| {
        s.step("first").await?;
        s.step("zweitens").await
    });
    differs(&rig, "step \"second\"", "step \"zweitens\"");
}

#[test]
fn a_removed_operation_is_noticed() {
    let rig =
        Rig::load(recorded(), Limits::default(), async |s: Rc<Shared>| s.step("second").await);
    differs(&rig, "step \"first\" as operation #0", "step \"second\" as operation #0");
}

#[test]
fn an_operation_added_before_recorded_ones_is_noticed() {
    let rig = Rig::load(recorded(), Limits::default(), async |s: Rc<Shared>| {
        s.timer(5).await?;
        s.step("first").await?;
        s.step("second").await
    });
    differs(&rig, "step \"first\"", "timer");
}

#[test]
fn code_that_ends_before_a_recorded_result_is_noticed() {
    let rig = Rig::load(recorded(), Limits::default(), async |s: Rc<Shared>| s.step("first").await);
    differs(&rig, "step \"second\" as operation #1", "the end of the code");
}

#[test]
fn code_that_ends_before_a_recorded_request_is_noticed() {
    let waits = Event::TimerSet { op: OpId(1), fire_at: Timestamp(9) };
    let old = history([completed(0, "first"), waits]);
    let rig = Rig::load(old, Limits::default(), async |s: Rc<Shared>| s.step("first").await);
    differs(&rig, "timer \"\" as operation #1", "stops after 1 operations");
}

#[test]
fn code_that_waits_before_a_recorded_result_is_noticed() {
    let rig = Rig::load(recorded(), Limits::default(), async |s: Rc<Shared>| {
        s.step("first").await?;
        s.wait("nothing that comes").await?;
        s.step("second").await
    });
    differs(&rig, "step \"second\"", "signal \"nothing that comes\"");
}

#[test]
fn a_halted_task_asks_for_nothing_more() {
    let mut rig = Rig::load(recorded(), Limits::default(), async |s: Rc<Shared>| {
        s.activity("first").await?;
        s.activity("more").await
    });
    assert!(rig.halted().is_some());
    assert!(rig.take().is_empty());
    assert!(rig.shared.machine.borrow().runnable().is_empty());
}

#[test]
fn a_history_without_a_start_halts() {
    let old = vec![crate::rig::record(completed(0, "first"))];
    let machine = Machine::new(old, View::default(), Limits::default());
    assert!(machine.halted().is_some() && machine.input().is_none());
    let empty = Machine::new(Vec::new(), View::default(), Limits::default());
    assert!(empty.halted().is_some());
}

#[test]
fn a_note_that_is_no_longer_made_at_the_end_is_forgiven() {
    let note = steadfast_core::Note::Status("was said".into());
    let old = history([completed(0, "first"), Event::Noted { op: Some(OpId(1)), note }]);
    let mut rig = Rig::load(old, Limits::default(), async |s: Rc<Shared>| {
        s.step("first").await.map(|_| Json::null())
    });
    rig.commit();
    assert!(rig.halted().is_none() && rig.output().is_some());
}
