//! Durable key-value state.

use std::time::Duration;

use steadfast_engine::{
    Builder, Context, Error, FailureKind, Principal, Result, Scope, Settings, Status, Tool,
    join_all,
};

use crate::support::{HOUR, Ledger, Place, bob, counted, output, settings, tool};

async fn adds(_: (), ctx: Context, times: u32) -> Result<u32> {
    let mut last = 0;
    for _ in 0..times {
        let add = |old: Option<u32>| old.unwrap_or(0) + 1;
        last = ctx.state(Scope::Global).update("sum", add).await?;
    }
    Ok(last)
}

async fn waits(_: (), ctx: Context, most: u32) -> Result<Option<u32>> {
    let enough = |sum: Option<&u32>| sum.is_some_and(|sum| *sum >= most);
    ctx.state(Scope::Global).wait_until("sum", enough).await
}

fn tools(builder: Builder) -> Builder {
    builder.tool(tool("adds", &(), adds)).tool(tool("waits", &(), waits))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_updates_from_many_tasks_and_processes_lose_nothing() {
    let place = Place::new();
    let lives = [place.start(tools), place.start(tools)];
    let mut ids = Vec::new();
    for n in 0..40 {
        ids.push(lives[n % 2].begin("adds", 5).await);
    }
    for id in &ids {
        lives[0].end(id).await;
    }
    assert_eq!(output::<u32>(&lives[1].run("adds", 1).await), 201);
}

#[tokio::test(start_paused = true)]
async fn updates_joined_in_one_task_lose_nothing() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let state = ctx.state(Scope::Task);
            let add = |old: Option<u32>| old.unwrap_or(0) + 1;
            let all = join_all((0..10).map(|_| state.update("sum", add))).await;
            let mut all = all.into_iter().collect::<Result<Vec<_>>>()?;
            all.sort_unstable();
            Ok((all, state.get::<u32>("sum").await?))
        }))
    });
    let (seen, sum): (Vec<u32>, u32) = output(&life.run("t", ()).await);
    assert_eq!((seen, sum), ((1..=10).collect(), 10));
}

async fn scopes(_: (), ctx: Context, name: String) -> Result<[Option<String>; 3]> {
    let mut seen = [None, None, None];
    for (n, scope) in [Scope::Task, Scope::Owner, Scope::Global].into_iter().enumerate() {
        let state = ctx.state(scope);
        seen[n] = state.get("name").await?;
        state.set("name", &name).await?;
    }
    Ok(seen)
}

#[tokio::test(start_paused = true)]
async fn state_belongs_to_the_task_to_its_owner_or_to_all() {
    let place = Place::new();
    let life = place.start(|builder| builder.tool(tool("t", &(), scopes)));
    let run = async |principal: Principal, name: &str| {
        let tasks = life.engine.tasks(principal);
        let id = tasks.start("t", name).await.unwrap().id;
        output::<[Option<String>; 3]>(&tasks.wait(&id).await.unwrap())
    };
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(run(crate::support::ada(), "first").await, [None, None, None]);
    assert_eq!(run(crate::support::ada(), "second").await, [None, some("first"), some("first")]);
    assert_eq!(run(bob(), "third").await, [None, None, some("second")]);
}

async fn remembers(ledger: Ledger, ctx: Context, (): ()) -> Result<(Option<u32>, Option<u32>)> {
    let state = ctx.state(Scope::Owner);
    let before = state.get("n").await?;
    state.set("n", &7).await?;
    counted(&ctx, &ledger, "written").await?;
    ctx.sleep(HOUR).await;
    let after = state.get("n").await?;
    state.remove("n").await?;
    Ok((before, after))
}

