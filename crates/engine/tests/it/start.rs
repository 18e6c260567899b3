//! Starting tasks.

use std::time::{Duration, Instant};

use steadfast_engine::{Builder, CallError, Context, ListTasks, Result, Status, TaskId, Tool};

use crate::support::{HOUR, Ledger, Place, bob, counted, output, tool};

async fn counts(ledger: Ledger, ctx: Context, n: u32) -> Result<u32> {
    counted(&ctx, &ledger, "ran").await?;
    Ok(n)
}

fn tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| builder.tool(tool("t", &ledger, counts))
}

#[tokio::test(start_paused = true)]
async fn an_id_of_the_callers_is_used_and_can_not_be_used_twice() {
    let place = Place::new();
    let life = place.start(tools(&Ledger::default()));
    let id = TaskId::new("order/17").unwrap();
    let started = life.tasks().start("t", &1).id(id.clone()).await.unwrap();
    assert_eq!((&started.id, started.new), (&id, true));
    for tasks in [life.tasks(), life.engine.tasks(bob())] {
        let again = tasks.start("t", &2).id(id.clone()).await;
        assert!(matches!(again, Err(CallError::Exists(_))), "{again:?}");
    }
    assert_eq!(output::<u32>(&life.end(&id).await), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_idempotency_key_answers_with_the_first_task_also_after_a_restart() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(|builder| {
        tools(&ledger)(builder).tool(Tool::new("other", |_: Context, n: u32| async move { Ok(n) }))
    });
    let started = first.tasks().start("t", &1).idempotency_key("order 17").await.unwrap();
    assert!(started.new);
    let again = first.tasks().start("t", &2).idempotency_key("order 17").await.unwrap();
    assert_eq!((&again.id, again.new), (&started.id, false));
    let other = first.tasks().start("other", &2).idempotency_key("order 17").await.unwrap();
    assert!(other.new, "a key belongs to its tool");
    let bobs = first.engine.tasks(bob()).start("t", &2).idempotency_key("order 17").await.unwrap();
    assert!(bobs.new, "and to its principal");
    first.end(&started.id).await;
    first.kill().await;
    let second = place.start(tools(&ledger));
    let again = second.tasks().start("t", &3).idempotency_key("order 17").await.unwrap();
    assert_eq!((&again.id, again.new), (&started.id, false));
    assert_eq!(ledger.count("ran"), 2, "ada's and bob's");
}

/// What it would be known by need not be there any more. Without a key nobody has begun it elsewhere.
#[tokio::test(start_paused = true)]
async fn one_with_a_request_key_that_was_asked_for_too_long_ago_is_refused() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
    let start = |seconds| life.tasks().start("t", &1).asked(ago(seconds));
    let late = start(21).request_key("k").await;
    assert!(matches!(late, Err(CallError::Late)), "{late:?}");
    let late = start(21).request_key("k").cancelled("no", HOUR).await;
    assert!(matches!(late, Err(CallError::Late)), "{late:?}");
    assert!(life.tasks().list(ListTasks::default()).await.unwrap().tasks.is_empty());
    life.end(&start(10).request_key("k").await.unwrap().id).await;
    life.end(&start(21).await.unwrap().id).await;
    assert_eq!(ledger.count("ran"), 2);
}

/// Also by a process whose clock is two minutes ahead, and as long as a copy of its request may wait.
#[tokio::test(start_paused = true)]
async fn one_with_a_request_key_is_known_for_a_while_whatever_its_life() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let start = || life.tasks().start("t", &1).request_key("k").ttl(Duration::ZERO);
    let first = start().await.unwrap().id;
    life.end(&first).await;
    tokio::time::sleep(Duration::from_secs(120 + 20)).await;
    assert_eq!(start().await.unwrap().id, first);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_ne!(start().await.unwrap().id, first);
}

