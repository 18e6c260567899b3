//! Effect validation: functions are run again from their own history.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use steadfast_engine::{
    ActivityContext, Builder, Context, Either, Error, Event, Result, Retry, Scope, Settings,
    Status, TaskId, Timestamp, Tool, join, join_all, race,
};

use crate::{
    effects::{found, validating},
    support::{HOUR, Ledger, Life, Place, accept, output, tool, within},
};

type Counter = Arc<AtomicU64>;

/// Something else each time, by the ways that code goes astray.
fn astray(counter: &Counter, by: &str) -> u64 {
    match by {
        "time" => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
        "chance" => RandomState::new().hash_one(1),
        "order" => {
            let map: HashMap<u64, ()> = (0..1_000).map(|n| (n, ())).collect();
            map.into_keys().take(20).fold(0, |all, n| all * 3 + n)
        }
        _ => counter.fetch_add(1, Ordering::Relaxed),
    }
}

async fn step(ctx: &Context, name: &str) -> Result<()> {
    ctx.step(name, || async { Ok::<_, Error>(()) }).await
}

async fn strays(counter: Counter, ctx: Context, by: String) -> Result<()> {
    step(&ctx, "first").await?;
    ctx.sleep(HOUR).await;
    step(&ctx, &format!("chosen {}", astray(&counter, &by))).await?;
    step(&ctx, "last").await
}

