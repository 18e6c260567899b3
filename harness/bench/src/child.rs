//! Processes that a measurement starts.

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use clap::Parser;
use steadfast_engine::{Action, Answer, Engine, Json, ListTasks, TaskId, Tasks};

use crate::{
    Result,
    report::median,
    tools::{self, Probe},
};

#[derive(Parser)]
pub(crate) struct Args {
    /// What to do: hang, recover, serve, parked, idle, http.
    job: String,
    /// The store.
    #[arg(long)]
    store: PathBuf,
    /// A second, small store to compare with.
    #[arg(long)]
    beside: Option<PathBuf>,
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
        "http" => http(&args).await,
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

/// On a store full of parked tasks, resident memory; then what a call costs there and on a small
/// one, in turns, so that both have the same moments of the machine. All times in seconds.
async fn parked(args: &Args) -> Result<()> {
    let large = Parked::open(&args.store, args.count, args.round)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rss = resident_mb("self")?;
    let beside = args.beside.as_ref().ok_or("--beside is missing")?;
    let small = Parked::open(beside, PARKED_FEW, args.round)?;
    // The first ones don't count: a server that runs has the file mapped and the upper pages of its trees
    // at hand, and not the task that is asked for. So many, because it is mapped piece by piece.
    Pair::of(0..50_000, |n| small.get(n), |n| large.get(n)).await?;
    let get = Pair::of(50_000..55_000, |n| small.get(n), |n| large.get(n)).await?;
    let list = Pair::of(0..200, |_| small.list(), |_| large.list()).await?;
    // Last, since it changes the stores.
    let answer = Pair::of(0..ANSWERS, |n| small.answer(n), |n| large.answer(n)).await?;
    println!("{rss} {answer} {get} {list}");
    small.engine.shutdown(Duration::from_secs(5)).await;
    large.engine.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// How many tasks wait in the small store.
pub(crate) const PARKED_FEW: u64 = 1_000;

/// How many tasks a round answers.
const ANSWERS: u64 = 100;

/// A store full of tasks that wait for an answer.
struct Parked {
    engine: Engine,
    tasks: Tasks,
    count: u64,
    round: u64,
}

impl Parked {
    fn open(store: &Path, count: u64, round: u64) -> Result<Parked> {
        let engine = tools::engine(store, Duration::ZERO, &Probe::default())?;
        let tasks = engine.tasks(tools::ada());
        Ok(Parked { engine, tasks, count, round })
    }

    /// From one task that a round answers to its next. They are spread over the store, but for the
    /// newest, which the listings show: they stay as they are.
    fn stride(&self) -> u64 {
        (self.count - self.count / 10) / ANSWERS
    }

    /// One that waits, anywhere in the store.
    async fn get(&self, n: u64) -> Result<f64> {
        let stride = self.stride();
        let far = (n + 60_000 * self.round) * 7_919 % (ANSWERS * stride);
        // The rounds before have answered the first of each stride.
        let waits = far - far % stride + (far % stride).max(self.round);
        let id = TaskId::new(crate::parked::name(waits))?;
        let begun = Instant::now();
        self.tasks.get(&id).await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    async fn list(&self) -> Result<f64> {
        let begun = Instant::now();
        self.tasks.list(ListTasks { limit: 50, ..ListTasks::default() }).await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Until the task has its answer and has ended.
    async fn answer(&self, n: u64) -> Result<f64> {
        let id = TaskId::new(crate::parked::name(n * self.stride() + self.round))?;
        let begun = Instant::now();
        let yes = Json::of(&serde_json::json!({ "approved": true })).ok();
        self.tasks.answer(&id, "input", Answer { action: Action::Accept, content: yes }).await?;
        self.tasks.wait(&id).await?;
        Ok(begun.elapsed().as_secs_f64())
    }
}

/// Times on the small store and on the large one.
#[derive(Default)]
struct Pair {
    small: Vec<f64>,
    large: Vec<f64>,
}

impl Pair {
    /// Who comes first changes: the second finds the code in the processor's caches.
    async fn of(
        range: Range<u64>,
        small: impl AsyncFn(u64) -> Result<f64>,
        large: impl AsyncFn(u64) -> Result<f64>,
    ) -> Result<Pair> {
        let mut pair = Pair::default();
        for n in range {
            if n % 2 == 0 {
                pair.small.push(small(n).await?);
                pair.large.push(large(n).await?);
            } else {
                pair.large.push(large(n).await?);
                pair.small.push(small(n).await?);
            }
        }
        Ok(pair)
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", median(&self.small), median(&self.large))
    }
}

/// Serves the front on a free port until it is killed.
async fn http(args: &Args) -> Result<()> {
    let engine = Engine::builder(tools::open(&args.store, Duration::ZERO)?);
    let running = tools::server().start(engine)?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    Ok(running.serve(listener, std::future::pending()).await?)
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

/// Resident memory of a process.
pub(crate) fn resident_mb(process: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
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
