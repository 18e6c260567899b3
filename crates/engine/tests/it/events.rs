//! Timers and external events.

use std::time::Duration;

use steadfast_engine::{
    Builder, CallError, Context, Event, FailureKind, Result, Settings, Status, TaskId, Timestamp,
    Tool,
};

use crate::support::{HOUR, Ledger, Place, bob, counted, output, settings, tool};

/// Sleeps, then takes as many events as it is told.
async fn collect(_: (), ctx: Context, (sleep, count): (u64, usize)) -> Result<Vec<u32>> {
    ctx.sleep(Duration::from_secs(sleep)).await;
    let mut got = Vec::new();
    for _ in 0..count {
        got.push(ctx.event::<u32>("number").await?);
    }
    Ok(got)
}

fn tools(builder: Builder) -> Builder {
    builder.tool(tool("collect", &(), collect))
}

fn number(n: u32) -> Event {
    Event::new("number", &n)
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn events_that_come_before_the_wait_are_kept_and_taken_oldest_first() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("collect", (3600, 3)).await;
    for n in 1..=3 {
        life.tasks().signal(&id, number(n)).await.unwrap();
    }
    assert_eq!(output::<Vec<u32>>(&life.end(&id).await), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn events_that_come_before_the_start_are_kept_over_a_restart() {
    let place = Place::new();
    let first = place.start(tools);
    let early = |n| number(n).even_before_start();
    first.tasks().signal(&id("later"), early(1)).await.unwrap();
    first.tasks().signal(&id("later"), early(2)).await.unwrap();
    first.kill().await;
    let second = place.start(tools);
    second.tasks().start("collect", &(0, 2)).id(id("later")).await.unwrap();
    assert_eq!(output::<Vec<u32>>(&second.end(&id("later")).await), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_event_for_a_task_that_is_not_there_is_refused_unless_it_may_be_early() {
    let place = Place::new();
    let life = place.start(tools);
    let refused = life.tasks().signal(&id("later"), number(1)).await;
    assert!(matches!(refused, Err(CallError::Unknown(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn an_early_event_of_another_principal_does_not_reach_the_task() {
    let place = Place::new();
    let life = place.start(tools);
    let stranger = life.engine.tasks(bob());
    stranger.signal(&id("mine"), number(666).even_before_start()).await.unwrap();
    life.tasks().start("collect", &(0, 1)).id(id("mine")).await.unwrap();
    life.until(&id("mine"), Status::Waiting).await;
    life.tasks().signal(&id("mine"), number(1)).await.unwrap();
    assert_eq!(output::<Vec<u32>>(&life.end(&id("mine")).await), [1]);
}

#[tokio::test(start_paused = true)]
async fn an_early_event_is_kept_only_so_long() {
    let place = Place::new();
    let settings = Settings { early_signals: HOUR, ..settings() };
    let life = place.start_with(settings, tools);
    life.tasks().signal(&id("later"), number(1).even_before_start()).await.unwrap();
    tokio::time::sleep(HOUR + Duration::from_secs(120)).await;
    life.tasks().start("collect", &(0, 1)).id(id("later")).await.unwrap();
    life.until(&id("later"), Status::Waiting).await;
    life.tasks().signal(&id("later"), number(2)).await.unwrap();
    assert_eq!(output::<Vec<u32>>(&life.end(&id("later")).await), [2]);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_applied_once_by_its_id_early_late_and_after_a_restart() {
    let place = Place::new();
    let first = place.start(tools);
    let once = || number(1).id("order-1").even_before_start();
    first.tasks().signal(&id("t"), once()).await.unwrap();
    first.tasks().signal(&id("t"), once()).await.unwrap();
    first.tasks().start("collect", &(0, 2)).id(id("t")).await.unwrap();
    first.until(&id("t"), Status::Waiting).await;
    first.tasks().signal(&id("t"), once()).await.unwrap();
    first.kill().await;
    let second = place.start(tools);
    second.tasks().signal(&id("t"), once()).await.unwrap();
    second.tasks().signal(&id("t"), number(2).id("order-2")).await.unwrap();
    assert_eq!(output::<Vec<u32>>(&second.end(&id("t")).await), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_taken_is_not_taken_again_by_a_replay() {
    let place = Place::new();
    let first = place.start(tools);
    let id = first.begin("collect", (0, 2)).await;
    first.tasks().signal(&id, number(1)).await.unwrap();
    first.parked(&id).await;
    first.kill().await;
    let second = place.start(tools);
    second.tasks().signal(&id, number(2)).await.unwrap();
    assert_eq!(output::<Vec<u32>>(&second.end(&id).await), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_event_wakes_a_task_that_has_left_memory() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("collect", (0, 1)).await;
    life.parked(&id).await;
    let before = tokio::time::Instant::now();
    life.tasks().signal(&id, number(9)).await.unwrap();
    assert_eq!(output::<Vec<u32>>(&life.end(&id).await), [9]);
    assert!(before.elapsed() < Duration::from_millis(50), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_event_of_the_wrong_type_is_an_error_that_the_task_can_handle() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let error = ctx.event::<u32>("number").await.unwrap_err();
            assert_eq!(error.kind(), FailureKind::Payload);
            ctx.event::<u32>("number").await
        }))
    });
    let id = life.begin("t", ()).await;
    life.tasks().signal(&id, Event::new("number", "seven")).await.unwrap();
    life.tasks().signal(&id, number(7)).await.unwrap();
    assert_eq!(output::<u32>(&life.end(&id).await), 7);
}

#[tokio::test(start_paused = true)]
async fn an_event_to_a_task_that_has_ended_says_so() {
    let place = Place::new();
    let life = place.start(tools);
    let ended = life.run("collect", (0, 0)).await;
    let refused = life.tasks().signal(&ended.id, number(1)).await;
    let status = Status::Completed;
    assert!(matches!(refused, Err(CallError::Terminal { status: s, .. }) if s == status));
}

async fn sends(ledger: Ledger, ctx: Context, to: TaskId) -> Result<()> {
    ctx.send_event(&to, "number", &5).await?;
    counted(&ctx, &ledger, "sent").await?;
    ctx.sleep(HOUR).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_event_from_task_to_task_is_sent_once_over_a_restart() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| tools(builder).tool(tool("sends", &ledger, sends));
    let first = place.start(tools);
    let to = first.begin("collect", (7200, 2)).await;
    let from = first.begin("sends", &to).await;
    ledger.has("sent").await;
    first.kill().await;
    let second = place.start(tools);
    second.end(&from).await;
    second.tasks().signal(&to, number(6)).await.unwrap();
    assert_eq!(output::<Vec<u32>>(&second.end(&to).await), [5, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_goes_on_over_a_restart_and_ends_on_time() {
    let place = Place::new();
    let tools = |builder: Builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let before = ctx.now();
            ctx.sleep(HOUR).await;
            ctx.sleep_until(before.plus(HOUR * 2)).await;
            Ok((before, ctx.now()))
        }))
    };
    let first = place.start(tools);
    let id = first.begin("t", ()).await;
    assert_eq!(first.until(&id, Status::Waiting).await.status, Status::Waiting);
    first.parked(&id).await;
    assert!(first.get(&id).await.wakes.is_some(), "a waiting task says when it goes on");
    first.kill().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let second = place.start(tools);
    let (before, after): (Timestamp, Timestamp) = output(&second.end(&id).await);
    let late = before.until(after) - HOUR * 2;
    assert!(late < Duration::from_millis(100), "{late:?} late");
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_came_due_while_nobody_ran_ends_at_once() {
    let place = Place::new();
    let first = place.start(tools);
    let id = first.begin("collect", (60, 0)).await;
    first.parked(&id).await;
    first.kill().await;
    tokio::time::sleep(HOUR).await;
    let second = place.start(tools);
    let before = tokio::time::Instant::now();
    second.end(&id).await;
    assert!(before.elapsed() < Duration::from_millis(100), "{:?}", before.elapsed());
}
