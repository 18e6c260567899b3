//! Tasks that can't go on by themselves: set aside, visible, resumed after a fix.

use std::time::Duration;

use steadfast_engine::{
    Builder, Context, Error, FailureKind, Result, Scope, Settings, Status, Tool,
};

use crate::support::{HOUR, Ledger, Life, Place, counted, endless, output, settings, tool};

async fn before(ledger: Ledger, ctx: Context, (): ()) -> Result<u32> {
    counted(&ctx, &ledger, "charge").await?;
    ctx.sleep(HOUR).await;
    counted(&ctx, &ledger, "ship").await
}

async fn changed(ledger: Ledger, ctx: Context, (): ()) -> Result<u32> {
    counted(&ctx, &ledger, "refund").await?;
    ctx.sleep(HOUR).await;
    counted(&ctx, &ledger, "ship").await
}

async fn shorter(_: Ledger, _: Context, (): ()) -> Result<u32> {
    Ok(0)
}

async fn reordered(ledger: Ledger, ctx: Context, (): ()) -> Result<u32> {
    counted(&ctx, &ledger, "charge").await?;
    ctx.state(Scope::Task).get::<u32>("n").await?;
    counted(&ctx, &ledger, "ship").await
}

async fn set_aside(place: &Place, ledger: &Ledger, bad: Tool, named: [&str; 2]) {
    let good = |builder: Builder| builder.tool(tool("t", ledger, before));
    let first = place.start(good);
    let id = first.begin("t", ()).await;
    first.parked(&id).await;
    first.kill().await;
    let second = place.start(|builder| builder.tool(bad));
    let stuck = second.until(&id, Status::Stuck).await;
    let failure = stuck.failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Usage);
    for name in named {
        assert!(failure.message.contains(name), "{name:?} is not in {failure}");
    }
    second.kill().await;
    let third = place.start(good);
    tokio::time::sleep(HOUR * 2).await;
    assert_eq!(third.get(&id).await.status, Status::Stuck, "it waits for somebody");
    third.tasks().resume(&id).await.unwrap();
    let ended = third.end(&id).await;
    assert_eq!(ended.failure, None);
    assert_eq!(ledger.lines(), ["charge", "ship"], "nothing of the wrong code ran");
}

#[tokio::test(start_paused = true)]
async fn another_step_than_recorded_names_both_and_resume_goes_on_after_the_fix() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let bad = tool("t", &ledger, changed);
    set_aside(&place, &ledger, bad, ["step \"charge\"", "step \"refund\""]).await;
}

#[tokio::test(start_paused = true)]
async fn an_end_before_what_is_recorded_is_noticed() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let bad = tool("t", &ledger, shorter);
    set_aside(&place, &ledger, bad, ["step \"charge\"", "the end of the code"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_operation_of_another_kind_is_noticed() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let bad = tool("t", &ledger, reordered);
    set_aside(&place, &ledger, bad, ["timer", "state read \"task/n\""]).await;
}

async fn careless(ctx: Context, how: String) -> Result<u32> {
    let pause = Duration::from_millis(5);
    match how.as_str() {
        "nothing open" => tokio::time::sleep(pause).await,
        "something open" => {
            let outside = async {
                tokio::time::sleep(pause).await;
                ctx.step("after", || async { Ok::<_, Error>(1) }).await
            };
            steadfast_engine::join(ctx.sleep(HOUR), outside).await.1?;
        }
        _ => {
            ctx.step("outer", || async { ctx.step("inner", || async { Ok::<_, Error>(1) }).await })
                .await?;
        }
    }
    Ok(1)
}

async fn until_stuck(life: &Life, how: &str) -> String {
    let id = life.begin("t", how).await;
    let stuck = life.until(&id, Status::Stuck).await;
    stuck.failure.unwrap().message
}

#[tokio::test(start_paused = true)]
async fn an_await_on_something_not_durable_stops_the_task_and_says_so() {
    let place = Place::new();
    let life = place.start(|builder| builder.tool(Tool::new("t", careless)));
    let told = until_stuck(&life, "nothing open").await;
    assert!(told.contains("not durable"), "{told}");
    let told = until_stuck(&life, "something open").await;
    assert!(told.contains("not durable") && told.contains("step \"after\""), "{told}");
    let told = until_stuck(&life, "nested").await;
    assert!(
        told.contains("step \"inner\"") && told.contains("inside the step \"outer\""),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_fix_resume_goes_on_behind_an_await_that_was_not_durable() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let bad = place.start(|builder| {
        builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
            let ledger = noted.clone();
            async move {
                counted(&ctx, &ledger, "first").await?;
                tokio::time::sleep(HOUR).await;
                counted(&ctx, &ledger, "second").await
            }
        }))
    });
    let id = bad.begin("t", ()).await;
    bad.until(&id, Status::Stuck).await;
    bad.kill().await;
    let noted = ledger.clone();
    let fixed = place.start(|builder| {
        builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
            let ledger = noted.clone();
            async move {
                counted(&ctx, &ledger, "first").await?;
                ctx.sleep(HOUR).await;
                counted(&ctx, &ledger, "second").await
            }
        }))
    });
    fixed.tasks().resume(&id).await.unwrap();
    assert_eq!(output::<u32>(&fixed.end(&id).await), 1);
    assert_eq!(ledger.lines(), ["first", "second"]);
}

