//! Child tasks: awaited, detached, cancelled with their parents.

use std::time::Duration;

use steadfast_engine::{
    ActivityContext, Builder, Context, Either, Error, FailureKind, ListTasks, Result, Settings,
    Status, TaskId, Tool, Ttl, join, race,
};

use crate::support::{HOUR, Ledger, Life, Place, counted, endless, output, settings, tool};

async fn double(ledger: Ledger, ctx: Context, n: u32) -> Result<u32> {
    counted(&ctx, &ledger, "double").await?;
    ctx.sleep(HOUR).await;
    Ok(n * 2)
}

async fn parent(_: Ledger, ctx: Context, n: u32) -> Result<u32> {
    Ok(ctx.child::<u32>("child", &n).await? + 1)
}

/// Waits for a child until the engine is told otherwise.
async fn grandparent(_: Ledger, ctx: Context, n: u32) -> Result<u32> {
    ctx.child("parent", &n).await
}

async fn stuck_child(ledger: Ledger, ctx: Context, _: u32) -> Result<u32> {
    endless(&ctx, &ledger, "child").await?;
    Ok(0)
}

fn family(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        builder
            .tool(tool("child", &ledger, double))
            .tool(tool("parent", &ledger, parent))
            .tool(tool("grandparent", &ledger, grandparent))
    }
}

/// The only task of a tool.
async fn only(life: &Life, tool: &str) -> TaskId {
    loop {
        let list = ListTasks { tool: Some(tool.into()), ..ListTasks::default() };
        if let Some(task) = life.tasks().list(list).await.unwrap().tasks.pop() {
            return task.id;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_childs_result_comes_back_and_it_is_linked_to_its_parent() {
    let place = Place::new();
    let life = place.start(family(&Ledger::default()));
    let id = life.begin("parent", 20).await;
    assert_eq!(output::<u32>(&life.end(&id).await), 41);
    let children = ListTasks { parent: Some(id.clone()), ..ListTasks::default() };
    let children = life.tasks().list(children).await.unwrap().tasks;
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].parent, Some(id));
    assert_eq!(children[0].owner, Some(crate::support::ada()));
}

#[tokio::test(start_paused = true)]
async fn children_and_their_children_have_the_trace_context_of_the_task() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| {
        family(&ledger)(builder).tool(Tool::new("starter", |ctx: Context, n: u32| async move {
            ctx.sleep(HOUR).await;
            ctx.child::<u32>("child", &n).detach().await?;
            ctx.child::<u32>("parent", &n).await
        }))
    };
    let first = place.start(tools);
    let start = first.tasks().start("starter", &1).trace("00-ab-cd-01");
    let id = start.await.unwrap().id;
    first.parked(&id).await;
    first.kill().await;
    let second = place.start(tools);
    second.end(&id).await;
    let all = second.tasks().list(ListTasks::default()).await.unwrap().tasks;
    let traces: Vec<_> = all.iter().map(|task| (&*task.tool, task.trace.as_deref())).collect();
    let traced = |tool| (tool, Some("00-ab-cd-01"));
    assert_eq!(traces, ["child", "parent", "child", "starter"].map(traced));
}

#[tokio::test(start_paused = true)]
async fn a_child_is_awaited_over_restarts_and_runs_once() {
    let place = Place::new();
    let ledger = Ledger::default();
    let mut life = place.start(family(&ledger));
    let id = life.begin("grandparent", 20).await;
    ledger.has("double").await;
    for _ in 0..3 {
        life.kill().await;
        life = place.start(family(&ledger));
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(output::<u32>(&life.end(&id).await), 41);
    assert_eq!(ledger.count("double"), 1);
    assert_eq!(life.tasks().counts().await.unwrap()[&Status::Completed], 3);
}

#[tokio::test(start_paused = true)]
async fn a_childs_failure_is_an_error_that_the_parent_can_handle() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder
            .tool(Tool::new("child", |_: Context, (): ()| async {
                Err::<(), _>(Error::new("no paper").code("paper").data(&2))
            }))
            .tool(Tool::new("parent", |ctx: Context, (): ()| async move {
                let error = ctx.child::<()>("child", &()).await.unwrap_err();
                assert_eq!(error.kind(), FailureKind::Child);
                let data = error.failure().data.as_ref().map(|data| data.text().to_owned());
                Ok((error.to_string(), error.code_name().map(str::to_owned), data))
            }))
    });
    let seen: (String, String, String) = output(&life.run("parent", ()).await);
    assert_eq!(seen, ("no paper".into(), "paper".into(), "2".into()));
}

