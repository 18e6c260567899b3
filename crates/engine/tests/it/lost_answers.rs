//! Calls whose answers are lost, whether they happened or not.

use std::time::Duration;

use steadfast_engine::{
    ActivityContext, Builder, CallError, Compensation, Context, Error, Event, Result, Retry, Scope,
    Settings, Status, TaskId, join,
};

use crate::{
    slow::Gate,
    support::{HOUR, Ledger, Place, counted, endless, output, settings, settle, tool},
};

/// Some of everything that a turn asks of the world.
async fn everything(ledger: Ledger, ctx: Context, (): ()) -> Result<u32> {
    counted(&ctx, &ledger, "step").await?;
    ctx.activity::<()>("work", &()).await?;
    ctx.child::<()>("child", &()).await?;
    let state = ctx.state(Scope::Task);
    let sum: u32 = state.update("sum", |sum: Option<u32>| sum.unwrap_or(0) + 1).await?;
    let listener: TaskId = TaskId::new("listener")?;
    ctx.send_event(&listener, "done", &sum).await?;
    counted(&ctx, &ledger, "last").await?;
    Ok(sum)
}

async fn child(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    counted(&ctx, &ledger, "child").await?;
    Ok(())
}

/// Stays in memory until it is told that all is done.
async fn listens(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    let told = async {
        let sum: u32 = ctx.event("done").await?;
        counted(&ctx, &ledger, &format!("heard {sum}")).await
    };
    let (told, never) = join(told, endless(&ctx, &ledger, "listening")).await;
    told?;
    never
}

fn tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let noted = ledger.clone();
        let tools = builder
            .tool(tool("everything", &ledger, everything))
            .tool(tool("child", &ledger, child))
            .tool(tool("listens", &ledger, listens));
        tools.activity("work", move |_: ActivityContext, (): ()| {
            noted.add("work");
            async {
                // Long enough for its task to be parked.
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(())
            }
        })
    }
}

/// Loses the answer to the turn of this number. False if there is no such turn any more.
async fn lose_turn(number: usize, call: &'static str, happened: bool) -> bool {
    let which = format!("{call} {number}, happened: {happened}");
    let place = Place::new();
    let ledger = Ledger::default();
    let (life, gates) = place.start_slow(settings(), tools(&ledger));
    let listener = TaskId::new("listener").unwrap();
    life.tasks().start("listens", &()).id(listener).await.unwrap();
    settle().await;
    let turn = gates.hold_after(number, call);
    if happened {
        turn.lose()
    } else {
        turn.vanish()
    }
    let info = life.run("everything", ()).await;
    assert_eq!(output::<u32>(&info), 1, "{which}");
    ledger.has("heard 1").await;
    settle().await;
    let steps = ["step", "child", "last", "heard 1"];
    let again: u32 = steps.iter().map(|step| ledger.count(step) - 1).sum();
    // A step that was recorded does not run again.
    assert!(again <= u32::from(!happened), "{which}: {:?}", ledger.lines());
    assert_eq!(ledger.count("work"), 1, "{which}");
    turn.has_come()
}