async fn deadly(ledger: Ledger, ctx: Context, (): ()) -> Result<u32> {
    counted(&ctx, &ledger, "harmless").await?;
    endless(&ctx, &ledger, "deadly").await?;
    Ok(1)
}

/// Lets processes die over the task, each while it is at the deadly step.
async fn deaths(place: &Place, ledger: &Ledger, count: u32) {
    for _ in 0..count {
        let before = ledger.count("deadly");
        let life = place.start(|builder| builder.tool(tool("t", ledger, deadly)));
        crate::support::when(|| ledger.count("deadly") > before).await;
        life.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_five_processes_died_over_is_set_aside_until_it_is_resumed() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(|builder| builder.tool(tool("t", &ledger, deadly)));
    let id = first.begin("t", ()).await;
    ledger.has("deadly").await;
    first.kill().await;
    deaths(&place, &ledger, 4).await;
    let life = place.start(|builder| builder.tool(tool("t", &ledger, deadly)));
    let stuck = life.until(&id, Status::Stuck).await;
    assert!(stuck.failure.unwrap().message.contains("5 processes died"));
    crate::support::settle().await;
    assert_eq!(ledger.count("deadly"), 5);
    life.kill().await;
    let fixed = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            ctx.step("harmless", || async { Ok::<_, Error>(1u32) }).await?;
            ctx.step("deadly", || async { Ok::<_, Error>(()) }).await?;
            Ok(2)
        }))
    });
    fixed.tasks().resume(&id).await.unwrap();
    assert_eq!(output::<u32>(&fixed.end(&id).await), 2);
}

async fn creeps(ledger: Ledger, ctx: Context, (): ()) -> Result<u32> {
    for round in 0..9 {
        counted(&ctx, &ledger, &format!("round {round}")).await?;
        if ledger.count(&format!("pause {round}")) == 0 {
            endless(&ctx, &ledger, &format!("pause {round}")).await?;
        } else {
            let step = format!("pause {round}");
            ctx.step(step, || async { Ok::<_, Error>(()) }).await?;
        }
    }
    Ok(9)
}

#[tokio::test(start_paused = true)]
async fn a_task_that_makes_progress_between_deaths_is_never_set_aside() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, creeps));
    let mut life = place.start(tools);
    let id = life.begin("t", ()).await;
    for round in 0..9 {
        ledger.has(&format!("pause {round}")).await;
        life.kill().await;
        life = place.start(tools);
    }
    assert_eq!(output::<u32>(&life.end(&id).await), 9);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_deaths_is_a_setting() {
    let place = Place::new();
    let ledger = Ledger::default();
    let start = || {
        let settings = Settings { poison_deaths: 1, ..settings() };
        place.start_with(settings, |builder| builder.tool(tool("t", &ledger, deadly)))
    };
    let first = start();
    let id = first.begin("t", ()).await;
    ledger.has("deadly").await;
    first.kill().await;
    start().until(&id, Status::Stuck).await;
}
