//! Three-step tasks: many at a time, and one alone.

use std::{
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use steadfast_engine::Engine;
use steadfast_store::Store;

use crate::{
    EngineArgs, Result, floor,
    report::{Bound, Report, median},
    tools::{self, Probe},
};

/// Tasks a second, start to completed, this many at a time.
async fn tasks_per_s(path: &Path, at_once: usize, time: Duration, delay: Duration) -> Result<f64> {
    tasks_per_s_on(tools::open(path, delay)?, at_once, time).await
}

/// The same on any store.
pub(crate) async fn tasks_per_s_on(
    store: Arc<dyn Store>,
    at_once: usize,
    time: Duration,
) -> Result<f64> {
    let engine = tools::register(Engine::builder(store), &Probe::default()).start();
    let tasks = engine.tasks(tools::ada());
    let begun = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let tasks = tasks.clone();
        callers.spawn(async move {
            let mut done = 0u64;
            while begun.elapsed() < time {
                let started = tasks.start("three", &done).await?;
                tasks.wait(&started.id).await?;
                done += 1;
            }
            Ok::<_, steadfast_engine::CallError>(done)
        });
    }
    let mut done = 0;
    for caller in callers.join_all().await {
        done += caller?;
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(rate)
}

/// Seconds for one task alone.
async fn one_task(path: &Path, rounds: u32, delay: Duration) -> Result<f64> {
    let engine = tools::engine(path, delay, &Probe::default())?;
    let tasks = engine.tasks(tools::ada());
    // By a task of the runtime, as a server's requests are.
    let caller = tokio::spawn(async move {
        let mut times = Vec::new();
        for round in 0..rounds {
            let begun = Instant::now();
            let started = tasks.start("three", &u64::from(round)).await?;
            tasks.wait(&started.id).await?;
            times.push(begun.elapsed().as_secs_f64());
        }
        Ok::<_, steadfast_engine::CallError>(times.split_off(times.len() / 2))
    });
    let times = caller.await??;
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(median(&times))
}

pub(crate) async fn measure(
    args: &EngineArgs,
    report: &mut Report,
    delay: Duration,
    suffix: &str,
) -> Result<()> {
    eprintln!("throughput, {delay:?} added to every flush");
    let (repeats, time) =
        if args.quick { (2, Duration::from_secs(1)) } else { (5, Duration::from_secs(4)) };
    let (mut raw, mut full, mut ratio, mut alone) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut raw_async, mut ratio_async) = (Vec::new(), Vec::new());
    let mut thirty_two = Vec::new();
    let mut single = Vec::new();
    for _ in 0..repeats {
        // In turn, so that a slow minute of the machine hits both.
        let dir = args.scratch()?;
        let rows = floor::rows_per_s(&dir.path().join("raw"), 256, time, delay)?;
        let fast = floor::rows_per_s_async(&dir.path().join("raw_async"), 256, time, delay).await?;
        let rate = tasks_per_s(&dir.path().join("engine"), 256, time, delay).await?;
        thirty_two.push(tasks_per_s(&dir.path().join("engine32"), 32, time / 2, delay).await?);
        raw.push(rows);
        full.push(rate);
        ratio.push(4.0 * rate / rows);
        raw_async.push(fast);
        ratio_async.push(4.0 * rate / fast);
        // The first half is to warm up: until the write-ahead log is as long as it gets, each flush
        // makes a file longer, and takes longer.
        let rounds = match (args.quick, delay.is_zero()) {
            (true, _) => 200,
            (false, true) => 2_000,
            (false, false) => 1_000,
        };
        let floor = floor::four_commits(&dir.path().join("raw1"), rounds, delay)?;
        let task = one_task(&dir.path().join("engine1"), rounds, delay).await?;
        alone.push(1.0 / task);
        single.push(task / floor);
    }
    let bounds = suffix.is_empty();
    let at_least = |bound| if bounds { Bound::AtLeast(bound) } else { Bound::None };
    let at_most = |bound| if bounds { Bound::AtMost(bound) } else { Bound::None };
    report.add(format!("raw_rows_per_s_256{suffix}"), raw, Bound::None);
    report.add(format!("raw_async_rows_per_s_256{suffix}"), raw_async, Bound::None);
    report.add(format!("tasks_per_s_256{suffix}"), full, Bound::None);
    report.add(format!("tasks_per_s_32{suffix}"), thirty_two, Bound::None);
    report.add(format!("tasks_per_s_1{suffix}"), alone, Bound::None);
    report.add(format!("commit_ratio_256{suffix}"), ratio, at_least(0.5));
    report.add(format!("commit_ratio_async_256{suffix}"), ratio_async, Bound::None);
    report.add(format!("single_task_ratio{suffix}"), single, at_most(1.5));
    Ok(())
}

/// Others, measured by a program of its own, and ours next to each.
pub(crate) async fn peers(args: &EngineArgs, report: &mut Report, program: &Path) -> Result<()> {
    for (peer, bound) in [("duroxide", 50.0), ("durare", 8.0)] {
        eprintln!("peers: {peer}");
        let repeats = if args.quick { 1 } else { 3 };
        let (mut theirs, mut ratio) = (Vec::new(), Vec::new());
        for _ in 0..repeats {
            let dir = args.scratch()?;
            let time = Duration::from_secs(if args.quick { 1 } else { 4 });
            let ours = tasks_per_s(&dir.path().join("engine"), 256, time, Duration::ZERO).await?;
            let output =
                Command::new(program).args(["--peer", peer, "--dir"]).arg(dir.path()).output()?;
            let figures: std::collections::BTreeMap<String, f64> =
                serde_json::from_slice(&output.stdout)?;
            let rate =
                *figures.get(&format!("{peer}_tasks_per_s")).ok_or("the peer said nothing")?;
            theirs.push(rate);
            ratio.push(ours / rate);
        }
        report.add(format!("{peer}_tasks_per_s"), theirs, Bound::None);
        report.add(format!("vs_{peer}"), ratio, Bound::AtLeast(bound));
    }
    Ok(())
}
