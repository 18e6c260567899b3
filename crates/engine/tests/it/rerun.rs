//! Running a task again from one of its steps.

use steadfast_engine::{
    ActivityContext, Builder, CallError, Context, Error, OpId, RerunFrom, Result, Status,
};

use crate::support::{Ledger, Place, counted, output, tool};

/// Three steps, of which the last two share a name, around an activity.
async fn order(ledger: Ledger, ctx: Context, n: u32) -> Result<(u32, u32, u32, u32)> {
    let validate = counted(&ctx, &ledger, "validate").await?;
    let price = ctx.activity::<u32>("price", &n).await?;
    let first = counted(&ctx, &ledger, "ship").await?;
    if ledger.count("repaired") == 0 {
        return Err(Error::new("the ship sank"));
    }
    let second = counted(&ctx, &ledger, "ship").await?;
    Ok((validate, price, first, second))
}

fn tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let noted = ledger.clone();
        builder.tool(tool("order", &ledger, order)).activity(
            "price",
            move |_: ActivityContext, n: u32| {
                noted.add("price");
                async move { Ok(n * 10) }
            },
        )
    }
}

fn step(name: &str, occurrence: usize) -> RerunFrom {
    RerunFrom::Step { name: name.into(), occurrence }
}

#[tokio::test(start_paused = true)]
async fn a_rerun_keeps_the_results_before_the_step_and_runs_on_from_it() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let start = life.tasks().start("order", &4).tag("team", "blue");
    let id = start.await.unwrap().id;
    assert_eq!(life.end(&id).await.status, Status::Failed);
    ledger.add("repaired");
    let again = life.tasks().rerun(&id, step("ship", 1)).await.unwrap().id;
    let info = life.end(&again).await;
    assert_eq!(output::<(u32, u32, u32, u32)>(&info), (1, 40, 2, 3));
    assert_eq!((ledger.count("validate"), ledger.count("price")), (1, 1));
    assert_eq!(info.rerun_of, Some(id.clone()));
    assert_eq!((info.tags["team"].as_str(), info.owner), ("blue", Some(crate::support::ada())));
    let old = life.get(&id).await;
    assert_eq!((old.status, old.rerun_of), (Status::Failed, None), "the old task stays as it is");
}

#[tokio::test(start_paused = true)]
async fn a_rerun_from_a_later_occurrence_an_activity_or_the_start() {
    let place = Place::new();
    let ledger = Ledger::default();
    ledger.add("repaired");
    let life = place.start(tools(&ledger));
    let id = life.run("order", 4).await.id;
    let cases = [
        (step("ship", 2), (1, 40, 1, 3)),
        (step("price", 1), (1, 40, 4, 5)),
        (RerunFrom::Operation(OpId(2)), (1, 40, 6, 7)),
        (RerunFrom::Start, (2, 40, 8, 9)),
    ];
    for (from, result) in cases {
        let again = life.tasks().rerun(&id, from.clone()).await.unwrap().id;
        let info = life.end(&again).await;
        assert_eq!(output::<(u32, u32, u32, u32)>(&info), result, "{from:?}");
    }
    assert_eq!(ledger.count("price"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_rerun_from_a_step_that_is_not_there_is_an_error() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let id = life.run("order", 4).await.id;
    for from in [step("shop", 1), step("ship", 2), RerunFrom::Operation(OpId(9))] {
        let refused = life.tasks().rerun(&id, from.clone()).await;
        assert!(matches!(refused, Err(CallError::NoSuchStep { .. })), "{from:?}: {refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rerun_goes_on_over_a_restart_with_keys_of_its_own() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(tools(&ledger));
    let id = first.run("order", 4).await.id;
    ledger.add("repaired");
    let again = first.tasks().rerun(&id, step("ship", 1)).await.unwrap().id;
    assert_ne!(again, id);
    first.kill().await;
    let second = place.start(tools(&ledger));
    let (validate, price, ..): (u32, u32, u32, u32) = output(&second.end(&again).await);
    assert_eq!((validate, price), (1, 40));
}
