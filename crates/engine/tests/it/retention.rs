//! How long tasks are kept.

use std::time::Duration;

use steadfast_engine::{
    Builder, CallError, Context, Event, Result, Settings, Status, TaskId, Timestamp, Tool, Ttl,
};

use crate::support::{HOUR, Life, Place, days, settings, within};

async fn waits(ctx: Context, wait: bool) -> Result<()> {
    if wait { ctx.event("go").await } else { Ok(()) }
}

fn tools(builder: Builder) -> Builder {
    builder.tool(Tool::new("t", waits))
}

/// Looks for the dead and for the expired once an hour: weeks pass here.
fn slow() -> Settings {
    Settings { look_for_dead_every: HOUR, sweep_every: HOUR, ..settings() }
}

async fn gone(life: &Life, id: &TaskId) {
    let refused = life.tasks().get(id).await;
    assert!(matches!(refused, Err(CallError::Unknown(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_kept_seven_days_after_it_ends_and_then_removed() {
    let place = Place::new();
    let life = place.start_with(slow(), tools);
    let ended = life.run("t", false).await;
    assert_eq!(ended.expires, Some(ended.ended.unwrap().plus(days(7))));
    tokio::time::sleep(days(7) - HOUR).await;
    assert_eq!(life.get(&ended.id).await.status, Status::Completed);
    tokio::time::sleep(HOUR * 3).await;
    gone(&life, &ended.id).await;
    assert!(life.engine.operator().counts().await.unwrap().is_empty(), "the store is empty again");
}

#[tokio::test(start_paused = true)]
async fn a_task_past_its_time_is_expired_until_it_is_removed() {
    let place = Place::new();
    let sweeps = Settings { sweep_every: days(30), ..slow() };
    let life = place.start_with(sweeps, |builder| {
        builder.tool(Tool::new("t", waits).retention(Duration::from_secs(60)))
    });
    let ended = life.run("t", false).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    let id = &ended.id;
    let calls = [
        life.tasks().get(id).await.map(drop),
        life.tasks().wait(id).await.map(drop),
        life.tasks().cancel(id, None).await,
        life.tasks().signal(id, Event::new("go", &())).await,
        life.tasks().purge(id).await,
    ];
    for refused in calls {
        assert!(matches!(refused, Err(CallError::Expired(_))), "{refused:?}");
    }
    assert!(life.tasks().list(Default::default()).await.unwrap().tasks.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_running_task_does_not_expire() {
    let place = Place::new();
    let life = place.start_with(slow(), |builder| {
        builder.tool(Tool::new("t", waits).retention(Duration::from_secs(1)))
    });
    let started = life.tasks().start("t", &true).ttl(Duration::from_secs(60)).await.unwrap();
    tokio::time::sleep(days(60)).await;
    let seen = life.get(&started.id).await;
    assert_eq!((seen.status, seen.expires), (Status::Waiting, None));
    life.tasks().signal(&started.id, Event::new("go", &())).await.unwrap();
    let ended = life.end(&started.id).await;
    assert_eq!(ended.expires, Some(ended.ended.unwrap().plus(Duration::from_secs(60))));
}

#[tokio::test(start_paused = true)]
async fn a_task_older_than_its_tool_allows_is_cancelled_and_then_kept() {
    let place = Place::new();
    let life = place.start_with(slow(), |builder| {
        builder.tool(Tool::new("t", waits).max_age(days(1)).retention(days(3)))
    });
    let id = life.begin("t", true).await;
    tokio::time::sleep(days(1) + HOUR * 2).await;
    let seen = life.get(&id).await;
    assert_eq!(seen.status, Status::Cancelled);
    assert!(seen.reason.unwrap().contains("older than its tool allows"));
    assert_eq!(seen.expires, Some(seen.ended.unwrap().plus(days(3))));
}

#[tokio::test(start_paused = true)]
async fn a_task_cancelled_for_its_age_tells_its_activity_at_once() {
    let place = Place::new();
    let ledger = crate::support::Ledger::default();
    let noted = ledger.clone();
    let life = place.start_with(slow(), |builder| {
        let calls = |ctx: Context, (): ()| async move { ctx.activity::<()>("work", &()).await };
        builder.tool(Tool::new("t", calls).max_age(HOUR)).activity(
            "work",
            move |activity: steadfast_engine::ActivityContext, (): ()| {
                let ledger = noted.clone();
                async move {
                    activity.cancelled().cancelled().await;
                    ledger.add("told");
                    Ok(())
                }
            },
        )
    });
    let id = life.begin("t", ()).await;
    let old = tokio::time::sleep(HOUR + Duration::from_secs(1));
    old.await;
    let cancelled = async {
        while !matches!(life.tasks().get(&id).await, Ok(info) if info.status == Status::Cancelled) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    within(cancelled).await;
    let before = tokio::time::Instant::now();
    ledger.has("told").await;
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_callers_ttl_is_raised_to_the_tools_and_cut_to_the_cap() {
    let place = Place::new();
    let life = place.start_with(Settings { max_retention: Ttl::days(30), ..slow() }, |builder| {
        tools(builder).tool(Tool::new("long", waits).retention(Ttl::days(20)))
    });
    let kept = async |tool: &str, ttl: Ttl| {
        let id = life.tasks().start(tool, &false).ttl(ttl).await.unwrap().id;
        let ended = life.end(&id).await;
        ended.ended.unwrap().until(ended.expires.unwrap())
    };
    assert_eq!(kept("t", Ttl::Millis(60_000)).await, Duration::from_secs(60));
    assert_eq!(kept("long", Ttl::Millis(60_000)).await, days(20));
    assert_eq!(kept("t", Ttl::days(25)).await, days(25));
    for much in [Ttl::days(400), Ttl::Millis(u64::MAX), Ttl::Forever] {
        assert_eq!(kept("t", much).await, days(30), "{much:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lifetimes_of_any_size_never_remove_a_task_early() {
    let place = Place::new();
    let settings = Settings { max_retention: Ttl::Forever, ..slow() };
    let life = place.start_with(settings, tools);
    // 2^31 milliseconds are under 25 days: a timer of 32 bits would overflow.
    for millis in [1 << 31, 1 << 32, 1 << 40, i64::MAX as u64, u64::MAX] {
        let start = life.tasks().start("t", &false).ttl(Ttl::Millis(millis));
        let id = start.await.unwrap().id;
        let ended = life.end(&id).await;
        let from = ended.ended.unwrap();
        assert!(ended.expires.is_none_or(|at| at >= Timestamp(from.0 + (1 << 31))), "{millis}");
        tokio::time::sleep(HOUR * 2).await;
        assert_eq!(life.get(&id).await.status, Status::Completed, "{millis}");
    }
    let forever = life.tasks().start("t", &false).ttl(Ttl::Forever).await.unwrap().id;
    assert_eq!(life.end(&forever).await.expires, None);
}

#[tokio::test(start_paused = true)]
async fn the_sweeper_removes_many_at_once() {
    let place = Place::new();
    let life = place.start_with(slow(), tools);
    for _ in 0..1_300 {
        life.begin("t", false).await;
    }
    tokio::time::sleep(days(7) + HOUR * 2).await;
    assert!(life.engine.operator().counts().await.unwrap().is_empty());
}
