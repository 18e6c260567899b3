//! Several processes on one store, their ends and their deaths.

use std::time::Duration;

use steadfast_engine::{
    ActivityContext, Builder, CallError, Context, Error, Event, Result, Status, join,
};

use crate::support::{
    HOUR, Ledger, Life, Place, accept, ada, counted, endless, output, settings, settle, tool, when,
};

/// Stays in memory with an endless step, and waits for an answer and an event.
async fn works(ledger: Ledger, ctx: Context, stay: bool) -> Result<(u32, u32)> {
    let inputs = async {
        let (answer, event) = join(ctx.ask::<u32>("?").key("q"), ctx.event::<u32>("go")).await;
        counted(&ctx, &ledger, "got both").await?;
        Ok::<_, Error>((answer?.accepted().unwrap_or(0), event?))
    };
    if stay {
        let (both, never) = join(inputs, endless(&ctx, &ledger, "busy")).await;
        never?;
        return both;
    }
    inputs.await
}

fn tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| builder.tool(tool("t", &ledger, works))
}

const SOON: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn answers_and_events_from_another_process_reach_the_owner_at_once() {
    let place = Place::new();
    for stay in [true, false] {
        let ledger = Ledger::default();
        let owner = place.start(tools(&ledger));
        let front = place.start(|builder| builder);
        let id = front.tasks().start("t", &stay).even_if_unserved().await.unwrap().id;
        let asked = front.until(&id, Status::InputRequired).await;
        assert_eq!(asked.questions.len(), 1);
        settle().await;
        let before = tokio::time::Instant::now();
        front.tasks().answer(&id, "q", accept(1)).await.unwrap();
        front.tasks().signal(&id, Event::new("go", &2)).await.unwrap();
        ledger.has("got both").await;
        assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
        if !stay {
            assert_eq!(output::<(u32, u32)>(&front.end(&id).await), (1, 2));
        }
        owner.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_suspend_and_resume_from_another_process_reach_the_owner_at_once() {
    let place = Place::new();
    let ledger = Ledger::default();
    let owner = place.start(tools(&ledger));
    let front = place.start(|builder| builder);
    let id = owner.begin("t", true).await;
    ledger.has("busy").await;
    front.tasks().suspend(&id, None).await.unwrap();
    front.tasks().answer(&id, "q", accept(1)).await.unwrap();
    settle().await;
    assert_eq!(owner.get(&id).await.status, Status::Suspended);
    front.tasks().resume(&id).await.unwrap();
    settle().await;
    assert!(!owner.get(&id).await.status.is_halted());
    front.tasks().cancel(&id, None).await.unwrap();
    let before = tokio::time::Instant::now();
    assert_eq!(owner.end(&id).await.status, Status::Cancelled);
    assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_one_process_sees_the_end_in_another_at_once() {
    let place = Place::new();
    let ledger = Ledger::default();
    let owner = place.start(tools(&ledger));
    let front = place.start(|builder| builder);
    let id = owner.begin("t", false).await;
    owner.parked(&id).await;
    owner.tasks().answer(&id, "q", accept(1)).await.unwrap();
    owner.tasks().signal(&id, Event::new("go", &2)).await.unwrap();
    let before = tokio::time::Instant::now();
    assert_eq!(output::<(u32, u32)>(&front.end(&id).await), (1, 2));
    assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn when_a_process_dies_another_goes_on_with_its_tasks() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(tools(&ledger));
    let id = first.begin("t", true).await;
    ledger.has("busy").await;
    let second = place.start(tools(&ledger));
    settle().await;
    assert_eq!(ledger.count("busy"), 1, "while its owner lives nobody else runs it");
    first.kill().await;
    let before = tokio::time::Instant::now();
    crate::support::when(|| ledger.count("busy") == 2).await;
    assert!(before.elapsed() <= Duration::from_secs(1), "{:?}", before.elapsed());
    second.tasks().answer(&id, "q", accept(1)).await.unwrap();
    second.tasks().signal(&id, Event::new("go", &2)).await.unwrap();
    ledger.has("got both").await;
}

#[tokio::test(start_paused = true)]
async fn two_processes_share_the_work_and_no_step_runs_twice() {
    let place = Place::new();
    let ledger = Ledger::default();
    async fn three(ledger: Ledger, ctx: Context, n: u32) -> Result<u32> {
        for round in 0..3 {
            counted(&ctx, &ledger, &format!("{n} {round}")).await?;
            ctx.sleep(Duration::from_secs(1)).await;
        }
        Ok(n)
    }
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, three));
    let lives = [place.start(tools), place.start(tools)];
    let mut ids = Vec::new();
    for n in 0..30 {
        ids.push(lives[n % 2].begin("t", n).await);
    }
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(output::<usize>(&lives[(n + 1) % 2].end(id).await), n);
        for round in 0..3 {
            assert_eq!(ledger.count(&format!("{n} {round}")), 1);
        }
    }
}

