//! Suspend and resume.

use std::time::Duration;

use steadfast_engine::{
    ActivityContext, Builder, CallError, Context, Error, Event, Result, Status, Tool,
};

use crate::support::{HOUR, Ledger, Place, accept, counted, output, settle, tool};

/// A long step, then an activity and another step.
async fn works(ledger: Ledger, ctx: Context, (): ()) -> Result<u32> {
    ctx.step("long", || async {
        ledger.add("long");
        tokio::time::sleep(HOUR).await;
        Ok::<_, Error>(())
    })
    .await?;
    ctx.activity::<()>("work", &()).await?;
    counted(&ctx, &ledger, "last").await
}

fn tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let noted = ledger.clone();
        builder.tool(tool("works", &ledger, works)).activity(
            "work",
            move |_: ActivityContext, (): ()| {
                noted.add("work");
                async { Ok(()) }
            },
        )
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_in_flight_may_end_and_nothing_new_starts_until_the_resume() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let id = life.begin("works", ()).await;
    ledger.has("long").await;
    life.tasks().suspend(&id, Some("lunch".into())).await.unwrap();
    tokio::time::sleep(HOUR * 3).await;
    let info = life.get(&id).await;
    assert_eq!((info.status, info.reason.as_deref()), (Status::Suspended, Some("lunch")));
    assert_eq!(ledger.lines(), ["long"]);
    life.tasks().resume(&id).await.unwrap();
    let info = life.end(&id).await;
    assert_eq!(output::<u32>(&info), 1);
    assert_eq!(info.reason, None);
    assert_eq!(ledger.lines(), ["long", "work", "last"], "the step's result was kept");
}

#[tokio::test(start_paused = true)]
async fn a_task_resumed_while_its_step_is_still_in_flight_goes_on() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let id = life.begin("works", ()).await;
    ledger.has("long").await;
    life.tasks().suspend(&id, Some("lunch".into())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    life.tasks().resume(&id).await.unwrap();
    assert_eq!(output::<u32>(&life.end(&id).await), 1);
    assert_eq!(ledger.count("long"), 1);
}

async fn waits(_: (), ctx: Context, what: String) -> Result<u32> {
    match what.as_str() {
        "ask" => Ok(ctx.ask::<u32>("?").key("q").await?.accepted().unwrap_or(0)),
        "event" => ctx.event("go").await,
        _ => {
            ctx.sleep(HOUR).await;
            Ok(1)
        }
    }
}

fn waiting(builder: Builder) -> Builder {
    builder.tool(tool("waits", &(), waits))
}

#[tokio::test(start_paused = true)]
async fn what_comes_for_a_suspended_task_is_kept_over_a_restart() {
    let place = Place::new();
    let first = place.start(waiting);
    let mut ids = Vec::new();
    for what in ["ask", "event", "sleep"] {
        let id = first.begin("waits", what).await;
        first.parked(&id).await;
        first.tasks().suspend(&id, None).await.unwrap();
        ids.push(id);
    }
    assert_eq!(first.get(&ids[0]).await.questions.len(), 1, "its question can still be seen");
    first.tasks().answer(&ids[0], "q", accept(1)).await.unwrap();
    first.tasks().signal(&ids[1], Event::new("go", &1)).await.unwrap();
    first.kill().await;
    let second = place.start(waiting);
    tokio::time::sleep(HOUR * 2).await;
    for id in &ids {
        assert_eq!(second.get(id).await.status, Status::Suspended);
        second.tasks().resume(id).await.unwrap();
        assert_eq!(output::<u32>(&second.end(id).await), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_start_waits_for_its_time_after_the_resume() {
    let place = Place::new();
    let life = place.start(waiting);
    let id = life.tasks().start("waits", "event").delay(HOUR).await.unwrap().id;
    life.tasks().suspend(&id, None).await.unwrap();
    life.tasks().resume(&id).await.unwrap();
    settle().await;
    assert_eq!(life.get(&id).await.status, Status::Queued);
    life.until(&id, Status::Waiting).await;
}

#[tokio::test(start_paused = true)]
async fn suspend_and_resume_say_when_there_is_nothing_to_do() {
    let place = Place::new();
    let life = place.start(waiting);
    let id = life.begin("waits", "event").await;
    life.parked(&id).await;
    let not_halted = life.tasks().resume(&id).await;
    assert!(
        matches!(not_halted, Err(CallError::WrongStatus { status: Status::Waiting, .. })),
        "{not_halted:?}"
    );
    life.tasks().suspend(&id, None).await.unwrap();
    let twice = life.tasks().suspend(&id, None).await;
    assert!(
        matches!(twice, Err(CallError::WrongStatus { status: Status::Suspended, .. })),
        "{twice:?}"
    );
    life.tasks().cancel(&id, None).await.unwrap();
    for refused in [life.tasks().suspend(&id, None).await, life.tasks().resume(&id).await] {
        assert!(
            matches!(refused, Err(CallError::Terminal { status: Status::Cancelled, .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_suspended_again_and_again_between_steps_still_ends_right() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
            let ledger = noted.clone();
            async move {
                for _ in 0..20 {
                    ctx.step("tick", || async {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        Ok::<_, Error>(ledger.add("tick"))
                    })
                    .await?;
                }
                Ok(())
            }
        }))
    });
    let id = life.begin("t", ()).await;
    for pause in 1..12 {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if life.tasks().suspend(&id, None).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(pause * 2)).await;
            life.tasks().resume(&id).await.unwrap();
        }
    }
    assert_eq!(life.end(&id).await.status, Status::Completed);
    assert_eq!(ledger.count("tick"), 20);
}
