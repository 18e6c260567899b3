//! What is not durable is noticed, and nothing gets ahead of its commit.

use std::{rc::Rc, task::Poll};

use steadfast_core::{Halt, Json, Message, Note, OpId, PollKind};

use crate::{
    code::{Ended, Select, Shared, join},
    rig::{Rig, json},
};

/// Pending once, without anybody who would wake it.
async fn pause() {
    let mut first = true;
    std::future::poll_fn(
        |_| {
            if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }
        },
    )
    .await;
}

fn not_durable(rig: &Rig, what: &str) {
    let Some(Halt::NotDurable { found }) = rig.halted() else { panic!("{:?}", rig.halted()) };
    assert!(found.contains(what), "{found}");
    assert!(rig.complaint().contains(what));
}

#[test]
fn an_operation_after_a_wait_that_is_not_durable_is_refused() {
    let rig = Rig::start(async |s: Rc<Shared>| {
        pause().await;
        s.step("late").await
    });
    not_durable(&rig, "step \"late\"");
}

#[test]
fn an_operation_first_awaited_after_a_wait_that_is_not_durable_is_refused() {
    let rig = Rig::start(async |s: Rc<Shared>| {
        let early = s.step("early");
        pause().await;
        early.await
    });
    not_durable(&rig, "step \"early\" awaited");
}

#[test]
fn a_drop_after_a_wait_that_is_not_durable_is_refused() {
    let rig = Rig::start(async |s: Rc<Shared>| {
        let wait = async { s.timer(50).await.map(drop) };
        let gives_up = async {
            pause().await;
            Ok(())
        };
        let _ = Select(vec![Box::pin(wait), Box::pin(gives_up)]).await;
        std::future::pending().await
    });
    not_durable(&rig, "timer \"\" dropped");
}

#[test]
fn an_end_after_a_wait_that_is_not_durable_is_refused() {
    let rig = Rig::start(async |_| {
        pause().await;
        Ok(Json::null())
    });
    not_durable(&rig, "the end of the code");
}

#[test]
fn a_note_after_a_wait_that_is_not_durable_is_refused() {
    let rig = Rig::start(async |s: Rc<Shared>| {
        pause().await;
        s.machine.borrow_mut().note(Note::Status("hm".into()));
        Ok(Json::null())
    });
    not_durable(&rig, "note");
}

#[test]
fn a_durable_call_inside_a_step_is_refused_and_names_both() {
    let rig = Rig::start(async |s: Rc<Shared>| {
        s.machine.borrow_mut().enter_step(Some("outer".into()));
        let inner = s.step("inner").await;
        s.machine.borrow_mut().enter_step(None);
        inner
    });
    not_durable(&rig, "step \"inner\" inside the step \"outer\"");
}

#[test]
fn a_version_marker_or_a_new_beginning_inside_a_step_is_refused() {
    let marker = Rig::start(async |s: Rc<Shared>| {
        s.machine.borrow_mut().enter_step(Some("outer".into()));
        s.machine.borrow_mut().version("change", 1);
        Ok(Json::null())
    });
    not_durable(&marker, "version marker \"change\" inside the step \"outer\"");
    let anew = Rig::start(async |s: Rc<Shared>| {
        s.machine.borrow_mut().enter_step(Some("outer".into()));
        s.machine.borrow_mut().continue_as_new(Json::null());
        Ok(Json::null())
    });
    not_durable(&anew, "continue as new inside the step \"outer\"");
}

#[test]
fn draws_inside_a_step_differ_and_take_no_number() {
    let rig = Rig::start(async |s: Rc<Shared>| {
        s.machine.borrow_mut().enter_step(Some("outer".into()));
        let (one, two) = (s.draw(), s.draw());
        s.machine.borrow_mut().enter_step(None);
        assert_ne!(one, two);
        assert_eq!(s.step("first").id.0, 0);
        std::future::pending().await
    });
    assert_eq!(rig.halted(), None);
}

