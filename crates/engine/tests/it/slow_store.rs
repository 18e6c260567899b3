//! What happens to a task while the store takes its time.

use std::time::Duration;

use steadfast_engine::{
    Builder, Context, Error, Event, Result, Scope, Settings, Status, TaskId, join,
};

use crate::{
    held_back::{busy, two_runs},
    support::{
        HOUR, Ledger, Life, Place, counted, endless, output, settings, settle, staying, tool,
        within,
    },
};

async fn signal(life: &Life, id: &TaskId, number: u32) {
    life.tasks().signal(id, Event::new("number", &number)).await.unwrap();
}

async fn collects(_: (), ctx: Context, count: usize) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        numbers.push(ctx.event("number").await?);
    }
    Ok(numbers)
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_sent_again_does_not_take_a_later_message_along() {
    let place = Place::new();
    let tools = |builder: Builder| builder.tool(tool("t", &(), collects));
    let (life, gates) = place.start_slow(staying(), tools);
    let id = life.begin("t", 3).await;
    settle().await;
    let first = gates.hold("turn");
    let again = gates.hold("turn");
    let second = gates.hold("turn");
    signal(&life, &id, 1).await;
    first.came().await;
    signal(&life, &id, 2).await;
    settle().await;
    first.fail();
    again.came().await;
    again.pass();
    second.came().await;
    // It dies with the second message applied and its turn not written.
    life.kill().await;
    let life = place.start(tools);
    settle().await;
    signal(&life, &id, 3).await;
    assert_eq!(output::<Vec<u32>>(&life.end(&id).await), [1, 2, 3]);
}

/// Adds up events in a value that others write too.
async fn adds_up(_: (), ctx: Context, count: u32) -> Result<u32> {
    let state = ctx.state(Scope::Owner);
    let mut sum = 0;
    for _ in 0..count {
        let number: u32 = ctx.event("number").await?;
        sum = state.update("sum", |sum: Option<u32>| sum.unwrap_or(0) + number).await?;
    }
    Ok(sum)
}