async fn long(ledger: Ledger, ctx: Context, minutes: u64) -> Result<()> {
    ctx.step("long", || async {
        ledger.add("begun");
        tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
        Ok::<_, Error>(ledger.add("ended"))
    })
    .await?;
    counted(&ctx, &ledger, "after").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_steps_in_flight_end_and_starts_nothing_new() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, long));
    let first = place.start(tools);
    let id = first.begin("t", 5).await;
    ledger.has("begun").await;
    assert!(first.engine.shutdown(HOUR).await, "everything in flight had ended");
    assert_eq!(ledger.lines(), ["begun", "ended"], "the next step was not started");
    let refused = first.tasks().start("t", &1).await;
    assert!(matches!(refused, Err(CallError::ShuttingDown)), "{refused:?}");
    let second = place.start(tools);
    second.end(&id).await;
    assert_eq!(ledger.lines(), ["begun", "ended", "after"], "the step's result was kept");
}

#[tokio::test(start_paused = true)]
async fn shutdown_hands_back_what_is_not_done_by_its_deadline() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, long));
    let first = place.start(tools);
    let second = place.start(tools);
    let id = first.begin("t", 60).await;
    ledger.has("begun").await;
    let before = tokio::time::Instant::now();
    assert!(!first.engine.shutdown(Duration::from_secs(10)).await);
    assert_eq!(before.elapsed().as_secs(), 10);
    // The other process takes it at once; the first, which still exists, does nothing more.
    crate::support::when(|| ledger.count("begun") == 2).await;
    assert!(before.elapsed() < Duration::from_secs(11));
    second.end(&id).await;
    assert_eq!(ledger.count("ended"), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdowns_count_as_no_deaths() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, long));
    let mut life = place.start(tools);
    let id = life.begin("t", 60).await;
    for turn in 1..=8 {
        crate::support::when(|| ledger.count("begun") == turn).await;
        life.engine.shutdown(Duration::ZERO).await;
        life = place.start(tools);
    }
    assert_eq!(life.end(&id).await.status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_is_handed_over_by_a_shutdown() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(tools(&ledger));
    let id = first.begin("t", false).await;
    first.until(&id, Status::InputRequired).await;
    assert!(first.engine.shutdown(HOUR).await);
    let second = place.start(tools(&ledger));
    second.tasks().answer(&id, "q", accept(1)).await.unwrap();
    second.tasks().signal(&id, Event::new("go", &2)).await.unwrap();
    assert_eq!(output::<(u32, u32)>(&second.end(&id).await), (1, 2));
}

/// A step, an activity and a wait, each of which takes a while.
async fn all_kinds(ledger: Ledger, ctx: Context, what: String) -> Result<u32> {
    counted(&ctx, &ledger, "recorded").await?;
    match what.as_str() {
        "step" => {
            let step = ctx.step("step", || async {
                tokio::time::sleep(HOUR).await;
                Ok::<_, Error>(1)
            });
            step.await
        }
        "activity" => ctx.activity("long", &()).await,
        _ => ctx.event("go").await,
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_on_the_handle_of_one_that_was_dropped_goes_on_with_its_tasks() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| {
        builder.tool(tool("t", &ledger, all_kinds)).activity(
            "long",
            |_: ActivityContext, (): ()| async {
                tokio::time::sleep(HOUR).await;
                Ok(1)
            },
        )
    };
    let Life { engine, store } = place.start(tools);
    let mut ids = Vec::new();
    for what in ["step", "activity", "event"] {
        ids.push(engine.tasks(ada()).start("t", what).await.unwrap().id);
    }
    when(|| ledger.count("recorded") == 3).await;
    drop(engine);
    let life = place.start_on(store.clone(), store, settings(), tools);
    life.tasks().signal(&ids[2], Event::new("go", &1)).await.unwrap();
    for id in &ids {
        assert_eq!(output::<u32>(&life.end(id).await), 1);
    }
    assert_eq!(ledger.count("recorded"), 3);
}
