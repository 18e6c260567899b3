//! Bounds on a task.

use std::rc::Rc;

use steadfast_core::{
    Action, Answer, Effect, Event, FailureKind, Halt, Json, Limits, Message, Note, Outcome,
    Progress, decode, encode,
};

use crate::{
    code::{Boxed, Shared, join},
    rig::{Rig, json},
};

#[test]
fn a_history_over_its_limit_fails_the_task_at_the_next_operation() {
    let limits = Limits { history: 3, ..Limits::default() };
    let code = async |s: Rc<Shared>| {
        for _ in 0..10 {
            s.step("each").await?;
        }
        Ok(Json::null())
    };
    let mut rig = Rig::load(crate::rig::history([]), limits, code);
    for op in 0..3 {
        rig.step_ends(op, Ok(Json::null()));
        rig.commit();
    }
    let Some(Halt::Limit(failure)) = rig.halted() else { panic!("{:?}", rig.halted()) };
    assert!(failure.permanent && failure.kind == FailureKind::Limit);
}

#[test]
fn a_full_history_can_still_be_replayed_to_its_end() {
    let code = async |s: Rc<Shared>| {
        s.wait("go").await?;
        s.machine.borrow_mut().continue_as_new(Json::null());
        Ok(Json::null())
    };
    let mut rig = Rig::start(code);
    for _ in 0..9 {
        rig.signal("other", None, 1);
    }
    rig.commit();
    let limits = Limits { history: 3, ..Limits::default() };
    let mut again = Rig::load(rig.crash(), limits, code);
    again.signal("go", None, 1);
    again.commit();
    assert_eq!(again.halted(), None);
    assert!(again.turns[0].restart);
}

async fn asks(s: Rc<Shared>) -> Outcome {
    let asks = || -> Vec<Boxed<'_, Outcome>> {
        ["a", "b", "c"].map(|key| -> Boxed<'_, Outcome> { Box::pin(s.ask(key, None)) }).into()
    };
    let kinds: Vec<Option<FailureKind>> =
        join(asks()).await.into_iter().map(|one| one.err().map(|failure| failure.kind)).collect();
    s.say(format!("{kinds:?}"));
    s.timer(50).await
}

#[test]
fn a_question_over_the_limit_fails_alike_live_and_on_replay() {
    let limits = Limits { open_questions: 2, ..Limits::default() };
    let mut rig = Rig::load(crate::rig::history([]), limits, asks);
    rig.commit();
    assert_eq!(rig.count(|e| matches!(e, Event::QuestionAsked { .. })), 2);
    for key in ["a", "b"] {
        let answer = Answer { action: Action::Decline, content: None };
        rig.apply(Message::Answer { key: key.into(), answer });
    }
    rig.commit();
    let trace = rig.shared.trace.borrow().clone();
    assert!(trace.iter().any(|line| line == "[None, None, Some(Limit)]"), "{trace:?}");
    // The limit is higher now; what was recorded stays.
    let again = Rig::load(rig.crash(), Limits::default(), asks);
    assert_eq!(*again.shared.trace.borrow(), trace);
    assert_eq!(again.halted(), None);
}

#[test]
fn a_key_that_is_wished_for_again_is_made_unique() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let asks = || -> Vec<Boxed<'_, Outcome>> {
            ["q", "q-2", "q", "", "input", "q"]
                .map(|key| -> Boxed<'_, Outcome> { Box::pin(s.ask(key, None)) })
                .into()
        };
        join(asks()).await;
        Ok(Json::null())
    });
    rig.commit();
    let key = |effect: &Effect| match effect {
        Effect::OpenQuestion { ask, .. } => Some(ask.key.clone()),
        _ => None,
    };
    let keys: Vec<String> = rig.turns[0].effects.iter().filter_map(key).collect();
    assert_eq!(keys, ["q", "q-2", "q-2-2", "input", "input-2", "q-3"]);
}

#[test]
fn only_so_many_steps_run_at_once() {
    let limits = Limits { steps_in_flight: 2, ..Limits::default() };
    let mut rig = Rig::load(crate::rig::history([]), limits, async |s: Rc<Shared>| {
        let steps = || -> Vec<Boxed<'_, Outcome>> {
            (0..4).map(|_| -> Boxed<'_, Outcome> { Box::pin(s.step("each")) }).collect()
        };
        Ok(json(join(steps()).await.len()))
    });
    assert_eq!(rig.bench.started.borrow().len(), 2);
    assert!(rig.shared.machine.borrow().runnable().is_empty());
    rig.step_ends(1, Ok(json(1)));
    assert_eq!(rig.bench.started.borrow().len(), 3);
    assert_eq!(rig.shared.machine.borrow().steps_running(), 2);
}

#[test]
fn progress_that_is_no_number_leaves_a_history_that_can_be_read() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let progress = Progress { done: f64::NAN, total: Some(f64::INFINITY), text: None };
        s.machine.borrow_mut().note(Note::Progress(progress));
        s.timer(10).await
    });
    rig.commit();
    for record in rig.crash() {
        assert_eq!(decode(0, &encode(&record)).unwrap(), record);
    }
}
