//! Sagas: what was done is taken back, in reverse order.

use std::time::Duration;

use steadfast_engine::{
    ActivityContext, Builder, Compensation, Context, Error, Result, Status, TaskId, TaskInfo,
};

use crate::support::{HOUR, Ledger, Life, Place, tool, within};

/// Books a flight and a hotel, then does what it is told.
async fn trip(ledger: Ledger, ctx: Context, then: String) -> Result<()> {
    for what in ["flight", "hotel"] {
        ctx.step(what, || async { Ok::<_, Error>(ledger.add(what)) }).undo("undo", what).await?;
    }
    match then.as_str() {
        "complete" => Ok(()),
        "wait" => ctx.event("never").await,
        "hang" => {
            let car = ctx.step("car", || async {
                ledger.add("car");
                std::future::pending::<Result<()>>().await
            });
            car.undo("undo", "car").await
        }
        "break" => {
            let car = ctx.step("car", || async { Err::<(), _>(Error::new("no car")) });
            car.undo("undo", "car").await
        }
        "panic" => panic!("lost the map"),
        _ => Err(Error::new("changed our minds")),
    }
}

/// With undo functions that succeed at once.
fn tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let noted = ledger.clone();
        builder.tool(tool("trip", &ledger, trip)).activity(
            "undo",
            move |_: ActivityContext, what: String| {
                noted.add(&format!("undo {what}"));
                async { Ok(()) }
            },
        )
    }
}

/// The same with undo functions that take an hour each.
fn slowly(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let noted = ledger.clone();
        builder.tool(tool("trip", &ledger, trip)).activity(
            "undo",
            move |_: ActivityContext, what: String| {
                let ledger = noted.clone();
                async move {
                    ledger.add(&format!("begin {what}"));
                    tokio::time::sleep(HOUR).await;
                    ledger.add(&format!("undo {what}"));
                    Ok(())
                }
            },
        )
    }
}

