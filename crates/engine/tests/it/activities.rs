//! Activities: registered functions that any worker process may run.

use std::time::Duration;

use steadfast_engine::{
    ActivityContext, Builder, Context, Error, FailureKind, Result, Retry, Settings, Status, Tool,
    join,
};

use crate::support::{HOUR, Ledger, Place, endless, output, settings, settle, tool, when};

/// A task that waits for the activity "work" with the given policy.
async fn calls(retry: Option<Retry>, ctx: Context, input: u32) -> Result<u32> {
    match retry {
        Some(retry) => ctx.activity("work", &input).retry(retry).await,
        None => ctx.activity("work", &input).await,
    }
}

/// The same, with heartbeats every ten seconds.
async fn beats(_: (), ctx: Context, input: u32) -> Result<u32> {
    ctx.activity("work", &input).heartbeat(Duration::from_secs(10)).await
}

fn caller(builder: Builder) -> Builder {
    builder.tool(tool("t", &None, calls))
}

fn beating(builder: Builder) -> Builder {
    builder.tool(tool("t", &(), beats))
}

/// A worker that notes its attempt and never ends, but for the attempt named.
fn stalls(ledger: &Ledger, until: u32) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let ledger = ledger.clone();
        builder.activity("work", move |activity: ActivityContext, input: u32| {
            let ledger = ledger.clone();
            async move {
                ledger.add(&format!("{} {}", activity.attempt(), activity.key()));
                if activity.attempt() < until {
                    activity.cancelled().cancelled().await;
                    ledger.add("told");
                    std::future::pending::<()>().await;
                }
                Ok(input * 2)
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn an_activity_runs_in_another_process_than_its_task() {
    let place = Place::new();
    let ledger = Ledger::default();
    let caller = place.start(caller);
    let id = caller.begin("t", 21).await;
    caller.parked(&id).await;
    let worker = place.start(stalls(&ledger, 0));
    assert_eq!(output::<u32>(&caller.end(&id).await), 42);
    assert_eq!(ledger.lines(), [format!("1 {id}:activity:0:0")]);
    drop(worker);
}

#[tokio::test(start_paused = true)]
async fn an_activity_without_a_policy_is_tried_once_and_its_error_comes_back() {
    let place = Place::new();
    let ledger = Ledger::default();
    let counted = ledger.clone();
    let life = place.start(|builder| {
        caller(builder).activity("work", move |_: ActivityContext, _: u32| {
            counted.add("work");
            async { Err::<u32, _>(Error::new("no paper").code("paper").data(&"tray 2")) }
        })
    });
    let info = life.run("t", 1).await;
    assert_eq!(info.status, Status::Failed);
    let failure = info.failure.unwrap();
    assert_eq!((failure.message.as_str(), failure.code.as_deref()), ("no paper", Some("paper")));
    assert_eq!(failure.data.unwrap().text(), "\"tray 2\"");
    assert_eq!(ledger.count("work"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retried_activity_shows_its_error_and_waits_over_a_restart() {
    let place = Place::new();
    let ledger = Ledger::default();
    let retry = Some(Retry::exponential().attempts(3).first_delay(HOUR));
    let tools = |builder: Builder| {
        let ledger = ledger.clone();
        builder.tool(tool("t", &retry, calls)).activity(
            "work",
            move |a: ActivityContext, n: u32| {
                ledger.add(&format!("attempt {}", a.attempt()));
                async move { if a.attempt() < 3 { Err(Error::new("not yet")) } else { Ok(n) } }
            },
        )
    };
    let first = place.start(tools);
    let id = first.begin("t", 7).await;
    let shown = first.until(&id, Status::Retrying).await;
    assert_eq!(shown.failure.unwrap().message, "not yet");
    assert!(shown.retry_at.is_some());
    first.kill().await;
    let second = place.start(tools);
    assert_eq!(output::<u32>(&second.end(&id).await), 7);
    assert_eq!(ledger.lines(), ["attempt 1", "attempt 2", "attempt 3"]);
}

#[tokio::test(start_paused = true)]
async fn codes_decide_which_errors_of_an_activity_are_retried() {
    let place = Place::new();
    let ledger = Ledger::default();
    let counted = ledger.clone();
    let life = place.start(|builder| {
        let retry = Some(Retry::forever().only(["busy"]));
        builder.tool(tool("t", &retry, calls)).activity(
            "work",
            move |a: ActivityContext, _: u32| {
                counted.add("work");
                let code = if a.attempt() < 3 { "busy" } else { "broken" };
                async move { Err::<u32, _>(Error::new("no").code(code)) }
            },
        )
    });
    let info = life.run("t", 1).await;
    assert_eq!(info.failure.unwrap().code.as_deref(), Some("broken"));
    assert_eq!(ledger.count("work"), 3);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_at_an_activity_that_takes_too_long_fails_as_timed_out() {
    let place = Place::new();
    let life = place.start(|builder| {
        let retry = Some(Retry::never().timeout(Duration::from_secs(5)));
        builder
            .tool(tool("t", &retry, calls))
            .activity("work", |_: ActivityContext, _: u32| std::future::pending::<Result<u32>>())
    });
    let info = life.run("t", 1).await;
    assert_eq!(info.failure.unwrap().kind, FailureKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn when_the_worker_dies_another_takes_the_activity_over() {
    let place = Place::new();
    let ledger = Ledger::default();
    let caller = place.start(caller);
    let first = place.start(stalls(&ledger, 2));
    let id = caller.begin("t", 21).await;
    let key = format!("{id}:activity:0:0");
    ledger.has(&format!("1 {key}")).await;
    first.kill().await;
    let _second = place.start(stalls(&ledger, 2));
    assert_eq!(output::<u32>(&caller.end(&id).await), 42);
    assert_eq!(ledger.lines(), [format!("1 {key}"), format!("2 {key}")]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_activity_is_taken_over_by_another_worker_and_the_first_is_told() {
    let place = Place::new();
    let ledger = Ledger::default();
    let caller = place.start(beating);
    // Too full to take it back itself.
    let full = Settings { max_activities: 1, ..settings() };
    let first = place.start_with(full, stalls(&ledger, 2));
    let id = caller.begin("t", 21).await;
    ledger.has(&format!("1 {id}:activity:0:0")).await;
    let _second = place.start(stalls(&ledger, 2));
    assert_eq!(output::<u32>(&caller.end(&id).await), 42);
    when(|| ledger.count("told") == 1).await;
    assert_eq!(ledger.count(&format!("2 {id}:activity:0:0")), 1);
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_silent_activity_is_taken_over_by_its_own_worker_too() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| stalls(&ledger, 2)(beating(builder)));
    let id = life.begin("t", 21).await;
    assert_eq!(output::<u32>(&life.end(&id).await), 42);
    settle().await;
    assert_eq!(ledger.count("told"), 1, "the attempt that was given up learns of it");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_an_activity_with_its_worker() {
    let place = Place::new();
    let ledger = Ledger::default();
    let counted = ledger.clone();
    let life = place.start(|builder| {
        beating(builder).activity("work", move |activity: ActivityContext, input: u32| {
            counted.add("work");
            async move {
                for _ in 0..20 {
                    tokio::time::sleep(Duration::from_secs(9)).await;
                    activity.heartbeat().await;
                }
                Ok(input)
            }
        })
    });
    assert_eq!(output::<u32>(&life.run("t", 5).await), 5);
    assert_eq!(ledger.count("work"), 1);
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_task_tells_its_activity_at_once() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| stalls(&ledger, 9)(caller(builder)));
    let id = life.begin("t", 1).await;
    ledger.has(&format!("1 {id}:activity:0:0")).await;
    let before = tokio::time::Instant::now();
    life.tasks().cancel(&id, None).await.unwrap();
    ledger.has("told").await;
    assert!(before.elapsed() < Duration::from_millis(50), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_task_tells_an_activity_in_another_process_at_once() {
    let place = Place::new();
    let ledger = Ledger::default();
    let caller = place.start(caller);
    let _worker = place.start(stalls(&ledger, 9));
    let id = caller.begin("t", 1).await;
    ledger.has(&format!("1 {id}:activity:0:0")).await;
    let before = tokio::time::Instant::now();
    caller.tasks().cancel(&id, None).await.unwrap();
    ledger.has("told").await;
    assert!(before.elapsed() < Duration::from_millis(50), "{:?}", before.elapsed());
}

struct OnDrop(Ledger);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_does_not_heed_its_token_is_dropped_after_the_grace() {
    let place = Place::new();
    let ledger = Ledger::default();
    let counted = ledger.clone();
    let life = place.start(|builder| {
        caller(builder).activity("work", move |_: ActivityContext, _: u32| {
            let held = OnDrop(counted.clone());
            counted.add("work");
            async move {
                let _held = held;
                std::future::pending::<Result<u32>>().await
            }
        })
    });
    let id = life.begin("t", 1).await;
    ledger.has("work").await;
    life.tasks().cancel(&id, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(ledger.count("dropped"), 0, "it has five seconds to clean up");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(ledger.count("dropped"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_kills_every_worker_fails_in_the_end() {
    let place = Place::new();
    let ledger = Ledger::default();
    let caller = place.start(caller);
    let id = caller.begin("t", 1).await;
    for attempt in 1..=5 {
        let worker = place.start(stalls(&ledger, u32::MAX));
        ledger.has(&format!("{attempt} {id}:activity:0:0")).await;
        worker.kill().await;
    }
    let _last = place.start(stalls(&ledger, u32::MAX));
    let info = caller.end(&id).await;
    let failure = info.failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Limit, "{failure:?}");
    assert_eq!(ledger.lines().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn no_more_activities_run_at_once_than_the_settings_allow() {
    let place = Place::new();
    let ledger = Ledger::default();
    let counted = ledger.clone();
    let settings = Settings { max_activities: 3, ..settings() };
    let life = place.start_with(settings, |builder| {
        caller(builder).activity("work", move |_: ActivityContext, input: u32| {
            let ledger = counted.clone();
            async move {
                let begun = ledger.add("begun");
                let running = begun - ledger.count("ended");
                assert!(running <= 3, "{running} at once");
                tokio::time::sleep(Duration::from_secs(1)).await;
                ledger.add("ended");
                Ok(input)
            }
        })
    });
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(life.begin("t", n).await);
    }
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(output::<usize>(&life.end(id).await), n);
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_comes_when_it_is_due_also_while_its_task_stays_in_memory() {
    let place = Place::new();
    let ledger = Ledger::default();
    let (steps, attempts) = (ledger.clone(), ledger.clone());
    let life = place.start(|builder| {
        let tool = Tool::new("t", move |ctx: Context, (): ()| {
            let ledger = steps.clone();
            async move {
                let retry = Retry::exponential().first_delay(Duration::from_secs(5));
                let work = ctx.activity::<u32>("work", &()).retry(retry);
                join(work, endless(&ctx, &ledger, "busy")).await.0
            }
        });
        builder.tool(tool).activity("work", move |_: ActivityContext, (): ()| {
            let attempt = attempts.add("attempt");
            async move { if attempt < 3 { Err(Error::new("not yet")) } else { Ok(attempt) } }
        })
    });
    life.begin("t", ()).await;
    let before = tokio::time::Instant::now();
    when(|| ledger.count("attempt") == 3).await;
    assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
}
