//! Processes that a measurement starts.

use std::{
    path::PathBuf,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use clap::Parser;
use steadfast_engine::{Action, Answer, Json, ListTasks, TaskId};

use crate::{
    Result,
    report::median,
    tools::{self, Probe},
};

#[derive(Parser)]
pub(crate) struct Args {
    /// What to do: hang, recover, serve, parked, idle.
    job: String,
    /// The store.
    #[arg(long)]
    store: PathBuf,
    /// How many.
    #[arg(long, default_value_t = 0)]
    count: u64,
    /// Which repetition.
    #[arg(long, default_value_t = 0)]
    round: u64,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.job.as_str() {
        "hang" => hang(&args).await,
        "recover" => recover(&args).await,
        "serve" => serve(&args).await,
        "parked" => parked(&args).await,
        "idle" => idle(&args).await,
        other => Err(format!("there is no job {other:?}").into()),
    }
}

/// Starts tasks that hang in a step, says so, and waits to be killed.
async fn hang(args: &Args) -> Result<()> {
    let probe = Probe::default();
    let engine = tools::engine(&args.store, Duration::ZERO, &probe)?;
    let tasks = engine.tasks(tools::ada());
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..args.count {
        let tasks = tasks.clone();
        starts.spawn(async move { tasks.start("hang", &()).await.map(drop) });
    }
    for start in starts.join_all().await {
        start?;
    }
    while probe.entered.load(Ordering::SeqCst) < args.count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("hanging");
    std::future::pending().await
}

/// Says how long it takes until all of them run again, once the store is open.
async fn recover(args: &Args) -> Result<()> {
    let probe = Probe::default();
    let store = tools::open(&args.store, Duration::ZERO)?;
    let begun = Instant::now();
    let _engine = tools::register(steadfast_engine::Engine::builder(store), &probe).start();
    while probe.entered.load(Ordering::SeqCst) < args.count {
        if begun.elapsed() > Duration::from_secs(120) {
            return Err(format!("only {} run again", probe.entered.load(Ordering::SeqCst)).into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("{}", begun.elapsed().as_secs_f64());
    // Dies as it is: nothing to be measured any more.
    std::process::exit(0)
}

/// Serves tasks until it is killed.
async fn serve(args: &Args) -> Result<()> {
    let _engine = tools::engine(&args.store, Duration::ZERO, &Probe::default())?;
    println!("serving");
    std::future::pending().await
}

/// On a store full of parked tasks: resident memory, and what a call costs. All times in seconds.
async fn parked(args: &Args) -> Result<()> {
    let engine = tools::engine(&args.store, Duration::ZERO, &Probe::default())?;
    let tasks = engine.tasks(tools::ada());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rss = resident_mb()?;
    let mut ids = Vec::new();
    // Spread over the whole store.
    let stride = (args.count / 200).max(1);
    for n in 0..200.min(args.count) {
        ids.push(TaskId::new(format!("task-{}", n * stride + args.round))?);
    }
    let (mut answers, mut gets, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    // Others first, all over the store: a server that runs has the upper pages of its trees in
    // memory, and not the task that is asked for.
    for n in 0..10_000 {
        let other = (n * 7_919 + 3) % args.count;
        tasks.get(&TaskId::new(format!("task-{other}"))?).await?;
    }
    for id in &ids {
        let begun = Instant::now();
        tasks.get(id).await?;
        gets.push(begun.elapsed().as_secs_f64());
    }
    for _ in 0..200 {
        let begun = Instant::now();
        tasks.list(ListTasks { limit: 50, ..ListTasks::default() }).await?;
        lists.push(begun.elapsed().as_secs_f64());
    }
    for id in &ids {
        let begun = Instant::now();
        let yes = Json::of(&serde_json::json!({ "approved": true })).ok();
        tasks.answer(id, "input", Answer { action: Action::Accept, content: yes }).await?;
        tasks.wait(id).await?;
        answers.push(begun.elapsed().as_secs_f64());
    }
    println!("{rss} {} {} {}", median(&answers), median(&gets), median(&lists));
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// Does nothing for a while: wake-ups a second, and bytes written.
async fn idle(args: &Args) -> Result<()> {
    let engine = tools::engine(&args.store, Duration::ZERO, &Probe::default())?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (wakes, written) = (wake_ups()?, bytes_written()?);
    tokio::time::sleep(Duration::from_secs(args.count)).await;
    let wakes = (wake_ups()? - wakes) as f64 / args.count as f64;
    println!("{wakes} {}", bytes_written()? - written);
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

fn resident_mb() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kb: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kb / 1024.0)
}

/// Voluntary switches of all threads: each is a wake-up that went back to sleep.
fn wake_ups() -> Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let status = std::fs::read_to_string(thread?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.ok_or("no voluntary_ctxt_switches")?.trim().parse::<u64>()?;
    }
    Ok(sum)
}

fn bytes_written() -> Result<u64> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line =
        io.lines().find_map(|line| line.strip_prefix("write_bytes:")).ok_or("no write_bytes")?;
    Ok(line.trim().parse()?)
}