#[tokio::test(start_paused = true)]
async fn a_function_that_chooses_by_something_outside_is_reported_with_both_operations() {
    let place = Place::new();
    let tools = |builder: Builder| builder.tool(tool("t", &Counter::default(), strays));
    let life = place.start_with(validating(), tools);
    for by in ["time", "chance", "order", "a counter"] {
        let message = found(&life, "t", by).await.message;
        assert_eq!(message.matches("step \"chosen ").count(), 2, "{by}: {message}");
        assert!(message.contains("tool \"t\"") && message.contains("operation #2"), "{message}");
        assert!(message.contains("ctx.random()"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_switch_a_function_runs_once() {
    let place = Place::new();
    let counter = Counter::default();
    let life = place.start(|builder| builder.tool(tool("t", &counter, endings)));
    life.run("t", "output").await;
    assert_eq!(counter.load(Ordering::Relaxed), 1);
}

/// Asks for the same operation with something else.
async fn argues(counter: Counter, ctx: Context, what: String) -> Result<()> {
    let n = astray(&counter, "a counter");
    match what.as_str() {
        "timer" => ctx.sleep_until(Timestamp(0).plus(Duration::from_secs(n))).await,
        "activity" => ctx.activity("work", &[n]).await?,
        "child" => ctx.child("child", &n).await?,
        "id" => drop(
            ctx.child::<()>("child", &1).id(TaskId::new(format!("child-{n}"))?).detach().await?,
        ),
        "state" => ctx.state(Scope::Task).set("key", &n).await?,
        "removal" if n.is_multiple_of(2) => ctx.state(Scope::Task).remove("key").await?,
        "removal" => ctx.state(Scope::Task).set("key", &1).await?,
        "event" => ctx.send_event(ctx.task_id(), "name", &n).await?,
        "question" => drop(ctx.ask::<bool>(format!("{n}?")).answer().await?),
        "deadline" => {
            drop(ctx.ask::<bool>("?").deadline(Duration::from_secs(n)).answer().await?);
        }
        "undo" => {
            let step = ctx.step("step", || async { Ok::<_, Error>(()) });
            step.undo("work", &[n]).await?;
        }
        _ => unreachable!(),
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_asked_for_with_something_else_is_reported() {
    let place = Place::new();
    let life = place.start_with(validating(), |builder| {
        builder
            .tool(tool("t", &Counter::default(), argues))
            .tool(Tool::new("child", |_: Context, _: u64| async { Ok(()) }))
            .activity("work", |_: ActivityContext, _: Vec<u64>| async { Ok(()) })
    });
    for (what, says) in [
        ("timer", "timer as operation #0, but until another time"),
        ("activity", "activity \"work\" as operation #0, but with another input, different at /0"),
        ("child", "child task \"child\" as operation #0, but with another input"),
        ("id", "child task \"child\" as operation #0, but with another id"),
        ("state", "state write \"task/key\" as operation #0, but with another value"),
        ("removal", "state write \"task/key\" as operation #0, but with value only once"),
        ("event", "signal sent \"name\" as operation #0, but with another payload"),
        ("question", "question as operation #0, but with another message"),
        ("deadline", "question as operation #0, but with another deadline"),
        ("undo", "step \"step\" as operation #0, but with another input of its undo function"),
    ] {
        let failure = found(&life, "t", what).await;
        assert!(failure.message.contains(says), "{what}: {failure}");
        assert!(failure.detail.is_some() || what == "removal", "{what}: {failure:?}");
    }
}

/// Ends in another way each time.
async fn endings(counter: Counter, ctx: Context, how: String) -> Result<u64> {
    if how != "at once" {
        step(&ctx, "first").await?;
    }
    // The code comes here twice: when it returns, and when that is run again.
    let n = astray(&counter, "a counter");
    let second = n % 2 == 1;
    match how.as_str() {
        "error" => Err(Error::new(format!("error {n}"))),
        "either" if second => Err(Error::new("an error")),
        "panic" if second => panic!("at {n}"),
        "anew" => ctx.continue_as_new(&format!("anew {n}")),
        "more" if second => ctx.event("more").await,
        _ => Ok(n),
    }
}

#[tokio::test(start_paused = true)]
async fn another_end_is_reported() {
    for (how, says) in [
        ("at once", "had another result the second time"),
        ("output", "had another result the second time, different as a whole"),
        ("error", "failed the first time with \"error 0\" and the second time with \"error 1\""),
        ("either", "failed the second, with \"an error\""),
        ("panic", "panicked the second time"),
        ("anew", "continued as new with another input"),
        ("more", "asked first for no operation #1, and the second time for signal \"more\""),
    ] {
        let place = Place::new();
        let tools = |builder: Builder| builder.tool(tool("t", &Counter::default(), endings));
        let life = place.start_with(validating(), tools);
        let failure = found(&life, "t", how).await;
        assert!(failure.message.contains(says), "{how}: {failure}");
    }
}

/// Nobody else does it: a queue that is changed in a closure, which a replay does not run.
#[tokio::test(start_paused = true)]
async fn what_a_closure_hands_to_the_function_by_the_back_door_is_reported() {
    let place = Place::new();
    let life = place.start_with(validating(), |builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let mut taken = None;
            let take = |queue: Option<Vec<u32>>| {
                taken = Some(7);
                queue.unwrap_or_default()
            };
            ctx.state(Scope::Task).update("queue", take).await?;
            Ok(taken)
        }))
    });
    let failure = found(&life, "t", ()).await;
    assert!(failure.message.contains("another result"), "{failure}");
    assert_eq!(failure.detail.as_deref(), Some("7, then null"));
}

/// Everything at once, in order: a task that bears to be run again.
async fn everything(ledger: Ledger, ctx: Context, run: u32) -> Result<(u32, Vec<String>)> {
    let did = |name: &'static str| {
        let ledger = ledger.clone();
        ctx.step(name, move || {
            ledger.add(name);
            async move { Ok::<_, Error>(name.to_owned()) }
        })
    };
    ctx.status("working");
    let mut said = vec![did("first").undo("undo", "first").await?];
    if ctx.version("more", 2) >= 2 {
        said.push(ctx.uuid());
        said.push(format!("{} {:?}", ctx.random(), ctx.now()));
    }
    let once = did("once").at_most_once().await;
    said.push(once.unwrap_or_else(|error| format!("cut off: {}", error.is_unfinished())));
    let flaky = ctx.step("flaky", |attempt: steadfast_engine::Attempt| async move {
        if attempt.number() < 2 { Err(Error::new("not yet")) } else { Ok(attempt.number()) }
    });
    said.push(flaky.retry(Retry::exponential()).await?.to_string());
    ctx.progress(1.0, Some(2.0), None);
    let state = ctx.state(Scope::Task);
    state.set("n", &run).await?;
    let n: Option<u32> = state.get("n").await?;
    let m: u32 = state.update("n", |n: Option<u32>| n.unwrap_or(0) + 1).await?;
    said.push(format!("{n:?} {m}"));
    let branches = [("a", 30), ("b", 10), ("c", 20)].map(|(name, pause)| {
        let (ctx, did) = (&ctx, &did);
        async move {
            let name = did(name).await?;
            ctx.sleep(Duration::from_millis(pause)).await;
            Ok::<_, Error>(name)
        }
    });
    let (branches, won) = join(join_all(branches), race(ctx.sleep(HOUR), did("winner"))).await;
    said.extend(branches.into_iter().collect::<Result<Vec<_>>>()?);
    said.push(match won {
        Either::Left(()) => "the hour".into(),
        Either::Right(name) => name?,
    });
    let lost = race(ctx.child::<u32>("child", &99), ctx.sleep(Duration::from_millis(5)));
    said.push(matches!(lost.await, Either::Right(())).to_string());
    let (child, work) = join(ctx.child::<u32>("child", &1), ctx.activity::<u32>("work", &2)).await;
    said.push(format!("{} {}", child?, work?));
    ctx.child::<u32>("child", &3).detach().await?;
    ctx.send_event(ctx.task_id(), "to myself", &5).await?;
    said.push(ctx.event::<u32>("to myself").await?.to_string());
    let late = ctx.ask::<bool>("Late?").deadline(Duration::from_millis(30)).await;
    said.push(late.is_err_and(|error| error.is_timeout()).to_string());
    let asked = ctx.ask::<bool>("Go on?").key("go").data(&run);
    said.push(format!("{:?}", asked.await?.accepted()));
    let (set, met) = join(
        async {
            ctx.sleep(Duration::from_millis(20)).await;
            state.set("flag", &true).await
        },
        state.wait_until("flag", |flag: Option<&bool>| flag == Some(&true)),
    )
    .await;
    set?;
    said.push(format!("{:?}", met?));
    state.remove("flag").await?;
    if run == 0 {
        return ctx.continue_as_new(&1);
    }
    Ok((run, said))
}

fn all(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        builder
            .tool(tool("all", &ledger, everything))
            .tool(Tool::new("child", |ctx: Context, n: u32| async move {
                ctx.sleep(Duration::from_millis(10) * n).await;
                Ok(n)
            }))
            .activity("work", |_: ActivityContext, n: u32| async move { Ok(n) })
            .activity("undo", |_: ActivityContext, _: String| async { Ok(()) })
    }
}