#[tokio::test(start_paused = true)]
async fn a_replay_reads_what_was_read_then_and_writes_nothing_again() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, remembers));
    let first = place.start(tools);
    let id = first.begin("t", ()).await;
    ledger.has("written").await;
    first.kill().await;
    let second = place.start(|builder| {
        tools(builder).tool(Tool::new("overwrite", |ctx: Context, (): ()| async move {
            ctx.state(Scope::Owner).set("n", &8).await
        }))
    });
    second.run("overwrite", ()).await;
    let seen: (Option<u32>, Option<u32>) = output(&second.end(&id).await);
    assert_eq!(seen, (None, Some(8)));
    let next = second.begin("t", ()).await;
    assert_eq!(output::<(Option<u32>, Option<u32>)>(&second.end(&next).await), (None, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_condition_ends_when_another_task_makes_it_true() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("waits", 3).await;
    for added in 1..=3 {
        life.parked(&id).await;
        assert_eq!(life.get(&id).await.status, Status::Waiting, "after {}", added - 1);
        life.run("adds", 1).await;
    }
    assert_eq!(output::<u32>(&life.end(&id).await), 3);
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_holds_already_ends_the_wait_at_once() {
    let place = Place::new();
    let life = place.start(tools);
    life.run("adds", 5).await;
    let before = tokio::time::Instant::now();
    assert_eq!(output::<u32>(&life.run("waits", 3).await), 5);
    assert!(before.elapsed() < Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn a_condition_met_while_nobody_ran_the_task_is_seen_after_the_restart() {
    let place = Place::new();
    let first = place.start(tools);
    let id = first.begin("waits", 2).await;
    first.until(&id, Status::Waiting).await;
    first.kill().await;
    let other = place.start(|builder| builder.tool(tool("adds", &(), adds)));
    other.run("adds", 2).await;
    let second = place.start(tools);
    assert_eq!(output::<u32>(&second.end(&id).await), 2);
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_met_by_a_task_in_another_process() {
    let place = Place::new();
    let here = place.start(tools);
    let there = place.start(|builder| builder.tool(tool("adds", &(), adds)));
    let id = here.begin("waits", 4).await;
    here.until(&id, Status::Waiting).await;
    there.run("adds", 4).await;
    assert_eq!(output::<u32>(&here.end(&id).await), 4);
}

#[tokio::test(start_paused = true)]
async fn a_value_of_another_type_is_an_error_that_the_author_can_handle() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let state = ctx.state(Scope::Task);
            state.set("n", "seven").await?;
            let read = state.get::<u32>("n").await.unwrap_err();
            let update = state.update("n", |old: Option<u32>| old.unwrap_or(0)).await.unwrap_err();
            let wait = state.wait_until("n", |n: Option<&u32>| n.is_some()).await.unwrap_err();
            assert!([&read, &update, &wait].iter().all(|e| e.kind() == FailureKind::Payload));
            state.get::<String>("n").await
        }))
    });
    assert_eq!(output::<String>(&life.run("t", ()).await), "seven");
}

#[tokio::test(start_paused = true)]
async fn a_value_over_the_limit_is_refused_and_the_old_one_stays() {
    let place = Place::new();
    let settings = Settings { max_payload: 100, ..settings() };
    let life = place.start_with(settings, |builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let state = ctx.state(Scope::Task);
            state.set("text", "old").await?;
            let long = "x".repeat(200);
            let set = state.set("text", &long).await.unwrap_err();
            let update = state.update("text", |_: Option<String>| long.clone()).await.unwrap_err();
            assert!([set, update].iter().all(|e: &Error| e.kind() == FailureKind::Limit));
            state.get::<String>("text").await
        }))
    });
    assert_eq!(output::<String>(&life.run("t", ()).await), "old");
}

/// Those of one session share it, and a child is in its parent's.
#[tokio::test(start_paused = true)]
async fn state_of_a_session_is_shared_in_it_and_gone_with_it() {
    let place = Place::new();
    let life = place.start(|builder| {
        let counts = |ctx: Context, ()| async move {
            let add = |old: Option<u32>| old.unwrap_or(0) + 1;
            ctx.state(Scope::Session).update("n", add).await
        };
        let parent = |ctx: Context, ()| async move { ctx.child::<u32>("counts", &()).await };
        builder.tool(Tool::new("counts", counts)).tool(Tool::new("parent", parent))
    });
    let store = life.engine.store();
    let expires = life.engine.now().plus(HOUR);
    for id in ["one", "two"] {
        let row = steadfast_store::SessionRow { id: id.into(), expires, body: Vec::new() };
        store.begin_session(row, 10).await.unwrap();
    }
    let run = async |tool: &str, session: &str| {
        let id = life.tasks().start(tool, &()).session(session).await.unwrap().id;
        output::<u32>(&life.end(&id).await)
    };
    assert_eq!(run("counts", "one").await, 1);
    assert_eq!(run("parent", "one").await, 2);
    assert_eq!(run("counts", "two").await, 1);
    store.end_session("one".into()).await.unwrap();
    let row = steadfast_store::SessionRow { id: "one".into(), expires, body: Vec::new() };
    store.begin_session(row, 10).await.unwrap();
    assert_eq!(run("counts", "one").await, 1);
    let without = life.run("counts", ()).await;
    assert_eq!(without.failure.unwrap().code.as_deref(), Some("no_session"));
}