async fn undone(life: &Life, id: &TaskId) -> TaskInfo {
    let over = |info: &TaskInfo| {
        matches!(info.compensation, Some(Compensation::Done | Compensation::Failed { .. }))
    };
    within(life.tasks().wait_for(id, over)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_takes_its_steps_back_in_reverse_order() {
    let place = Place::new();
    for then in ["fail", "panic"] {
        let ledger = Ledger::default();
        let life = place.start(tools(&ledger));
        let id = life.begin("trip", then).await;
        let info = undone(&life, &id).await;
        assert_eq!((info.status, info.compensation), (Status::Failed, Some(Compensation::Done)));
        assert_eq!(ledger.lines(), ["flight", "hotel", "undo hotel", "undo flight"]);
        life.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_cancelled_takes_its_steps_back() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let id = life.begin("trip", "wait").await;
    life.parked(&id).await;
    life.tasks().cancel(&id, Some("rain".into())).await.unwrap();
    let info = undone(&life, &id).await;
    assert_eq!((info.status, info.compensation), (Status::Cancelled, Some(Compensation::Done)));
    assert_eq!(info.reason.as_deref(), Some("rain"));
    assert_eq!(ledger.lines(), ["flight", "hotel", "undo hotel", "undo flight"]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_failed_or_was_cut_off_is_taken_back_too() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let id = life.begin("trip", "break").await;
    undone(&life, &id).await;
    assert_eq!(ledger.lines()[2..], ["undo car", "undo hotel", "undo flight"]);

    let id = life.begin("trip", "hang").await;
    ledger.has("car").await;
    life.tasks().cancel(&id, None).await.unwrap();
    undone(&life, &id).await;
    assert_eq!(ledger.count("undo car"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_completes_takes_nothing_back() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let info = life.run("trip", "complete").await;
    crate::support::settle().await;
    assert_eq!((info.status, info.compensation), (Status::Completed, None));
    assert_eq!(ledger.lines(), ["flight", "hotel"]);
}

#[tokio::test(start_paused = true)]
async fn undoing_is_seen_while_it_goes_on() {
    let place = Place::new();
    for cancel in [false, true] {
        let ledger = Ledger::default();
        let life = place.start(slowly(&ledger));
        let id = life.begin("trip", if cancel { "wait" } else { "fail" }).await;
        if cancel {
            life.parked(&id).await;
            life.tasks().cancel(&id, None).await.unwrap();
        }
        let status = if cancel { Status::Cancelled } else { Status::Failed };
        for (done, what) in ["hotel", "flight"].into_iter().enumerate() {
            ledger.has(&format!("begin {what}")).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let info = life.get(&id).await;
            let running = Compensation::Running { done: done as u32, total: 2 };
            assert_eq!((info.status, info.compensation), (status, Some(running)));
        }
        assert_eq!(undone(&life, &id).await.status, status);
        life.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_task_and_not_with_its_compensation() {
    let place = Place::new();
    // One who waits from the start is told by the task itself; one who comes later has to look.
    for late in [false, true] {
        let ledger = Ledger::default();
        let life = place.start(slowly(&ledger));
        let before = tokio::time::Instant::now();
        let id = life.begin("trip", "fail").await;
        if late {
            ledger.has("begin hotel").await;
        }
        let info = life.end(&id).await;
        assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
        assert_eq!(info.status, Status::Failed);
        assert_eq!(info.compensation, Some(Compensation::Running { done: 0, total: 2 }));
        tokio::time::sleep(HOUR * 3).await;
        let info = life.get(&id).await;
        assert_eq!((info.status, info.compensation), (Status::Failed, Some(Compensation::Done)));
        assert_eq!(life.end(&id).await.compensation, Some(Compensation::Done));
        life.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_undoing_goes_on_with_what_is_left() {
    let place = Place::new();
    for cancel in [false, true] {
        let ledger = Ledger::default();
        let first = place.start(slowly(&ledger));
        let id = first.begin("trip", if cancel { "wait" } else { "fail" }).await;
        if cancel {
            first.parked(&id).await;
            first.tasks().cancel(&id, None).await.unwrap();
        }
        ledger.has("begin flight").await;
        first.kill().await;
        let second = place.start(slowly(&ledger));
        assert_eq!(undone(&second, &id).await.compensation, Some(Compensation::Done));
        assert_eq!((ledger.count("begin hotel"), ledger.count("begin flight")), (1, 2));
        assert_eq!(ledger.lines().pop().unwrap(), "undo flight");
        second.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_right_after_the_cancel_loses_no_undo() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(tools(&ledger));
    let id = first.begin("trip", "wait").await;
    first.parked(&id).await;
    first.tasks().cancel(&id, None).await.unwrap();
    first.kill().await;
    assert_eq!(ledger.count("undo hotel"), 0);
    let second = place.start(tools(&ledger));
    undone(&second, &id).await;
    assert_eq!(ledger.lines()[2..], ["undo hotel", "undo flight"]);
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_fails_is_tried_again_and_the_others_still_run() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let life = place.start(|builder| {
        builder.tool(tool("trip", &ledger, trip)).activity(
            "undo",
            move |_: ActivityContext, what: String| {
                noted.add(&format!("undo {what}"));
                async move { if what == "hotel" { Err(Error::new("no refund")) } else { Ok(()) } }
            },
        )
    });
    let id = life.begin("trip", "fail").await;
    let info = undone(&life, &id).await;
    let Some(Compensation::Failed { failure }) = info.compensation else { panic!("{info:?}") };
    assert_eq!(failure.message, "no refund");
    assert_eq!(info.failure.unwrap().message, "changed our minds", "its own end stays its own");
    assert_eq!((ledger.count("undo hotel"), ledger.count("undo flight")), (10, 1));
}

#[tokio::test(start_paused = true)]
async fn each_undo_has_a_key_of_its_own_that_its_attempts_share() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let life = place.start(|builder| {
        builder.tool(tool("trip", &ledger, trip)).activity(
            "undo",
            move |a: ActivityContext, what: String| {
                noted.add(&format!("{what}: {}", a.key()));
                async move { if a.attempt() < 3 { Err(Error::new("busy")) } else { Ok(()) } }
            },
        )
    });
    let id = life.begin("trip", "fail").await;
    undone(&life, &id).await;
    let keys: Vec<String> = ledger.lines().split_off(2);
    assert_eq!(keys.len(), 6);
    assert!(keys[..3].iter().all(|key| *key == keys[0]), "{keys:?}");
    let key = |line: &str| line.split_once(": ").unwrap().1.to_owned();
    assert_ne!(key(&keys[0]), key(&keys[3]), "a service must not take one for the other");
}