/// Who starts a task with its key finds it, until its time is over.
#[tokio::test(start_paused = true)]
async fn one_that_is_cancelled_from_the_first_never_runs() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(tools(&ledger));
    let keyed = |life: &crate::support::Life| life.tasks().start("t", &1).request_key("k");
    let id = keyed(&first).cancelled("not wanted", HOUR).await.unwrap().id;
    let seen = first.get(&id).await;
    assert_eq!((seen.status, seen.reason.as_deref()), (Status::Cancelled, Some("not wanted")));
    assert_eq!((seen.ended, seen.expires), (Some(seen.created), Some(seen.created.plus(HOUR))));
    assert_eq!(keyed(&first).await.unwrap().id, id);
    first.kill().await;
    let second = place.start(tools(&ledger));
    assert!(!keyed(&second).await.unwrap().new);
    tokio::time::sleep(HOUR).await;
    assert_eq!(ledger.count("ran"), 0);
    let late = keyed(&second).await.unwrap();
    assert!(late.new);
    assert_eq!(output::<u32>(&second.end(&late.id).await), 1);
    let listed = second.tasks().list(ListTasks::default()).await.unwrap().tasks;
    assert_eq!(listed.len(), 1, "and it is gone");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_start_waits_over_a_restart() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(tools(&ledger));
    let id = first.tasks().start("t", &1).delay(HOUR).await.unwrap().id;
    let queued = first.get(&id).await;
    assert_eq!((queued.status, queued.wakes), (Status::Queued, Some(queued.created.plus(HOUR))));
    first.kill().await;
    let second = place.start(tools(&ledger));
    tokio::time::sleep(HOUR - Duration::from_secs(60)).await;
    assert_eq!(ledger.count("ran"), 0);
    let ended = second.end(&id).await;
    let late = queued.created.plus(HOUR).until(ended.ended.unwrap());
    assert!(late < Duration::from_millis(50), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn tags_owner_and_trace_are_kept() {
    let place = Place::new();
    let life = place.start(tools(&Ledger::default()));
    let start =
        life.tasks().start("t", &1).tag("team", "blue").tag("kind", "test").trace("00-ab-cd-01");
    let info = life.end(&start.await.unwrap().id).await;
    assert_eq!(info.tags["team"], "blue");
    assert_eq!(info.tags["kind"], "test");
    assert_eq!(info.trace.as_deref(), Some("00-ab-cd-01"));
    assert_eq!(info.owner, Some(crate::support::ada()));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_not_here_is_refused_unless_another_process_will_run_it() {
    let place = Place::new();
    let here = place.start(|builder| builder);
    let refused = here.tasks().start("t", &1).await;
    assert!(matches!(refused, Err(CallError::NoSuchTool(_))), "{refused:?}");
    let id = here.tasks().start("t", &1).even_if_unserved().await.unwrap().id;
    crate::support::settle().await;
    let seen = here.get(&id).await;
    assert_eq!((seen.status, seen.served_here), (Status::Queued, false));
    let _there = place.start(tools(&Ledger::default()));
    assert_eq!(output::<u32>(&here.end(&id).await), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_tool_that_is_not_here_is_of_the_newest_version_of_whoever_takes_it_up() {
    let place = Place::new();
    let here = place.start(|builder| {
        builder.tool(Tool::new("parent", |ctx: Context, n: u32| async move {
            ctx.child::<u32>("t", &n).await
        }))
    });
    let task = here.tasks().start("t", &1).even_if_unserved().await.unwrap().id;
    let later = here.tasks().start("t", &1).even_if_unserved().delay(HOUR).await.unwrap().id;
    let parent = here.begin("parent", 2).await;
    here.parked(&parent).await;
    let seen = here.get(&task).await;
    assert_eq!((seen.version, seen.served_here), (None, false));
    let there =
        place.start(|builder| builder.tool(tool("t", &Ledger::default(), counts).versions(3, 2)));
    let seen = there.get(&later).await;
    assert_eq!((seen.version, seen.served_here), (None, true));
    assert_eq!(output::<u32>(&here.end(&task).await), 1);
    assert_eq!(output::<u32>(&here.end(&parent).await), 2);
    let children = ListTasks { parent: Some(parent), ..ListTasks::default() };
    let child = there.tasks().list(children).await.unwrap().tasks.remove(0);
    for seen in [there.get(&task).await, child] {
        assert_eq!((seen.version, seen.served_here), (Some(3), true));
    }
}

#[tokio::test(start_paused = true)]
async fn an_input_that_the_tool_can_not_read_fails_the_task_with_the_reason() {
    let place = Place::new();
    let life = place.start(tools(&Ledger::default()));
    let info = life.run("t", "seven").await;
    let failure = info.failure.unwrap();
    assert_eq!(failure.kind, steadfast_engine::FailureKind::Payload);
    assert!(failure.message.contains("u32"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_accepted_runs_although_the_process_died_at_once() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(tools(&ledger));
    let id = first.begin("t", 1).await;
    first.kill().await;
    let second = place.start(tools(&ledger));
    assert_eq!(output::<u32>(&second.end(&id).await), 1);
}

async fn slow(ledger: Ledger, ctx: Context, child: bool) -> Result<()> {
    if child {
        return ctx.child("slow", &false).await;
    }
    ctx.step("slow", || async {
        ledger.add("begun");
        tokio::time::sleep(HOUR).await;
        Ok::<_, steadfast_engine::Error>(())
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_task_is_seen_to_run_as_soon_as_its_first_step_does() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| builder.tool(tool("slow", &ledger, slow)));
    let id = life.begin("slow", false).await;
    ledger.has("begun").await;
    assert_eq!(life.get(&id).await.status, Status::Running);
    let later = life.tasks().start("slow", &false).delay(HOUR * 2).await.unwrap().id;
    life.until(&later, Status::Running).await;
    assert_eq!(ledger.count("begun"), 2);
    life.begin("slow", true).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let counts = life.tasks().counts().await.unwrap();
    assert_eq!(counts[&Status::Running], 2, "the delayed one and the child: {counts:?}");
}