#[test]
fn a_step_waits_until_what_it_depends_on_is_durable() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        s.step("one").await?;
        s.step("two").await
    });
    rig.step_ends(0, Ok(json(1)));
    let turn = rig.take();
    rig.poll(PollKind::Wake);
    assert_eq!(rig.bench.started.borrow().len(), 1, "the first result is not durable yet");
    rig.land(turn);
    assert_eq!(rig.bench.started.borrow().len(), 2);
}

#[test]
fn the_last_result_and_the_end_share_a_turn() {
    let mut rig = Rig::start(async |s: Rc<Shared>| s.step("only").await);
    rig.step_ends(0, Ok(json(1)));
    rig.commit();
    assert_eq!(rig.turns.len(), 1);
    assert_eq!(rig.turns[0].events.len(), 2);
}

#[test]
fn notes_hold_up_no_step() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        s.machine.borrow_mut().note(Note::Status("on it".into()));
        s.step("only").await
    });
    assert_eq!(rig.bench.started.borrow().len(), 1);
    assert_eq!(rig.take().events.len(), 1);
}

#[test]
fn branches_go_on_in_recorded_order() {
    let code = async |s: Rc<Shared>| {
        let branch = async |name: &'static str| {
            s.step(name).await?;
            s.step(&format!("after {name}")).await
        };
        join(vec![Box::pin(branch("a")), Box::pin(branch("b"))]).await;
        Ok(Json::null())
    };
    let mut rig = Rig::start(code);
    rig.step_ends(1, Ok(json("b")));
    rig.step_ends(0, Ok(json("a")));
    rig.commit();
    rig.step_ends(3, Ok(json("after a")));
    rig.step_ends(2, Ok(json("after b")));
    let trace = rig.shared.trace.borrow().clone();
    assert!(trace.iter().any(|line| line == "#2 step \"after b\""), "{trace:?}");
    rig.commit();
    let mut replayed = rig.crash();
    replayed.pop();
    let again = Rig::load(replayed, steadfast_core::Limits::default(), code);
    assert_eq!(*again.shared.trace.borrow(), trace);
    assert!(again.bench.started.borrow().is_empty(), "nothing recorded runs again");
}

#[test]
fn what_comes_behind_a_deferred_end_waits_for_it() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let update = async { s.update("k").await.map(|_| json("update")) };
        let signal = async { s.wait("go").await.map(|_| json("signal")) };
        let (_, first) = Select(vec![Box::pin(update), Box::pin(signal)]).await;
        first
    });
    rig.end(0, Ended::Proposed(Some(json(1)), 0));
    let turn = rig.take();
    rig.signal("go", None, 1);
    assert!(!rig.is_over(), "the history has the update first");
    rig.land(turn);
    rig.commit();
    assert_eq!(rig.output().unwrap().text(), "\"update\"");
}

#[test]
fn a_refused_end_is_computed_again_and_moves_up_what_came_behind() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let update = async { s.update("k").await };
        let signal = async {
            s.wait("go").await?;
            s.step("gated").await
        };
        Ok(json(join(vec![Box::pin(update), Box::pin(signal)]).await.len()))
    });
    rig.end(0, Ended::Proposed(Some(json(1)), 0));
    let message = Message::Signal { name: "go".into(), id: None, payload: json(1) };
    rig.shared.machine.borrow_mut().apply(message, rig.now);
    let mut turn = rig.take();
    // The step is asked for while the turn is under way, and waits for all of it.
    rig.deliver();
    let again = rig.shared.machine.borrow_mut().refused(&mut turn, OpId(0));
    assert!(again && turn.deferred.is_empty());
    rig.land(turn);
    assert_eq!(*rig.bench.started.borrow(), [(OpId(0), 1), (OpId(0), 1), (OpId(2), 1)]);
    rig.end(0, Ended::Proposed(Some(json(2)), 1));
    rig.step_ends(2, Ok(json("ran")));
    rig.commit();
    assert!(rig.is_over());
    let firsts: Vec<u64> = rig.turns.iter().map(|turn| turn.first).collect();
    assert_eq!(firsts, [1, 2, 4], "no gap where the refused end was");
}