/// Answers what the task asks, until it ends.
async fn through(life: &Life, id: &TaskId) -> steadfast_engine::TaskInfo {
    within(async {
        loop {
            let info = life.get(id).await;
            if info.status.is_terminal() {
                return info;
            }
            for question in info.questions.iter().filter(|q| q.key.starts_with("go")) {
                // It may have been answered in the last life.
                let _ = life.tasks().answer(id, &question.key, accept(true)).await;
            }
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_task_with_everything_in_it_passes_and_nothing_of_it_runs_more_than_twice() {
    let staying = Settings { park_after: HOUR, ..validating() };
    for settings in [staying, validating()] {
        let (place, ledger) = (Place::new(), Ledger::default());
        let life = place.start_with(settings, all(&ledger));
        let id = life.begin("all", 0).await;
        let (run, said): (u32, Vec<String>) = output(&through(&life, &id).await);
        assert_eq!((run, said.len()), (1, 16), "{said:?}");
        for name in ["first", "a", "b", "c", "winner"] {
            assert_eq!(ledger.count(name), 4, "twice in each of two runs: {name}");
        }
        assert_eq!(ledger.count("once"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_with_everything_in_it_passes_wherever_the_process_dies() {
    for death in 0..40 {
        let (place, ledger) = (Place::new(), Ledger::default());
        let first = place.start_with(validating(), all(&ledger));
        let id = first.begin("all", 0).await;
        let _ = tokio::time::timeout(Duration::from_millis(11) * death, through(&first, &id)).await;
        first.kill().await;
        let second = place.start_with(validating(), all(&ledger));
        let info = through(&second, &id).await;
        assert_eq!(info.status, Status::Completed, "death at {death}: {info:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_from_outside_and_a_loop_without_end_pass() {
    let place = Place::new();
    let life = place.start_with(validating(), |builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let mut sum = 0;
            while sum < 300 {
                match race(ctx.event::<u32>("number"), ctx.sleep(HOUR)).await {
                    Either::Left(n) => sum += n?,
                    Either::Right(()) => step(&ctx, "idle").await?,
                }
            }
            Ok(sum)
        }))
    });
    let id = life.begin("t", ()).await;
    for n in 0..300 {
        life.tasks().signal(&id, Event::new("number", &1)).await.unwrap();
        if n % 50 == 0 {
            tokio::time::sleep(HOUR * 3).await;
        }
    }
    assert_eq!(output::<u32>(&life.end(&id).await), 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_that_was_refused_and_computed_anew_passes() {
    let place = Place::new();
    let start = || {
        place.start_with(validating(), |builder| {
            builder.tool(Tool::new("adds", |ctx: Context, times: u32| async move {
                let mut last = 0;
                for _ in 0..times {
                    let add = |old: Option<u32>| old.unwrap_or(0) + 1;
                    last = ctx.state(Scope::Global).update("sum", add).await?;
                }
                Ok(last)
            }))
        })
    };
    let lives = [start(), start()];
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(lives[n % 2].begin("adds", 5).await);
    }
    for id in &ids {
        output::<u32>(&lives[0].end(id).await);
    }
    assert_eq!(output::<u32>(&lives[1].run("adds", 1).await), 101);
}
