//! The losers of a race are withdrawn, once, whatever crashes come between.

use std::rc::Rc;

use steadfast_core::{
    Action, Answer, Effect, Event, Json, Limits, Message, OpId, Outcome, Record, Scope,
};

use crate::{
    code::{Boxed, Ended, Op, Select, Shared},
    rig::{Rig, json},
};

/// Races a signal against one other wait, then sleeps.
fn race(
    other: impl Fn(&Rc<Shared>) -> Op + 'static,
) -> impl Fn(Rc<Shared>) -> Boxed<'static, Outcome> {
    let other = Rc::new(other);
    move |s| {
        let other = Rc::clone(&other);
        Box::pin(async move {
            let loser: Boxed<'_, Outcome> = Box::pin(other(&s));
            let winner: Boxed<'_, Outcome> = Box::pin(s.wait("go"));
            let _ = Select(vec![loser, winner]).await;
            s.timer(1_000_000).await
        })
    }
}

fn effects(rig: &Rig) -> Vec<&Effect> {
    rig.turns.iter().flat_map(|turn| &turn.effects).collect()
}

fn withdrawn_once(other: impl Fn(&Rc<Shared>) -> Op + 'static, is: fn(&Effect) -> bool) {
    let code = race(other);
    let mut rig = Rig::start(&code);
    rig.commit();
    let waiting = rig.history.clone();
    rig.signal("go", None, 1);
    rig.commit();
    assert_eq!(effects(&rig).into_iter().filter(|e| is(e)).count(), 1, "live");
    let dropped = |event: &Event| matches!(event, Event::Dropped { op: OpId(0) });
    assert_eq!(rig.count(dropped), 1);

    let whole = rig.crash();
    let mut again = Rig::load(whole.clone(), Limits::default(), &code);
    again.commit();
    assert_eq!(effects(&again).into_iter().filter(|e| is(e)).count(), 0, "recorded already");

    // The winner's record made it, and the withdrawal did not.
    let signal = |r: &&Record| matches!(r.event, Event::SignalReceived { .. });
    let mut cut = waiting;
    cut.extend(whole.iter().find(signal).cloned());
    let mut late = Rig::load(cut, Limits::default(), &code);
    late.commit();
    assert_eq!(effects(&late).into_iter().filter(|e| is(e)).count(), 1, "after a crash");
    assert_eq!(late.count(dropped), 1);
}

#[test]
fn a_question_is_closed() {
    withdrawn_once(
        |s| s.ask("q", None),
        |e| matches!(e, Effect::CloseQuestion { key } if key == "q"),
    );
}

#[test]
fn an_activity_is_cancelled() {
    withdrawn_once(|s| s.activity("a"), |e| matches!(e, Effect::CancelActivity { op: OpId(0) }));
}

#[test]
fn a_child_is_cancelled() {
    withdrawn_once(|s| s.child("t", false), |e| matches!(e, Effect::CancelChild { .. }));
}

#[test]
fn a_watch_is_ended() {
    withdrawn_once(|s| s.until("k"), |e| matches!(e, Effect::Unwatch { .. }));
}

#[test]
fn the_child_that_is_cancelled_is_the_one_that_was_started() {
    let code = race(|s| s.child("t", false));
    let mut rig = Rig::start(&code);
    rig.commit();
    rig.signal("go", None, 1);
    rig.commit();
    let started = effects(&rig).into_iter().find_map(|effect| match effect {
        Effect::StartChild { id, .. } => Some(id.clone()),
        _ => None,
    });
    let id = started.unwrap();
    assert!(effects(&rig).contains(&&Effect::CancelChild { id }));
}

#[test]
fn what_was_never_committed_is_neither_begun_nor_withdrawn() {
    let mut rig = Rig::start(race(|s| s.child("t", false)));
    rig.signal("go", None, 1);
    rig.commit();
    assert_eq!(effects(&rig), Vec::<&Effect>::new());
}

#[test]
fn the_loser_of_a_recorded_race_does_not_run_again() {
    let code = race(|s| s.step("slow"));
    let mut rig = Rig::start(&code);
    assert_eq!(rig.bench.started.borrow().len(), 1);
    rig.signal("go", None, 1);
    assert_eq!(rig.shared.machine.borrow().steps_running(), 0);
    rig.commit();
    let again = Rig::load(rig.crash(), Limits::default(), &code);
    assert!(again.bench.started.borrow().is_empty());
}