#[tokio::test(start_paused = true)]
async fn a_task_goes_on_when_the_outcome_of_any_of_its_turns_is_not_known() {
    for (call, at_least) in [("turn", 7), ("park", 1)] {
        for happened in [false, true] {
            let mut number = 0;
            while lose_turn(number, call, happened).await {
                number += 1;
            }
            assert!(number >= at_least, "{number} times {call}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_answer_is_lost_runs() {
    let place = Place::new();
    let ledger = Ledger::default();
    let settings = Settings { max_running: 1, ..settings() };
    let (life, gates) = place.start_slow(settings, tools(&ledger));
    settle().await;
    for happened in [true, false] {
        let start = gates.hold("start");
        if happened {
            start.lose()
        } else {
            start.vanish()
        }
        let id = TaskId::new(format!("lost-{happened}")).unwrap();
        let lost = life.tasks().start("child", &()).id(id.clone()).await;
        assert!(matches!(lost, Err(CallError::Store(_))), "{lost:?}");
        if happened {
            assert_eq!(life.end(&id).await.status, Status::Completed);
        } else {
            let unknown = life.tasks().get(&id).await;
            assert!(matches!(unknown, Err(CallError::Unknown(_))), "{unknown:?}");
        }
        assert_eq!(ledger.count("child"), 1);
    }
    // Its place was given back.
    assert_eq!(life.run("child", ()).await.status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_claim_took_is_taken_up_again() {
    let place = Place::new();
    let ledger = Ledger::default();
    let (life, gates) = place.start_slow(settings(), tools(&ledger));
    let listener = TaskId::new("listener").unwrap();
    life.tasks().start("listens", &()).id(listener).await.unwrap();
    settle().await;
    for (call, count) in [("claim", 1), ("claim_activities", 2)] {
        let later = life.tasks().start("everything", &()).delay(Duration::from_secs(60));
        let id = later.await.unwrap().id;
        // So that it is this task, or its activity, that is claimed and nobody hears of it.
        tokio::time::sleep(Duration::from_secs(59)).await;
        let claim = gates.hold(call);
        claim.lose();
        assert_eq!(output::<u32>(&life.end(&id).await), 1);
        assert!(claim.has_come());
        assert_eq!((ledger.count("step"), ledger.count("work")), (count, count));
    }
}

/// Notes when it is dropped.
struct OnDrop(Ledger);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

/// A step and an activity that never end.
async fn busy(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    let _held = OnDrop(ledger.clone());
    let step = endless(&ctx, &ledger, "busy");
    join(step, ctx.activity::<()>("endless", &())).await.0
}

fn busy_tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let noted = ledger.clone();
        let builder = builder.tool(tool("busy", &ledger, busy));
        builder.activity("endless", move |activity: ActivityContext, (): ()| {
            let ledger = noted.clone();
            async move {
                ledger.add("working");
                activity.cancelled().cancelled().await;
                ledger.add("told");
                Ok(())
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_whose_answer_is_lost_stops_the_work() {
    let place = Place::new();
    let ledger = Ledger::default();
    let (life, gates) = place.start_slow(settings(), busy_tools(&ledger));
    let id = life.begin("busy", ()).await;
    ledger.has("busy").await;
    ledger.has("working").await;
    settle().await;
    let cancel = gates.hold("cancel");
    cancel.lose();
    let lost = life.tasks().cancel(&id, None).await;
    assert!(matches!(lost, Err(CallError::Store(_))), "{lost:?}");
    settle().await;
    assert_eq!(life.get(&id).await.status, Status::Cancelled);
    assert_eq!((ledger.count("dropped"), ledger.count("told")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_is_lost_reaches_a_task_in_memory() {
    // Also if the look at what it did fails at first.
    for look in [None, Some(0), Some(1)] {
        let place = Place::new();
        let ledger = Ledger::default();
        let (life, gates) = place.start_slow(settings(), tools(&ledger));
        let id = life.begin("listens", ()).await;
        ledger.has("listening").await;
        settle().await;
        let send = gates.hold("send");
        send.lose();
        let _denied = look.map(|skip| gates.hold_after(skip, "held")).inspect(Gate::fail);
        let lost = life.tasks().signal(&id, Event::new("done", &1)).await;
        assert!(matches!(lost, Err(CallError::Store(_))), "{lost:?}");
        ledger.has("heard 1").await;
    }
}

async fn two_steps(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    let long = ctx.step("long", || async {
        ledger.add("long");
        tokio::time::sleep(HOUR).await;
        Ok::<_, Error>(())
    });
    long.await?;
    counted(&ctx, &ledger, "last").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_suspended_task_whose_look_at_itself_fails_looks_again() {
    let place = Place::new();
    let ledger = Ledger::default();
    let (life, gates) =
        place.start_slow(settings(), |builder| builder.tool(tool("t", &ledger, two_steps)));
    let id = life.begin("t", ()).await;
    ledger.has("long").await;
    settle().await;
    let look = gates.hold("row");
    look.fail();
    life.tasks().suspend(&id, None).await.unwrap();
    tokio::time::sleep(HOUR * 2).await;
    assert!(look.has_come());
    assert_eq!(life.get(&id).await.status, Status::Suspended);
    assert_eq!(ledger.lines(), ["long"]);
}

/// A step with an undo function, and then it fails.
async fn fails(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    ctx.step("do", || async { Ok::<_, Error>(ledger.add("do")) }).undo("undo", &()).await?;
    Err(Error::new("changed our minds"))
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_whose_last_turn_is_lost_is_taken_back() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let (life, gates) = place.start_slow(settings(), |builder| {
        builder.tool(tool("t", &ledger, fails)).activity(
            "undo",
            move |_: ActivityContext, (): ()| {
                noted.add("undo");
                async { Ok(()) }
            },
        )
    });
    settle().await;
    let last = gates.hold_after(1, "turn");
    last.lose();
    // Others look at what may have happened before the task itself has.
    let look = gates.hold("row");
    let id = life.begin("t", ()).await;
    look.came().await;
    settle().await;
    look.pass();
    assert_eq!(life.end(&id).await.status, Status::Failed);
    settle().await;
    assert_eq!(life.get(&id).await.compensation, Some(Compensation::Done));
    assert_eq!(ledger.lines(), ["do", "undo"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_turn_asked_for_is_done_also_if_the_task_was_cancelled_before_the_answer() {
    let place = Place::new();
    let ledger = Ledger::default();
    async fn sends(_: (), ctx: Context, (): ()) -> Result<()> {
        ctx.send_event(&TaskId::new("listener")?, "done", &1).await?;
        ctx.event("never").await
    }
    let (life, gates) =
        place.start_slow(settings(), |b| tools(&ledger)(b).tool(tool("sends", &(), sends)));
    let listener = TaskId::new("listener").unwrap();
    life.tasks().start("listens", &()).id(listener).await.unwrap();
    settle().await;
    let turn = gates.hold("turn");
    let id = life.begin("sends", ()).await;
    turn.came().await;
    turn.write();
    settle().await;
    life.tasks().cancel(&id, None).await.unwrap();
    ledger.has("heard 1").await;
}

/// Waits for an activity; in memory if it is to.
async fn calls(ledger: Ledger, ctx: Context, stay: bool) -> Result<u32> {
    let work = async {
        let result = ctx.activity::<u32>("count", &()).retry(Retry::exponential()).await?;
        counted(&ctx, &ledger, &format!("got {result}")).await
    };
    if !stay {
        return work.await;
    }
    let (got, never) = join(work, endless(&ctx, &ledger, "busy")).await;
    got?;
    never.map(|()| 0)
}

/// An activity that counts itself, and succeeds at the given count.
fn counts(ledger: &Ledger, until: u32) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let noted = ledger.clone();
        builder.tool(tool("calls", &ledger, calls)).activity(
            "count",
            move |_: ActivityContext, (): ()| {
                let count = noted.add("count");
                async move {
                    // Long enough for its task to be parked.
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    if count < until { Err(Error::new("not yet")) } else { Ok(count) }
                }
            },
        )
    }
}

#[tokio::test(start_paused = true)]
async fn an_activity_whose_end_gets_no_answer_is_not_run_again_and_its_task_gets_the_result_once() {
    for end in [Gate::lose, Gate::vanish, Gate::fail] {
        for stay in [false, true] {
            let place = Place::new();
            let ledger = Ledger::default();
            let (life, gates) = place.start_slow(settings(), counts(&ledger, 1));
            let gate = gates.hold("end_activity");
            end(&gate);
            life.begin("calls", stay).await;
            ledger.has("got 1").await;
            settle().await;
            assert_eq!((ledger.count("count"), ledger.count("got 1")), (1, 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_an_activity_that_gets_no_answer_happens_once() {
    for retry in [Gate::lose, Gate::vanish, Gate::fail] {
        for stay in [false, true] {
            let place = Place::new();
            let ledger = Ledger::default();
            let (life, gates) = place.start_slow(settings(), counts(&ledger, 2));
            let gate = gates.hold("retry_activity");
            retry(&gate);
            life.begin("calls", stay).await;
            let before = tokio::time::Instant::now();
            ledger.has("got 2").await;
            assert!(before.elapsed() < HOUR, "{:?}", before.elapsed());
            settle().await;
            assert_eq!((ledger.count("count"), ledger.count("got 2")), (2, 1));
        }
    }
}

/// Falls silent at its first attempt.
async fn beats(_: (), ctx: Context, (): ()) -> Result<u32> {
    ctx.activity("silent", &()).heartbeat(Duration::from_secs(10)).await
}

fn silent_at_first(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let noted = ledger.clone();
        builder.tool(tool("t", &(), beats)).activity(
            "silent",
            move |activity: ActivityContext, (): ()| {
                let first = noted.add("attempt") == 1;
                async move {
                    if first {
                        activity.cancelled().cancelled().await;
                    }
                    Ok(activity.attempt())
                }
            },
        )
    }
}

#[tokio::test(start_paused = true)]
async fn an_activity_taken_from_a_silent_worker_by_a_lost_claim_is_taken_up_again() {
    let place = Place::new();
    let ledger = Ledger::default();
    let (life, gates) = place.start_slow(settings(), silent_at_first(&ledger));
    let id = life.begin("t", ()).await;
    ledger.has("attempt").await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    let claim = gates.hold("claim_activities");
    claim.lose();
    let attempt: u32 = output(&life.end(&id).await);
    assert!(attempt > 1 && claim.has_come());
    assert_eq!(ledger.count("attempt"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_first_heartbeat_was_not_taken_is_still_found_silent() {
    for beat in [Gate::fail, Gate::lose, Gate::vanish] {
        let place = Place::new();
        let ledger = Ledger::default();
        let (life, gates) = place.start_slow(settings(), silent_at_first(&ledger));
        let gate = gates.hold("beat_activity");
        beat(&gate);
        assert_eq!(output::<u32>(&life.run("t", ()).await), 2);
        assert!(gate.has_come());
    }
}