#[tokio::test(start_paused = true)]
async fn cancel_reaches_children_and_grandchildren() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life =
        place.start(|builder| family(&ledger)(builder).tool(tool("child", &ledger, stuck_child)));
    let id = life.begin("grandparent", 1).await;
    ledger.has("child").await;
    life.tasks().cancel(&id, Some("enough".into())).await.unwrap();
    for tool in ["parent", "child"] {
        let child = only(&life, tool).await;
        let ended = life.end(&child).await;
        assert_eq!(ended.status, Status::Cancelled, "{tool}");
        assert_eq!(ended.reason.as_deref(), Some("its parent was cancelled"));
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_reaches_children_also_when_the_process_dies_right_after_it() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(family(&ledger));
    let id = first.begin("grandparent", 1).await;
    ledger.has("double").await;
    first.tasks().cancel(&id, None).await.unwrap();
    first.kill().await;
    let second = place.start(family(&ledger));
    for tool in ["parent", "child"] {
        let child = only(&second, tool).await;
        assert_eq!(second.end(&child).await.status, Status::Cancelled, "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_reaches_the_activity_of_a_child_at_once() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let life = place.start(|builder| {
        family(&ledger)(builder)
            .tool(Tool::new("child", |ctx: Context, n: u32| async move {
                ctx.activity::<u32>("work", &n).await
            }))
            .activity("work", move |activity: ActivityContext, n: u32| {
                let ledger = noted.clone();
                async move {
                    ledger.add("work");
                    activity.cancelled().cancelled().await;
                    ledger.add("told");
                    Ok(n)
                }
            })
    });
    let id = life.begin("parent", 1).await;
    ledger.has("work").await;
    let before = tokio::time::Instant::now();
    life.tasks().cancel(&id, None).await.unwrap();
    ledger.has("told").await;
    assert!(before.elapsed() < Duration::from_millis(50), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_child_that_loses_a_race_is_cancelled() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| {
        builder.tool(tool("child", &ledger, stuck_child)).tool(Tool::new(
            "parent",
            |ctx: Context, (): ()| async move {
                let short = ctx.sleep(Duration::from_secs(60));
                let won = race(ctx.child::<u32>("child", &1u32), short).await;
                Ok(matches!(won, Either::Right(())))
            },
        ))
    });
    assert!(output::<bool>(&life.run("parent", ()).await));
    let child = only(&life, "child").await;
    let ended = life.end(&child).await;
    assert_eq!(ended.status, Status::Cancelled);
    assert!(ended.reason.unwrap().contains("no longer waits"));
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_fails_takes_its_running_children_along() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| {
        builder.tool(tool("child", &ledger, stuck_child)).tool(Tool::new(
            "parent",
            |ctx: Context, (): ()| async move {
                let fails = async {
                    ctx.sleep(HOUR).await;
                    panic!("the other branch");
                };
                let (n, ()) = join(ctx.child::<u32>("child", &1u32), fails).await;
                n
            },
        ))
    });
    assert_eq!(life.run("parent", ()).await.status, Status::Failed);
    let child = only(&life, "child").await;
    assert_eq!(life.end(&child).await.status, Status::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_detached_child_outlives_its_parent() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| {
        family(&ledger)(builder).tool(Tool::new("starter", |ctx: Context, wait: bool| async move {
            let child = ctx.child::<u32>("child", &4u32).detach().await?;
            if wait {
                ctx.event::<()>("never").await?;
            }
            Ok(child)
        }))
    });
    let child: TaskId = output(&life.run("starter", false).await);
    assert_eq!(output::<u32>(&life.end(&child).await), 8);

    let cancelled = life.begin("starter", true).await;
    life.until(&cancelled, Status::Waiting).await;
    let list = ListTasks { parent: Some(cancelled.clone()), ..ListTasks::default() };
    let child = life.tasks().list(list).await.unwrap().tasks.pop().unwrap().id;
    life.tasks().cancel(&cancelled, None).await.unwrap();
    assert_eq!(output::<u32>(&life.end(&child).await), 8);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_somebody_cancels_is_an_error_with_the_reason() {
    let place = Place::new();
    let life = place.start(family(&Ledger::default()));
    let id = life.begin("parent", 1).await;
    let child = only(&life, "child").await;
    life.tasks().cancel(&child, Some("a mistake".into())).await.unwrap();
    let failure = life.end(&id).await.failure.unwrap();
    assert_eq!((failure.kind, failure.code.as_deref()), (FailureKind::Child, Some("cancelled")));
    assert!(failure.message.contains("a mistake"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_child_with_an_id_that_is_taken_is_an_error() {
    let place = Place::new();
    let life = place.start(|builder| {
        family(&Ledger::default())(builder).tool(Tool::new(
            "t",
            |ctx: Context, (): ()| async move {
                let id = TaskId::new("taken")?;
                let error = ctx.child::<u32>("child", &1u32).id(id).await.unwrap_err();
                Ok(error.to_string())
            },
        ))
    });
    life.tasks().start("child", &1).id(TaskId::new("taken").unwrap()).await.unwrap();
    let text: String = output(&life.run("t", ()).await);
    assert!(text.contains("taken already exists"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_waits_gives_its_place_to_its_child() {
    let place = Place::new();
    let settings = Settings { max_running: 1, ..settings() };
    let life = place.start_with(settings, family(&Ledger::default()));
    assert_eq!(output::<u32>(&life.run("grandparent", 2).await), 5);
}

#[tokio::test(start_paused = true)]
async fn a_child_cancelled_with_its_parent_is_kept_as_long_as_its_tool_says() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| {
        family(&ledger)(builder).tool(tool("child", &ledger, stuck_child).retention(Ttl::days(30)))
    });
    let id = life.begin("parent", 1).await;
    ledger.has("child").await;
    life.tasks().cancel(&id, None).await.unwrap();
    let child = only(&life, "child").await;
    let child = life.end(&child).await;
    assert_eq!(child.expires, Ttl::days(30).expiry(child.ended.unwrap()));
}