#[test]
fn a_watch_that_another_still_needs_is_kept() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let first: Boxed<'_, Outcome> = Box::pin(s.until("k"));
        let go: Boxed<'_, Outcome> = Box::pin(s.wait("go"));
        let race: Boxed<'_, Outcome> = Box::pin(async { Select(vec![first, go]).await.1 });
        let second: Boxed<'_, Outcome> = Box::pin(s.until("k"));
        let both = crate::code::join(vec![race, second]).await;
        Ok(json(both.len()))
    });
    rig.commit();
    rig.end(0, Ended::Checked(None));
    rig.end(2, Ended::Checked(None));
    rig.signal("go", None, 1);
    rig.commit();
    let unwatched = |rig: &Rig| {
        effects(rig).into_iter().filter(|e| matches!(e, Effect::Unwatch { .. })).count()
    };
    assert_eq!(unwatched(&rig), 0);
    rig.apply(Message::StateChanged { scope: Scope::Task, key: "k".into() });
    rig.poll(steadfast_core::PollKind::Wake);
    rig.end(2, Ended::Checked(Some(Some(json(1)))));
    rig.commit();
    assert_eq!(unwatched(&rig), 1);
    assert!(rig.is_over());
}

#[test]
fn a_change_during_a_look_leads_to_another_look() {
    let mut rig = Rig::start(async |s: Rc<Shared>| s.until("k").await);
    rig.commit();
    rig.apply(Message::StateChanged { scope: Scope::Task, key: "k".into() });
    rig.end(0, Ended::Checked(None));
    rig.poll(steadfast_core::PollKind::Wake);
    assert_eq!(rig.bench.started.borrow().len(), 2);
}

fn answer() -> Answer {
    Answer { action: Action::Accept, content: Some(Json::null()) }
}

#[test]
fn an_answer_beats_an_expiry_that_was_not_committed() {
    let mut rig = Rig::start(async |s: Rc<Shared>| s.ask("q", Some(10)).await);
    rig.commit();
    rig.tick(10);
    rig.apply(Message::Answer { key: "q".into(), answer: answer() });
    rig.commit();
    assert_eq!(rig.output().unwrap(), json(answer()));
    assert_eq!(rig.count(|e| matches!(e, Event::QuestionExpired { .. })), 0);
}

#[test]
fn a_refused_expiry_leaves_the_question_to_its_answer() {
    let mut rig = Rig::start(async |s: Rc<Shared>| s.ask("q", Some(10)).await);
    rig.commit();
    rig.tick(10);
    let mut turn = rig.take();
    assert_eq!(turn.deferred.len(), 1);
    assert!(!rig.shared.machine.borrow_mut().refused(&mut turn, OpId(0)));
    rig.land(turn);
    for _ in 0..2 {
        rig.apply(Message::Answer { key: "q".into(), answer: answer() });
    }
    rig.commit();
    assert_eq!(rig.count(|e| matches!(e, Event::QuestionAnswered { .. })), 1);
    assert_eq!(rig.output().unwrap(), json(answer()));
}

#[test]
fn an_accepted_expiry_is_a_failure_for_the_code() {
    let mut rig = Rig::start(async |s: Rc<Shared>| s.ask("q", Some(10)).await);
    rig.commit();
    rig.tick(10);
    rig.commit();
    let failed = |e: &Event| matches!(e, Event::Failed { failure } if failure.kind == steadfast_core::FailureKind::TimedOut);
    assert_eq!(rig.count(failed), 1);
}

#[test]
fn an_update_dropped_before_its_turn_is_not_written() {
    let mut rig = Rig::start(race(|s| s.update("k")));
    rig.end(0, Ended::Proposed(Some(json(1)), 0));
    rig.signal("go", None, 1);
    assert!(rig.take().deferred.is_empty());
}

#[test]
fn an_answer_or_an_end_for_another_kind_of_operation_is_ignored() {
    let mut rig = Rig::start(async |s: Rc<Shared>| s.timer(50).await);
    rig.commit();
    rig.apply(Message::ActivityEnded { op: OpId(0), outcome: Ok(Json::null()) });
    rig.apply(Message::ChildEnded { op: OpId(0), outcome: Ok(Json::null()) });
    rig.shared.machine.borrow_mut().step_ended(OpId(0), Ok(Json::null()), rig.now);
    assert!(rig.take().is_empty() && !rig.is_over());
}
