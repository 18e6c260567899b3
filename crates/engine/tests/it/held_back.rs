//! A task that is suspended, cancelled or drained in the moment in which it begins again.

use std::time::Duration;

use steadfast_engine::{Builder, Context, Result, Status, join};

use crate::support::{
    HOUR, Ledger, Place, accept, counted, endless, output, settle, staying, tool, within,
};

/// Two runs of two steps each.
pub(crate) async fn two_runs(ledger: Ledger, ctx: Context, run: u32) -> Result<u32> {
    for step in ["one", "two"] {
        counted(&ctx, &ledger, &format!("{step} of run {run}")).await?;
    }
    if run == 1 { ctx.continue_as_new(&2) } else { Ok(run) }
}

const FIRST_RUN: [&str; 2] = ["one of run 1", "two of run 1"];
const BOTH_RUNS: [&str; 4] = ["one of run 1", "two of run 1", "one of run 2", "two of run 2"];

#[tokio::test(start_paused = true)]
async fn a_suspend_while_a_task_begins_anew_is_not_forgotten() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, two_runs));
    let (life, gates) = place.start_slow(staying(), tools);
    let anew = gates.hold_after(1, "turn");
    let id = life.begin("t", 1).await;
    anew.came().await;
    life.tasks().suspend(&id, Some("lunch".into())).await.unwrap();
    settle().await;
    anew.pass();
    settle().await;
    let info = life.get(&id).await;
    assert_eq!((info.status, info.reason.as_deref()), (Status::Suspended, Some("lunch")));
    assert_eq!(ledger.lines(), FIRST_RUN);
    life.parked(&id).await;
    life.tasks().resume(&id).await.unwrap();
    assert_eq!(output::<u32>(&life.end(&id).await), 2);
    assert_eq!(ledger.lines(), BOTH_RUNS);
}

#[tokio::test(start_paused = true)]
async fn a_task_suspended_and_resumed_while_it_begins_anew_goes_on() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, two_runs));
    let (life, gates) = place.start_slow(staying(), tools);
    let anew = gates.hold_after(1, "turn");
    let id = life.begin("t", 1).await;
    anew.came().await;
    life.tasks().suspend(&id, None).await.unwrap();
    settle().await;
    let handed_back = gates.hold("park");
    anew.pass();
    handed_back.came().await;
    life.tasks().resume(&id).await.unwrap();
    settle().await;
    handed_back.pass();
    assert_eq!(output::<u32>(&life.end(&id).await), 2);
    assert_eq!(ledger.lines(), BOTH_RUNS);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_while_a_task_begins_anew_starts_nothing_new() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, two_runs));
    let (life, gates) = place.start_slow(staying(), tools);
    let anew = gates.hold_after(1, "turn");
    let id = life.begin("t", 1).await;
    anew.came().await;
    let engine = life.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown(HOUR).await });
    settle().await;
    anew.pass();
    assert!(within(shutdown).await.unwrap(), "it did not wait for its deadline");
    assert_eq!(ledger.lines(), FIRST_RUN);
    let life = place.start(tools);
    assert_eq!(output::<u32>(&life.end(&id).await), 2);
    assert_eq!(ledger.lines(), BOTH_RUNS);
}

/// Notes when it comes and when it goes.
struct Held(Ledger);

