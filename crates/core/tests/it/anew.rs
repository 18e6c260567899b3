//! Continuing as new.

use std::rc::Rc;

use steadfast_core::{
    Call, Carry, Effect, Event, Json, Limits, Mode, Note, Outcome, Record, Turn, Undo,
};

use crate::{
    code::Shared,
    rig::{Rig, json, started},
};

fn carry(turn: &Turn) -> &Carry {
    assert!(turn.restart && turn.first == 0);
    match &turn.events[0].event {
        Event::Started { carry: Some(carry), .. } => carry,
        other => panic!("{other:?}"),
    }
}

async fn again_on_go(s: Rc<Shared>) -> Outcome {
    s.wait("go").await?;
    s.machine.borrow_mut().continue_as_new(json("next"));
    Ok(Json::null())
}

#[test]
fn unread_signals_go_along_in_order_also_those_not_delivered_yet() {
    let mut rig = Rig::start(again_on_go);
    rig.signal("more", Some("a"), 1);
    {
        let mut machine = rig.shared.machine.borrow_mut();
        for (name, payload) in [("go", 0), ("more", 2), ("go", 3)] {
            let (name, payload) = (name.to_owned(), json(payload));
            let message = steadfast_core::Message::Signal { name, id: None, payload };
            machine.apply(message, rig.now);
        }
    }
    rig.deliver();
    let turn = rig.take();
    let more = |payload: u64| ("more".to_owned(), json(payload));
    assert_eq!(carry(&turn).signals, [more(1), more(2), ("go".to_owned(), json(3))]);
    assert_eq!(carry(&turn).seen, ["a"]);
}

#[test]
fn unread_signals_go_along_when_the_end_comes_on_replay() {
    let mut rig = Rig::start(async |s: Rc<Shared>| s.timer(1).await);
    rig.signal("go", None, 0);
    rig.signal("more", None, 1);
    rig.commit();
    let signals = |r: &Record| !matches!(r.event, Event::TimerSet { .. });
    let old: Vec<Record> = rig.crash().into_iter().filter(signals).collect();
    let mut again = Rig::load(old, Limits::default(), again_on_go);
    assert_eq!(carry(&again.take()).signals, [("more".to_owned(), json(1))]);
}

#[test]
fn the_next_run_reads_what_went_along() {
    let carry =
        Carry { signals: vec![("go".into(), json(4))], seen: vec!["a".into()], ..Carry::default() };
    let mut rig =
        Rig::load(vec![started(Some(carry))], Limits::default(), async |s: Rc<Shared>| {
            let first = s.wait("go").await?;
            let second = s.wait("go").await?;
            Ok(json((first, second)))
        });
    rig.signal("go", Some("a"), 5);
    rig.signal("go", Some("b"), 6);
    rig.commit();
    assert_eq!(rig.output().unwrap().text(), "[4,6]");
}

#[test]
fn keys_and_undos_go_along() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let undo = Some(Undo { function: "refund".into(), input: json(1) });
        let mode = Mode::AtLeastOnce;
        s.call(Call::Step { name: "charge".into(), mode, retry: None, undo }).await?;
        let question = s.ask("q", None);
        drop(question);
        s.machine.borrow_mut().continue_as_new(Json::null());
        Ok(Json::null())
    });
    rig.commit();
    rig.step_ends(0, Ok(Json::null()));
    rig.commit();
    let turn = rig.turns.last().unwrap();
    assert_eq!(carry(turn).keys.get("q"), Some(&1));
    assert_eq!(carry(turn).undos.len(), 1);
    let old = rig.crash();
    let mut next = Rig::load(old, Limits::default(), async |s: Rc<Shared>| s.ask("q", None).await);
    next.commit();
    let asked =
        |effect: &Effect| matches!(effect, Effect::OpenQuestion { ask, .. } if ask.key == "q-2");
    assert!(next.turns[0].effects.iter().any(asked));
}

#[test]
fn what_the_last_turn_asked_of_the_world_and_said_is_not_lost() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        s.wait("go").await?;
        s.send("bye").await?;
        s.machine.borrow_mut().note(Note::Status("anew".into()));
        s.machine.borrow_mut().continue_as_new(Json::null());
        Ok(Json::null())
    });
    rig.signal("go", None, 1);
    rig.commit();
    assert_eq!(rig.turns[0].effects.len(), 1);
    let said = |e: &Event| matches!(e, Event::Noted { op: None, note: Note::Status(_) });
    assert_eq!(rig.count(said), 1);
    assert_eq!(rig.history.len(), 2);
    let next = Rig::load(rig.crash(), Limits::default(), async |s: Rc<Shared>| s.wait("go").await);
    assert_eq!(next.halted(), None);
}

#[test]
fn each_run_draws_other_numbers() {
    let code = async |s: Rc<Shared>| {
        s.say(format!("{}", s.draw()));
        s.machine.borrow_mut().continue_as_new(Json::null());
        Ok(Json::null())
    };
    let mut rig = Rig::start(code);
    rig.commit();
    let first = rig.shared.trace.borrow().clone();
    let second = Rig::load(rig.crash(), Limits::default(), code);
    assert_ne!(*second.shared.trace.borrow(), first);
}
