//! Replay: what ran once unfolds the same way again.

use std::time::Duration;

use steadfast_core::{Event, Note};
use steadfast_engine::{
    Builder, Context, Either, Progress, Result, Status, Tool, join, join_all, race, race_all,
};

use crate::support::{HOUR, Ledger, Place, counted, output, tool, when};

const TICK: Duration = Duration::from_millis(10);

/// One of many branches: steps and sleeps of different lengths.
async fn chain(ctx: Context, ledger: Ledger, name: &'static str, length: u32) -> Result<u32> {
    let mut sum = 0;
    for round in 0..3 {
        counted(&ctx, &ledger, &format!("{name} {round}")).await?;
        ctx.sleep(TICK * length).await;
        sum += (ctx.random() % 1_000) as u32;
    }
    Ok(sum)
}

/// Joins in races in joins.
async fn nested(ledger: Ledger, ctx: Context, (): ()) -> Result<(Vec<u32>, usize, String)> {
    let chain = |name, length| chain(ctx.clone(), ledger.clone(), name, length);
    let pair = async {
        let (a, b) = join(chain("a", 2), chain("b", 1)).await;
        Ok::<_, steadfast_engine::Error>(vec![a?, b?])
    };
    let won = async {
        let slow = async {
            ctx.sleep(HOUR).await;
            chain("loser", 1).await
        };
        match race(slow, join_all([chain("c", 3), chain("d", 1)])).await {
            Either::Left(_) => Err(steadfast_engine::Error::new("the hour is over")),
            Either::Right(both) => both.into_iter().collect::<Result<Vec<u32>>>(),
        }
    };
    let sleeps = [5, 2, 9].map(|length| ctx.sleep(TICK * length));
    let ((pair, won), (first, ())) = join(join(pair, won), race_all(sleeps)).await;
    let sums = pair?.into_iter().chain(won?).collect();
    counted(&ctx, &ledger, "last").await?;
    Ok((sums, first, ctx.uuid()))
}

#[tokio::test(start_paused = true)]
async fn nested_branches_unfold_the_same_way_wherever_the_process_dies() {
    for death in 0..14 {
        let place = Place::new();
        let ledger = Ledger::default();
        let tools = |builder: Builder| builder.tool(tool("t", &ledger, nested));
        let first = place.start(tools);
        let id = first.begin("t", ()).await;
        tokio::time::sleep(Duration::from_millis(8) * death).await;
        first.kill().await;
        let second = place.start(tools);
        let info = second.end(&id).await;
        let (sums, first, _): (Vec<u32>, usize, String) = output(&info);
        assert_eq!((sums.len(), first), (4, 1), "death at {death}");
        for name in ["a", "b", "c", "d"] {
            for round in 0..3 {
                assert_eq!(ledger.count(&format!("{name} {round}")), 1, "{name} {round}");
            }
        }
        assert_eq!(ledger.count("last"), 1);
        assert_eq!(ledger.count("loser 0"), 0);
    }
}

/// Records what it sees of time and chance, and compares it after the restart.
async fn dice(ledger: Ledger, ctx: Context, (): ()) -> Result<bool> {
    counted(&ctx, &ledger, "begun").await?;
    let seen = (ctx.now(), ctx.random(), ctx.uuid());
    let mark = seen.clone();
    let recorded = ctx.step("record", || {
        let mark = mark.clone();
        async move { Ok::<_, steadfast_engine::Error>(mark) }
    });
    let recorded = recorded.await?;
    ctx.sleep(HOUR).await;
    Ok(seen == recorded && ctx.uuid() != seen.2)
}

#[tokio::test(start_paused = true)]
async fn time_and_chance_are_the_same_in_a_replay() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, dice));
    let first = place.start(tools);
    let id = first.begin("t", ()).await;
    first.parked(&id).await;
    first.kill().await;
    let second = place.start(tools);
    assert!(output::<bool>(&second.end(&id).await));
    assert_eq!(ledger.count("begun"), 1);
}

#[tokio::test(start_paused = true)]
async fn uuids_are_version_4_and_differ_from_task_to_task() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move { Ok(ctx.uuid()) }))
    });
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let uuid: String = output(&life.run("t", ()).await);
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{uuid}");
        assert!(uuid[14..].starts_with('4') && "89ab".contains(&uuid[19..20]), "{uuid}");
        assert!(seen.insert(uuid));
    }
}