impl Held {
    fn new(ledger: &Ledger) -> Held {
        ledger.add("held");
        Held(ledger.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

/// A step, and one that never ends.
pub(crate) async fn busy(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    counted(&ctx, &ledger, "first").await?;
    let _held = Held::new(&ledger);
    endless(&ctx, &ledger, "busy").await
}

/// A second run with a step that never ends.
async fn busy_anew(ledger: Ledger, ctx: Context, run: u32) -> Result<()> {
    if run == 1 {
        return ctx.continue_as_new(&2);
    }
    let _held = Held::new(&ledger);
    endless(&ctx, &ledger, "busy").await
}

#[tokio::test(start_paused = true)]
async fn a_cancel_while_a_task_begins_anew_stops_it() {
    for written in [false, true] {
        let place = Place::new();
        let ledger = Ledger::default();
        let tools = |builder: Builder| builder.tool(tool("t", &ledger, busy_anew));
        let (life, gates) = place.start_slow(staying(), tools);
        let anew = gates.hold("turn");
        let id = life.begin("t", 1).await;
        anew.came().await;
        if written {
            anew.write();
            settle().await;
        }
        // Nobody runs in between: the answer and the news come to the task at the same time.
        life.tasks().cancel(&id, None).await.unwrap();
        anew.pass();
        settle().await;
        assert_eq!(life.get(&id).await.status, Status::Cancelled);
        assert_eq!(ledger.count("held"), ledger.count("dropped"), "written: {written}");
    }
}

/// A turn whose outcome is not known makes the task read itself anew; meanwhile it is told
/// something.
#[tokio::test(start_paused = true)]
async fn a_suspend_while_a_turn_is_lost_is_not_forgotten() {
    for happened in [false, true] {
        let place = Place::new();
        let ledger = Ledger::default();
        let tools = |builder: Builder| builder.tool(tool("t", &ledger, two_runs));
        let (life, gates) = place.start_slow(staying(), tools);
        let turn = gates.hold("turn");
        let id = life.begin("t", 2).await;
        turn.came().await;
        life.tasks().suspend(&id, None).await.unwrap();
        settle().await;
        if happened {
            turn.lose()
        } else {
            turn.vanish()
        }
        settle().await;
        assert_eq!(life.get(&id).await.status, Status::Suspended);
        assert_eq!(ledger.lines(), ["one of run 2"]);
        life.parked(&id).await;
        life.tasks().resume(&id).await.unwrap();
        assert_eq!(output::<u32>(&life.end(&id).await), 2);
        assert_eq!(ledger.count("one of run 2"), if happened { 1 } else { 2 });
        assert_eq!(ledger.count("two of run 2"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_while_a_turn_is_lost_starts_nothing_new() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, two_runs));
    let (life, gates) = place.start_slow(staying(), tools);
    let turn = gates.hold("turn");
    let id = life.begin("t", 2).await;
    turn.came().await;
    let engine = life.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown(HOUR).await });
    settle().await;
    turn.lose();
    assert!(within(shutdown).await.unwrap(), "it did not wait for its deadline");
    assert_eq!(ledger.lines(), ["one of run 2"]);
    let life = place.start(tools);
    assert_eq!(output::<u32>(&life.end(&id).await), 2);
    assert_eq!(ledger.lines(), ["one of run 2", "two of run 2"]);
}

/// Asks after a step, and does another meanwhile.
async fn asks(ledger: Ledger, ctx: Context, (): ()) -> Result<u32> {
    counted(&ctx, &ledger, "first").await?;
    let work = async {
        ctx.sleep(Duration::from_millis(1)).await;
        counted(&ctx, &ledger, "step").await
    };
    let (answer, done) = join(ctx.ask::<u32>("?").key("q"), work).await;
    done?;
    Ok(answer?.accepted().unwrap_or(0))
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_handed_back_before_it_begins_looks_as_it_did() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, asks));
    let (life, gates) = place.start_slow(staying(), tools);
    let id = life.begin("t", ()).await;
    life.until(&id, Status::InputRequired).await;
    let turn = gates.hold_after(1, "turn");
    turn.came().await;
    let engine = life.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown(HOUR).await });
    settle().await;
    turn.lose();
    assert!(within(shutdown).await.unwrap());
    let front = place.start(|builder| builder);
    assert_eq!(front.get(&id).await.status, Status::InputRequired);
    let life = place.start(tools);
    life.tasks().answer(&id, "q", accept(5)).await.unwrap();
    assert_eq!(output::<u32>(&life.end(&id).await), 5);
    assert_eq!(ledger.count("step"), 1);
}

/// Steps that are over at once, and many of them.
async fn hurries(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    for _ in 0..5_000 {
        counted(&ctx, &ledger, "step").await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_task_that_never_waits_lets_others_run_and_hears_of_its_suspend() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| builder.tool(tool("t", &ledger, hurries)));
    let id = life.begin("t", ()).await;
    while ledger.count("step") == 0 {
        tokio::task::yield_now().await;
    }
    life.tasks().suspend(&id, None).await.unwrap();
    settle().await;
    assert_eq!(life.get(&id).await.status, Status::Suspended);
    life.tasks().resume(&id).await.unwrap();
    life.end(&id).await;
    assert_eq!(ledger.count("step"), 5_000);
}

#[tokio::test(start_paused = true)]
async fn a_suspend_or_a_cancel_while_a_task_is_read_anew_is_not_forgotten() {
    for cancel in [false, true] {
        let place = Place::new();
        let ledger = Ledger::default();
        let tools = |builder: Builder| builder.tool(tool("t", &ledger, busy));
        let (life, gates) = place.start_slow(staying(), tools);
        let turn = gates.hold("turn");
        let read = gates.hold("history");
        let id = life.begin("t", ()).await;
        turn.came().await;
        turn.lose();
        read.came().await;
        read.write();
        if cancel {
            life.tasks().cancel(&id, None).await.unwrap();
        } else {
            life.tasks().suspend(&id, None).await.unwrap();
        }
        read.pass();
        settle().await;
        assert_eq!(ledger.count("first"), 1);
        if cancel {
            assert_eq!(ledger.count("held"), ledger.count("dropped"));
        } else {
            // A step may have begun in that moment, and is left to end.
            assert_eq!(life.get(&id).await.status, Status::Suspended);
        }
    }
}
