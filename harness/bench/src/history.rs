//! Long histories: what a step costs late in one, and how fast one is replayed.

use std::time::{Duration, Instant};

use crate::{
    EngineArgs, Result,
    report::{Bound, Report},
    tools::{self, Probe},
};

pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    eprintln!("history");
    let (mut growth, mut replay, mut linear) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..if args.quick { 1 } else { 3 } {
        let dir = args.scratch()?;
        let path = dir.path().join("engine");
        growth.push(run(&path, 10_000).await?);
        let ten = cold(&path, 10_000).await?;
        let other = dir.path().join("longer");
        run(&other, 40_000).await?;
        let forty = cold(&other, 40_000).await?;
        replay.push(forty);
        linear.push(ten / forty);
    }
    report.add("long_history_ratio", growth, Bound::AtMost(1.3));
    report.add("replay_steps_per_s", replay, Bound::AtLeast(200_000.0));
    report.add("replay_10k_over_40k", linear, Bound::None);
    Ok(())
}

/// Runs a task of so many steps; the last thousand's time over the first thousand's.
async fn run(path: &std::path::Path, steps: u64) -> Result<f64> {
    let probe = Probe::default();
    let engine = tools::engine(path, Duration::ZERO, &probe)?;
    let tasks = engine.tasks(tools::ada());
    let wanted = 2 + usize::try_from(steps / 1_000)?;
    tasks.start("long", &steps).await?;
    while probe.marks().len() < wanted {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // It is waiting; let its last commit and its parking be done.
    tokio::time::sleep(Duration::from_millis(500)).await;
    engine.shutdown(Duration::from_secs(5)).await;
    let marks = probe.marks();
    let first = marks[2] - marks[1];
    let last = marks[wanted - 1] - marks[wanted - 2];
    Ok(last.as_secs_f64() / first.as_secs_f64())
}

/// Steps a second, from the moment a process wants the task to the end of the replay.
async fn cold(path: &std::path::Path, steps: u64) -> Result<f64> {
    let probe = Probe::default();
    let engine = tools::engine(path, Duration::ZERO, &probe)?;
    let tasks = engine.tasks(tools::ada());
    let list = tasks.list(steadfast_engine::ListTasks::default()).await?;
    let id = list.tasks.first().ok_or("there is no task")?.id.clone();
    let begun = Instant::now();
    tasks.signal(&id, steadfast_engine::Event::new("go", &())).await?;
    tasks.wait(&id).await?;
    let marks = probe.marks();
    let end = marks.last().ok_or("it did not run")?;
    let taken = end.duration_since(begun);
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(steps as f64 / taken.as_secs_f64())
}