async fn talks(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    ctx.status("working");
    ctx.progress(1.0, Some(4.0), Some("first quarter"));
    ctx.log("info", "hello");
    ctx.log("info", "hello");
    counted(&ctx, &ledger, "said").await?;
    ctx.sleep(HOUR).await;
    ctx.progress(4.0, Some(4.0), None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_task_said_is_shown_and_not_said_again_by_a_replay() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, talks));
    let first = place.start(tools);
    let id = first.begin("t", ()).await;
    first.parked(&id).await;
    first.kill().await;
    let second = place.start(tools);
    let shown = second.get(&id).await;
    assert_eq!(shown.message.as_deref(), Some("working"));
    let quarter = Progress { done: 1.0, total: Some(4.0), text: Some("first quarter".into()) };
    assert_eq!(shown.progress, Some(quarter));
    assert_eq!(second.end(&id).await.progress.unwrap().done, 4.0);
    let mut said = Vec::new();
    for event in second.events(&id).await {
        match event {
            Event::Noted { note: Note::Status(text), .. } => said.push(text),
            Event::Noted { note: Note::Progress(progress), .. } => {
                said.push(progress.done.to_string())
            }
            Event::Noted { note: Note::Log { text, .. }, .. } => said.push(text),
            _ => {}
        }
    }
    assert_eq!(said, ["working", "1", "hello", "hello", "4"], "each once, the same line twice");
}

#[tokio::test(start_paused = true)]
async fn what_a_step_says_is_shown_while_it_runs() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            ctx.step("long", || async {
                ctx.progress(0.5, None, Some("half"));
                tokio::time::sleep(HOUR).await;
                Ok::<_, steadfast_engine::Error>(())
            })
            .await
        }))
    });
    let id = life.begin("t", ()).await;
    let half = |info: &steadfast_engine::TaskInfo| info.progress.is_some();
    let shown = crate::support::within(life.tasks().wait_for(&id, half)).await.unwrap();
    assert_eq!((shown.status, shown.progress.unwrap().done), (Status::Running, 0.5));
}

async fn old_code(ledger: Ledger, ctx: Context, (): ()) -> Result<&'static str> {
    counted(&ctx, &ledger, "before").await?;
    ctx.sleep(HOUR).await;
    counted(&ctx, &ledger, "old").await?;
    ctx.sleep(HOUR).await;
    Ok("old")
}

async fn new_code(ledger: Ledger, ctx: Context, (): ()) -> Result<&'static str> {
    counted(&ctx, &ledger, "before").await?;
    let newer = ctx.version("shorter", 1) >= 1;
    if !newer {
        ctx.sleep(HOUR).await;
    }
    counted(&ctx, &ledger, if newer { "new" } else { "old" }).await?;
    ctx.sleep(HOUR).await;
    Ok(if newer { "new" } else { "old" })
}

#[tokio::test(start_paused = true)]
async fn old_tasks_and_new_code_live_together_by_version_markers() {
    let place = Place::new();
    let ledger = Ledger::default();
    let old = |builder: Builder| builder.tool(tool("t", &ledger, old_code));
    let new = |builder: Builder| builder.tool(tool("t", &ledger, new_code));
    let first = place.start(old);
    let before = first.begin("t", ()).await;
    first.parked(&before).await;
    first.kill().await;
    let second = place.start(new);
    let after = second.begin("t", ()).await;
    when(|| ledger.count("new") == 1).await;
    second.kill().await;
    let third = place.start(new);
    assert_eq!(output::<String>(&third.end(&before).await), "old");
    assert_eq!(output::<String>(&third.end(&after).await), "new");
    assert_eq!((ledger.count("old"), ledger.count("new"), ledger.count("before")), (1, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_process_takes_only_the_versions_of_a_tool_that_it_has() {
    let place = Place::new();
    let ledger = Ledger::default();
    let version = |newest, oldest| {
        let tool = tool("t", &ledger, old_code).versions(newest, oldest);
        move |builder: Builder| builder.tool(tool.clone())
    };
    let first = place.start(version(1, 1));
    let id = first.begin("t", ()).await;
    first.parked(&id).await;
    first.kill().await;
    let newer = place.start(version(3, 2));
    tokio::time::sleep(HOUR * 3).await;
    let seen = newer.get(&id).await;
    assert_eq!((seen.status, seen.served_here, seen.version), (Status::Waiting, false, Some(1)));
    assert_eq!(ledger.count("old"), 0);
    let _both = place.start(version(3, 1));
    assert_eq!(output::<String>(&newer.end(&id).await), "old");
}
