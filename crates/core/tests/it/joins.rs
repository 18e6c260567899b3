//! Steps whose end is committed with what they did.

use std::rc::Rc;

use steadfast_core::{
    Call, Event, Failure, FailureKind, Limits, Mode, OpId, Outcome, Retry, Urgency,
};

use crate::{
    code::{Boxed, Ended, Shared, join},
    rig::{Rig, completed, history, json},
};

async fn books(s: Rc<Shared>) -> Outcome {
    s.step("book").await
}

#[test]
fn the_code_hears_of_it_when_its_commit_is_back() {
    let mut rig = Rig::start(books);
    rig.end(0, Ended::Joins);
    assert!(!rig.is_over());
    let mut turn = rig.take();
    assert_eq!((turn.joint(), turn.records().count()), (Some(OpId(0)), 1));
    rig.deliver();
    assert!(!rig.is_over(), "it is not decided yet");
    let record = rig.shared.machine.borrow_mut().joined(OpId(0), "book".into(), json(7), rig.now);
    turn.set_joint(record);
    rig.land(turn);
    rig.commit();
    assert_eq!(rig.output(), Some(json(7)));
    let again = Rig::load(rig.crash(), Limits::default(), books);
    assert!(again.bench.started.borrow().is_empty() && again.halted().is_none());
}

#[test]
fn what_was_refused_runs_again_as_the_same_attempt() {
    let retry = Some(Retry::exponential().attempts(9));
    let mut rig = Rig::start(async move |s: Rc<Shared>| {
        let (name, mode) = ("book".to_owned(), Mode::AtLeastOnce);
        s.call(Call::Step { name, mode, retry: retry.clone(), undo: None }).await
    });
    rig.step_ends(0, Err(Failure::new(FailureKind::Error, "not yet")));
    rig.commit();
    rig.tick(1_000_000);
    rig.end(0, Ended::Joins);
    let mut turn = rig.take();
    assert!(rig.shared.machine.borrow_mut().refused(&mut turn, OpId(0)));
    assert!(turn.is_empty());
    rig.poll(steadfast_core::PollKind::Wake);
    assert_eq!(*rig.bench.started.borrow(), [(OpId(0), 1), (OpId(0), 2), (OpId(0), 2)]);
    rig.step_ends(0, Err(Failure::new(FailureKind::Error, "no")));
    let retries = |e: &Event| matches!(e, Event::StepRetrying { attempt: 2, .. });
    rig.commit();
    assert_eq!(rig.count(retries), 1);
}

#[test]
fn it_goes_alone_when_all_else_is_on_its_way() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let all: Vec<Boxed<'_, Outcome>> = vec![
            Box::pin(s.step("book")),
            Box::pin(s.step("other")),
            Box::pin(s.step("book too")),
            Box::pin(s.update("k")),
        ];
        Ok(json(join(all).await.len()))
    });
    rig.end(0, Ended::Joins);
    rig.step_ends(1, Ok(json(1)));
    rig.end(2, Ended::Joins);
    rig.end(3, Ended::Proposed(Some(json(3)), 0));
    let mut joints = Vec::new();
    while rig.shared.machine.borrow().urgency() != Urgency::Idle {
        let turn = rig.take();
        joints.push((turn.joint(), turn.records().count()));
        rig.land(turn);
    }
    let own = [(None, 2), (Some(OpId(0)), 1), (Some(OpId(2)), 1)];
    assert_eq!(joints[..3], own);
    assert!(rig.is_over());
    assert_eq!(rig.history.len(), 6);
}

#[test]
fn who_is_dropped_before_its_turn_leaves_nothing() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let book: Boxed<'_, Outcome> = Box::pin(s.step("book"));
        let go: Boxed<'_, Outcome> = Box::pin(s.wait("go"));
        crate::code::Select(vec![book, go]).await.1
    });
    rig.end(0, Ended::Joins);
    rig.signal("go", None, 1);
    rig.commit();
    assert!(rig.is_over());
    assert_eq!(rig.count(|e| matches!(e, Event::StepCompleted { .. })), 0);
}

#[test]
fn it_finds_the_record_of_a_step() {
    let rig = Rig::load(history([completed(0, "book")]), Limits::default(), books);
    assert!(rig.is_over() && rig.halted().is_none());
    assert!(rig.bench.started.borrow().is_empty());
}
