//! What the world sees.

use std::{rc::Rc, time::Duration};

use steadfast_core::{
    Call, Event, Failure, FailureKind, Json, Message, Mode, Note, OpId, Outcome, Progress, Retry,
    Status, Timestamp, Urgency,
};

use crate::{
    code::{Boxed, Shared, join},
    rig::{Rig, history},
};

fn status(rig: &Rig) -> Status {
    rig.shared.machine.borrow().view().0
}

#[test]
fn a_step_that_runs_is_running_and_holds_the_task_in_memory() {
    let mut rig = Rig::start(async |s: Rc<Shared>| s.step("one").await);
    rig.commit();
    assert_eq!(status(&rig), Status::Running);
    assert!(!rig.shared.machine.borrow().can_park());
}

#[test]
fn a_timer_is_a_wait_that_can_leave_memory_once_it_is_committed() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let _not_begun = s.step("held");
        s.timer(10).await
    });
    assert_eq!(status(&rig), Status::Waiting);
    assert!(!rig.shared.machine.borrow().can_park());
    rig.commit();
    assert!(rig.shared.machine.borrow().can_park());
}

#[test]
fn an_open_question_wants_input_whatever_else_runs() {
    let rig = Rig::start(async |s: Rc<Shared>| {
        let both: Vec<Boxed<'_, Outcome>> =
            vec![Box::pin(s.ask("q", None)), Box::pin(s.step("one"))];
        join(both).await;
        Ok(Json::null())
    });
    assert_eq!(status(&rig), Status::InputRequired);
}

#[test]
fn a_step_that_waits_for_its_next_attempt_is_retrying_and_says_why() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let retry = Some(Retry::exponential().first_delay(Duration::from_millis(500)).jitter(0.0));
        let mode = Mode::AtLeastOnce;
        s.call(Call::Step { name: "try".into(), mode, retry, undo: None }).await
    });
    rig.step_ends(0, Err(Failure::new(FailureKind::Error, "busy")));
    rig.commit();
    let (status, view) = rig.shared.machine.borrow().view();
    assert_eq!(status, Status::Retrying);
    assert_eq!(view.failure.unwrap().message, "busy");
    assert_eq!(view.retry_at, Some(Timestamp(500)));
    assert!(rig.shared.machine.borrow().can_park());
}

#[test]
fn an_activity_that_retries_shows_until_it_ends() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        s.activity("a").await?;
        s.timer(10).await
    });
    rig.commit();
    let failure = Failure::new(FailureKind::Error, "busy");
    let (op, retry_at) = (OpId(0), Timestamp(70));
    rig.apply(Message::ActivityRetrying { op, failure, retry_at });
    assert_eq!(status(&rig), Status::Retrying);
    rig.apply(Message::ActivityEnded { op, outcome: Ok(Json::null()) });
    let (status, view) = rig.shared.machine.borrow().view();
    assert_eq!((status, view.failure), (Status::Waiting, None));
}

#[test]
fn the_last_note_of_each_kind_shows() {
    let rig = Rig::start(async |s: Rc<Shared>| {
        let note = |note| s.machine.borrow_mut().note(note);
        note(Note::Status("one".into()));
        note(Note::Status("two".into()));
        note(Note::Progress(Progress { done: 1.0, total: Some(4.0), text: None }));
        s.wait("go").await
    });
    let (_, view) = rig.shared.machine.borrow().view();
    assert_eq!(view.message.as_deref(), Some("two"));
    assert_eq!(view.progress.unwrap().done, 1.0);
    assert_eq!(rig.shared.machine.borrow().urgency(), Urgency::Soon);
}

#[test]
fn of_progress_reported_in_a_row_by_a_step_only_the_last_is_kept() {
    let mut rig = Rig::start(async |s: Rc<Shared>| s.step("one").await);
    {
        let mut machine = rig.shared.machine.borrow_mut();
        let outer = machine.enter_step(Some("one".into()));
        for done in 0..5 {
            let done = f64::from(done);
            machine.note(Note::Progress(Progress { done, total: None, text: None }));
        }
        machine.enter_step(outer);
    }
    let turn = rig.take();
    assert_eq!(turn.events.len(), 1);
    assert_eq!(rig.shared.machine.borrow().view().1.progress.unwrap().done, 4.0);
}

fn progress(done: f64) -> Progress {
    Progress { done, total: None, text: None }
}

async fn says_how_far_it_is(s: Rc<Shared>) -> Outcome {
    let say = |done| s.machine.borrow_mut().note(Note::Progress(progress(done)));
    say(1.0);
    s.step("one").await?;
    say(2.0);
    s.wait("go").await
}

#[test]
fn passing_progress_is_told_once_all_before_it_is_durable_and_is_not_recorded() {
    let told = |rig: &Rig| -> Vec<f64> {
        let told = rig.shared.machine.borrow_mut().take_progress();
        told.into_iter().map(|(_, progress)| progress.done).collect()
    };
    let mut rig = Rig::load_passing(history([]), says_how_far_it_is);
    assert_eq!(told(&rig), [1.0]);
    rig.step_ends(1, Ok(Json::null()));
    assert_eq!(told(&rig), [0.0; 0], "the step is not durable yet");
    rig.commit();
    assert_eq!(told(&rig), [2.0]);
    assert_eq!(rig.shared.machine.borrow().view().1.progress.unwrap().done, 2.0);
    assert_eq!(rig.count(|event| matches!(event, Event::Noted { .. })), 0);

    // What the history has gone past is not told again. What comes after it may be.
    let rig = Rig::load_passing(rig.crash(), says_how_far_it_is);
    assert_eq!(rig.halted(), None);
    assert_eq!(told(&rig), [2.0]);
}

#[test]
fn of_passing_progress_reported_in_a_row_by_a_step_only_the_last_is_told() {
    let rig = Rig::load_passing(history([]), async |s: Rc<Shared>| s.step("one").await);
    let mut machine = rig.shared.machine.borrow_mut();
    let outer = machine.enter_step(Some("one".into()));
    for done in 0..5 {
        machine.note(Note::Progress(progress(f64::from(done))));
    }
    machine.enter_step(outer);
    assert_eq!(machine.take_progress(), [(1, progress(4.0))]);
    assert_eq!(machine.urgency(), Urgency::Idle);
}
