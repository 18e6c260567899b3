//! Events from outside.

use std::rc::Rc;

use steadfast_core::{Event, Json, Limits, Outcome};

use crate::{
    code::{Boxed, Select, Shared, join},
    rig::{Rig, json},
};

fn received(rig: &Rig) -> usize {
    rig.count(|event| matches!(event, Event::SignalReceived { .. }))
}

async fn after_a_timer(s: Rc<Shared>) -> Outcome {
    s.timer(10).await?;
    let (one, two) = (s.wait("go").await?, s.wait("go").await?);
    Ok(json((one, two)))
}

#[test]
fn what_comes_before_the_wait_is_kept_in_order() {
    let mut rig = Rig::start(after_a_timer);
    rig.signal("go", None, 1);
    rig.signal("go", None, 2);
    rig.commit();
    let mut again = Rig::load(rig.crash(), Limits::default(), after_a_timer);
    again.tick(10);
    again.commit();
    assert_eq!(again.output().unwrap().text(), "[1,2]");
}

#[test]
fn the_same_id_is_applied_once_over_restarts() {
    let mut rig = Rig::start(after_a_timer);
    rig.signal("go", Some("a"), 1);
    rig.signal("go", Some("a"), 1);
    rig.commit();
    let mut again = Rig::load(rig.crash(), Limits::default(), after_a_timer);
    again.signal("go", Some("a"), 1);
    again.signal("go", None, 2);
    again.signal("go", None, 2);
    again.commit();
    assert_eq!(received(&again), 3, "those without an id are all different");
}

/// Waits for "go" and for "stop"; whichever ends the race, what was not read is still there.
async fn unread(s: Rc<Shared>) -> Outcome {
    let stop: Boxed<'_, Outcome> = Box::pin(s.wait("stop"));
    let mut go: Boxed<'_, Outcome> = Box::pin(s.wait("go"));
    std::future::poll_fn(|cx| {
        assert!(go.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    stop.await?;
    drop(go);
    s.wait("go").await
}

#[test]
fn one_that_was_delivered_and_not_read_goes_back() {
    let mut rig = Rig::start(unread);
    rig.signal("go", None, 1);
    rig.signal("go", None, 2);
    rig.signal("stop", None, 3);
    rig.commit();
    assert_eq!(rig.output().unwrap().text(), "1", "the oldest first");
    let mut old = rig.crash();
    old.pop();
    let mut again = Rig::load(old, Limits::default(), unread);
    again.commit();
    assert_eq!(again.output().unwrap().text(), "1");
}

#[test]
fn one_that_goes_back_is_handed_to_whoever_waits_already() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let first: Boxed<'_, Outcome> = Box::pin(async {
            // Looks at "stop" alone once both wait.
            let mut held: Boxed<'_, Outcome> = Box::pin(s.wait("go"));
            std::future::poll_fn(|cx| {
                let _ = held.as_mut().poll(cx);
                std::task::Poll::Ready(())
            })
            .await;
            let stop = s.wait("stop").await;
            drop(held);
            stop
        });
        let second: Boxed<'_, Outcome> = Box::pin(async { s.wait("go").await });
        let results = join(vec![first, second]).await;
        Ok(json(results.into_iter().flatten().collect::<Vec<Json>>()))
    });
    rig.signal("go", None, 1);
    rig.signal("stop", None, 2);
    rig.commit();
    assert_eq!(rig.output().unwrap().text(), "[2,1]");
}

#[test]
fn those_who_wait_are_served_in_program_order() {
    let mut rig = Rig::start(async |s: Rc<Shared>| {
        let waits =
            || -> Vec<Boxed<'_, Outcome>> { vec![Box::pin(s.wait("go")), Box::pin(s.wait("go"))] };
        let (index, first) = Select(waits()).await;
        Ok(json((index, first?)))
    });
    rig.signal("go", None, 5);
    rig.commit();
    assert_eq!(rig.output().unwrap().text(), "[0,5]");
}

#[test]
fn sends_writes_and_detached_children_are_ready_at_once_and_asked_for_once() {
    let code = async |s: Rc<Shared>| {
        s.send("hello").await?;
        s.put("k", 1).await?;
        let child = s.child("t", true).await?;
        s.say(child.text().to_owned());
        s.timer(10).await
    };
    let mut rig = Rig::start(code);
    rig.commit();
    assert_eq!(rig.turns[0].effects.len(), 3);
    let trace = rig.shared.trace.borrow().clone();
    let mut again = Rig::load(rig.crash(), Limits::default(), code);
    again.commit();
    assert!(again.turns.is_empty());
    assert_eq!(*again.shared.trace.borrow(), trace);
    again.tick(10);
    again.commit();
    assert!(again.is_over());
}