async fn adds(_: (), ctx: Context, number: u32) -> Result<u32> {
    let state = ctx.state(Scope::Owner);
    state.update("sum", |sum: Option<u32>| sum.unwrap_or(0) + number).await
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_sent_again_without_what_was_refused_does_not_take_a_later_message_along() {
    let place = Place::new();
    let tools =
        |builder: Builder| builder.tool(tool("t", &(), adds_up)).tool(tool("adds", &(), adds));
    let (life, gates) = place.start_slow(staying(), tools);
    let id = life.begin("t", 3).await;
    settle().await;
    let first = gates.hold("turn");
    let guarded = gates.hold("turn");
    signal(&life, &id, 1).await;
    first.came().await;
    signal(&life, &id, 2).await;
    settle().await;
    first.pass();
    // The update for the first event, and the second event with it.
    guarded.came().await;
    life.run("adds", 100).await;
    signal(&life, &id, 3).await;
    settle().await;
    let again = gates.hold("turn");
    let third = gates.hold("turn");
    guarded.pass();
    again.came().await;
    again.pass();
    third.came().await;
    life.kill().await;
    let life = place.start(tools);
    assert_eq!(output::<u32>(&life.end(&id).await), 106);
}

/// Gets an event, perhaps after it was parked; then stays in memory and gets another.
async fn stays(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    let first: u32 = ctx.event("number").await?;
    let more = async {
        let second: u32 = ctx.event("number").await?;
        counted(&ctx, &ledger, &format!("got {first} and {second}")).await
    };
    let (got, never) = join(more, endless(&ctx, &ledger, "busy")).await;
    got?;
    never
}

#[tokio::test(start_paused = true)]
async fn a_message_in_the_moment_in_which_a_task_parks_wakes_it() {
    for written in [false, true] {
        let place = Place::new();
        let ledger = Ledger::default();
        let (life, gates) =
            place.start_slow(settings(), |builder| builder.tool(tool("t", &ledger, stays)));
        let park = gates.hold("park");
        let id = life.begin("t", ()).await;
        park.came().await;
        if written {
            park.write();
            settle().await;
        }
        signal(&life, &id, 1).await;
        if written {
            // The next run has it, while the one before it is not gone yet.
            ledger.has("busy").await;
        }
        park.pass();
        ledger.has("busy").await;
        settle().await;
        signal(&life, &id, 2).await;
        ledger.has("got 1 and 2").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_in_the_moment_in_which_a_task_is_taken_up_is_not_missed() {
    let place = Place::new();
    let ledger = Ledger::default();
    let (life, gates) =
        place.start_slow(settings(), |builder| builder.tool(tool("t", &ledger, stays)));
    let id = life.begin("t", ()).await;
    life.parked(&id).await;
    settle().await;
    let claim = gates.hold("claim");
    signal(&life, &id, 1).await;
    claim.came().await;
    claim.write();
    settle().await;
    // On our desk, and nobody knows of it.
    signal(&life, &id, 2).await;
    claim.pass();
    ledger.has("got 1 and 2").await;
}

#[tokio::test(start_paused = true)]
async fn a_message_told_to_a_run_that_is_leaving_reaches_the_next_one() {
    for parked_first in [false, true] {
        let place = Place::new();
        let ledger = Ledger::default();
        let (life, gates) =
            place.start_slow(settings(), |builder| builder.tool(tool("t", &ledger, stays)));
        let park = gates.hold("park");
        let id = life.begin("t", ()).await;
        park.came().await;
        let claim = gates.hold("claim");
        park.write();
        settle().await;
        signal(&life, &id, 1).await;
        claim.came().await;
        claim.write();
        settle().await;
        // On our desk again, and the only one we know is the run that is leaving.
        signal(&life, &id, 2).await;
        let (first, then) = if parked_first { (park, claim) } else { (claim, park) };
        first.pass();
        settle().await;
        then.pass();
        ledger.has("got 1 and 2").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_stops_also_if_what_is_left_of_it_was_taken_up_first() {
    let place = Place::new();
    let ledger = Ledger::default();
    let (life, gates) =
        place.start_slow(settings(), |builder| builder.tool(tool("t", &ledger, busy)));
    let id = life.begin("t", ()).await;
    ledger.has("busy").await;
    let cancel = gates.hold("cancel");
    let (tasks, wanted) = (life.tasks(), id.clone());
    let canceller = tokio::spawn(async move { tasks.cancel(&wanted, None).await });
    cancel.came().await;
    let claim = gates.hold("claim");
    cancel.write();
    settle().await;
    // A start for later wakes the dispatcher, which finds the cancelled task.
    life.tasks().start("t", &()).delay(HOUR).await.unwrap();
    claim.came().await;
    claim.pass();
    let cleanup = gates.hold("park");
    cleanup.came().await;
    cancel.pass();
    canceller.await.unwrap().unwrap();
    settle().await;
    assert_eq!(ledger.count("dropped"), 1);
    cleanup.pass();
}

#[tokio::test(start_paused = true)]
async fn a_start_that_its_caller_gave_up_still_runs() {
    let place = Place::new();
    let ledger = Ledger::default();
    let (life, gates) =
        place.start_slow(settings(), |builder| builder.tool(tool("t", &ledger, two_runs)));
    for written in [false, true] {
        let start = gates.hold("start");
        let id = TaskId::new(format!("given-up-{written}")).unwrap();
        let given_up = life.tasks().start("t", &2).id(id.clone()).into_future();
        let given_up = tokio::time::timeout(Duration::from_secs(1), given_up);
        if written {
            start.write();
        }
        given_up.await.expect_err("it is held back");
        start.pass();
        settle().await;
        assert_eq!(output::<u32>(&life.end(&id).await), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_lands_after_its_engine_was_dropped_is_run_by_the_next_on_the_handle() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, notes));
    let (life, gates) = place.start_slow(settings(), tools);
    settle().await;
    let start = gates.hold("start");
    let id = TaskId::new("late").unwrap();
    let call = life.tasks().start("t", "late").id(id.clone()).into_future();
    let call = tokio::spawn(call);
    start.came().await;
    let Life { engine, store } = life;
    drop(engine);
    settle().await;
    let next = place.start_on(store.clone(), store, settings(), tools);
    settle().await;
    start.pass();
    call.await.unwrap().unwrap();
    next.end(&id).await;
    assert_eq!(ledger.count("late"), 1);
}

async fn notes(ledger: Ledger, ctx: Context, name: String) -> Result<()> {
    ctx.step("work", || async {
        ledger.add(&name);
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, Error>(())
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_start_runs_at_once_while_a_claim_is_under_way() {
    for max_running in [1_000, 4] {
        let place = Place::new();
        let ledger = Ledger::default();
        let settings = Settings { max_running, ..settings() };
        let (life, gates) =
            place.start_slow(settings, |builder| builder.tool(tool("t", &ledger, notes)));
        settle().await;
        let claim = gates.hold("claim");
        life.tasks().start("t", "later").delay(HOUR).await.unwrap();
        claim.came().await;
        let next = gates.hold("claim");
        for name in ["one", "two"] {
            let id = life.begin("t", name).await;
            assert_eq!(life.get(&id).await.status, Status::Running, "{max_running}");
            life.end(&id).await;
        }
        assert_eq!(ledger.lines(), ["one", "two"]);
        claim.pass();
        settle().await;
        assert!(!next.has_come(), "nothing called for another claim");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_task_does_not_overtake_one_that_queues_although_a_place_is_free() {
    let place = Place::new();
    let ledger = Ledger::default();
    let settings = Settings { max_running: 2, ..settings() };
    let (life, gates) =
        place.start_slow(settings, |builder| builder.tool(tool("t", &ledger, notes)));
    settle().await;
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        ids.push(life.begin("t", name).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The claim that has the first place for the third task is held back; then the second is free.
    let claim = gates.hold("claim");
    claim.came().await;
    life.end(&ids[0]).await;
    life.end(&ids[1]).await;
    let last = life.begin("t", "four").await;
    assert_eq!(life.get(&last).await.status, Status::Queued);
    claim.pass();
    life.end(&last).await;
    assert_eq!(ledger.lines(), ["one", "two", "three", "four"]);
}

/// A step that runs at most once has had its chance when its start is recorded: the process that goes
/// down, or the halt, waits for it.
#[tokio::test(start_paused = true)]
async fn a_step_that_is_recorded_as_begun_is_done_before_its_process_leaves() {
    for suspended in [false, true] {
        let place = Place::new();
        let ledger = Ledger::default();
        let tools = |builder: Builder| {
            builder.tool(tool("t", &ledger, |ledger: Ledger, ctx: Context, (): ()| async move {
                let once = || async { Ok::<_, Error>(ledger.add("once")) };
                ctx.step("once", once).at_most_once().await?;
                counted(&ctx, &ledger, "after").await
            }))
        };
        let (life, gates) = place.start_slow(settings(), tools);
        let begun = gates.hold("turn");
        let id = life.begin("t", ()).await;
        begun.came().await;
        if suspended {
            life.tasks().suspend(&id, None).await.unwrap();
            begun.pass();
            settle().await;
        } else {
            let engine = life.engine.clone();
            let leaving = tokio::spawn(async move { engine.shutdown(HOUR).await });
            settle().await;
            begun.pass();
            assert!(within(leaving).await.unwrap());
        }
        assert_eq!((ledger.count("once"), ledger.count("after")), (1, 0));
        life.kill().await;
        let life = place.start(tools);
        if suspended {
            life.tasks().resume(&id).await.unwrap();
        }
        assert_eq!(output::<u32>(&life.end(&id).await), 1);
        assert_eq!((ledger.count("once"), ledger.count("after")), (1, 1));
    }
}
