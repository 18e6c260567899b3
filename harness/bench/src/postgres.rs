//! The engine on PostgreSQL, against plain rows there, and against itself with more processes and tasks.

mod floor;
mod peers;
mod watch;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use steadfast_engine::{Action, Answer, Engine, Json, ListTasks, Settings, Status, TaskId, Tasks};
use steadfast_postgres::testing::{Server, Setup};
use steadfast_store::Store;
use watch::Statements;

use crate::{
    EngineArgs, Result, parked,
    report::{Bound, Report, median, short},
    throughput,
    tools::{self, Probe},
};

/// Opens a store, as a process in production does.
pub(crate) async fn open(address: &str, schema: &str) -> Result<Arc<dyn Store>> {
    let options = steadfast_postgres::Options::new(address).schema(schema);
    Ok(Arc::new(options.open().await?))
}

/// A name for a store that nobody else uses.
fn fresh() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("bench_{}", LAST.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    // As on a real server: what is committed is on the disk.
    let mut setup = Setup::default().fsync(true);
    if let Some(dir) = &args.dir {
        setup = setup.below(dir);
    }
    let server = setup
        .set("shared_preload_libraries", "pg_stat_statements")
        .set("pg_stat_statements.track", "all")
        .set("shared_buffers", "512MB")
        .set("max_wal_size", "4GB")
        .start()?;
    watch::flushes(&server.url(), report).await?;
    if args.wants("throughput") {
        throughput(args, report, &server).await?;
    }
    if args.wants("replicas") {
        replicas(args, report, &server).await?;
    }
    if args.wants("idle") {
        idle(args, report, &server).await?;
    }
    if args.wants("wake") {
        wake(args, report, &server).await?;
    }
    if args.wants("parked") {
        million(args, report, &server).await?;
    }
    Ok(())
}

/// Three-step tasks a second, 256 at a time, over rows that are committed in batches by hand.
async fn throughput(args: &EngineArgs, report: &mut Report, server: &Server) -> Result<()> {
    eprintln!("throughput");
    let (rounds, time) =
        if args.quick { (1, Duration::from_secs(2)) } else { (5, Duration::from_secs(5)) };
    let (mut same, mut small, mut full) = (Vec::new(), Vec::new(), Vec::new());
    let mut others = peers::Peers::new(args);
    for _ in 0..rounds {
        let schema = fresh();
        let store = open(&server.url(), &schema).await?;
        let rate = throughput::tasks_per_s_on(store, 256, time).await?;
        full.push(rate);
        same.push(floor::same_rows_per_s(&server.url(), &schema, 256, time).await?);
        small.push(floor::small_rows_per_s(&server.url(), 256, time).await?);
        others.measure(&server.url(), rate)?;
    }
    let over =
        |floor: &[f64]| full.iter().zip(floor).map(|(full, floor)| 4.0 * full / floor).collect();
    report.add("pg_commit_ratio_256", over(&same), Bound::AtLeast(0.5));
    // Not what is asked for, but what a commit costs over the least there is.
    report.add("pg_small_commit_ratio_256", over(&small), Bound::None);
    report.add("pg_same_rows_commits_per_s_256", same, Bound::None);
    report.add("pg_small_row_commits_per_s_256", small, Bound::None);
    report.add("pg_tasks_per_s_256", full, Bound::None);
    others.report(report);
    Ok(())
}

/// A process on the same store.
struct Replica(Child, BufReader<std::process::ChildStdout>);

impl Replica {
    fn start(server: &Server, schema: &str, job: &[&str]) -> Result<Replica> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["child", job[0], "--store", &server.url(), "--schema", schema])
            .args(&job[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut replica = Replica(child, output);
        match replica.line()?.as_str() {
            "ready" => Ok(replica),
            other => Err(format!("the replica said {other:?}").into()),
        }
    }

    fn go(&mut self) -> Result<()> {
        Ok(self.0.stdin.as_mut().ok_or("no input")?.write_all(b"go\n")?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.1.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two processes against one, on the same machine: in tasks a second, and in statements for each.
async fn replicas(args: &EngineArgs, report: &mut Report, server: &Server) -> Result<()> {
    eprintln!("replicas");
    let (rounds, seconds) = if args.quick { (1, 2) } else { (5, 5) };
    let statements = Statements::open(&server.url()).await?;
    let (mut shared, mut doubled) = (Vec::new(), Vec::new());
    let mut costs = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        let mut rates = Vec::new();
        // The same load on two, and the same load on each of two.
        for (which, (count, each)) in [(1, 256), (2, 128), (2, 256)].into_iter().enumerate() {
            let (rate, cost) = together(server, &statements, count, each, seconds).await?;
            rates.push(rate);
            costs[which].push(cost);
        }
        shared.push(rates[1] / rates[0]);
        doubled.push(rates[2] / rates[0]);
    }
    report.add("pg_two_replicas_ratio", shared, Bound::AtLeast(0.9));
    report.add("pg_two_full_replicas_ratio", doubled, Bound::AtLeast(0.9));
    let [one, shared, doubled] = costs;
    let more = doubled.iter().zip(&one).map(|(two, one)| two / one).collect();
    report.add("pg_statements_per_task", one, Bound::None);
    report.add("pg_statements_per_task_of_two", shared, Bound::None);
    report.add("pg_statements_per_task_of_two_full", doubled, Bound::None);
    // With as much to do each, so that their batches are of the same size.
    report.add("pg_statements_ratio", more, Bound::AtMost(1.1));
    Ok(())
}

/// Tasks a second of some processes on one store, and statements for each task.
async fn together(
    server: &Server,
    statements: &Statements,
    count: usize,
    each: u32,
    seconds: u32,
) -> Result<(f64, f64)> {
    let schema = fresh();
    let (each, time) = (each.to_string(), seconds.to_string());
    let job = ["replica", "--count", &each, "--round", &time];
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(Replica::start(server, &schema, &job)?);
    }
    let before = statements.count().await?;
    for replica in &mut all {
        replica.go()?;
    }
    let mut rate = 0.0;
    for replica in &mut all {
        rate += replica.line()?.parse::<f64>()?;
    }
    let cost = (statements.count().await? - before) / (rate * f64::from(seconds));
    Ok((rate, cost))
}

/// What a process asks the database when there is nothing to do.
async fn idle(args: &EngineArgs, report: &mut Report, server: &Server) -> Result<()> {
    eprintln!("idle");
    let seconds = if args.quick { 5 } else { 30 };
    let statements = Statements::open(&server.url()).await?;
    let schema = fresh();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        replicas.push(Replica::start(server, &schema, &["nanos"])?);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = statements.count().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    // The question itself is one.
    let asked = statements.count().await? - before - 1.0;
    report.add("pg_idle_qps", vec![asked / seconds as f64 / 2.0], Bound::AtMost(5.0));
    Ok(())
}

/// From an answer here to the task that goes on over there.
async fn wake(args: &EngineArgs, report: &mut Report, server: &Server) -> Result<()> {
    eprintln!("wake");
    let schema = fresh();
    let _there = Replica::start(server, &schema, &["nanos"])?;
    let none = Settings { max_running: 0, max_activities: 0, ..Settings::default() };
    let store = open(&server.url(), &schema).await?;
    let engine = tools::register(Engine::builder(store), &Probe::default()).settings(none).start();
    let tasks = engine.tasks(tools::ada());
    let mut times = Vec::new();
    for round in 0..if args.quick { 10 } else { 200_u64 } {
        let id = tasks.start("nanos", &round).await?.id;
        tasks.wait_for(&id, |info| info.status == Status::InputRequired).await?;
        // In memory over there at first, and later not: both happen.
        let pause = if round % 2 == 0 { 20 } else { 600 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let begun = crate::load::nanos();
        tasks.answer(&id, "input", yes()).await?;
        let ended = tasks.wait(&id).await?;
        let went_on: u64 = ended.output.ok_or("it failed")?.read()?;
        times.push(went_on.saturating_sub(begun) as f64 / 1e6);
    }
    report.add("pg_wake_p50_ms", times, Bound::AtMost(20.0));
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

fn yes() -> Answer {
    Answer { action: Action::Accept, content: Json::of(&json!({ "approved": true })).ok() }
}

/// A million tasks that wait, against a thousand.
async fn million(args: &EngineArgs, report: &mut Report, server: &Server) -> Result<()> {
    let many: u64 = if args.quick { 20_000 } else { 1_000_000 };
    let stores = [(fresh(), 1_000), (fresh(), many)];
    for (schema, count) in &stores {
        eprintln!("parked: filling a store with {count} tasks");
        let store = open(&server.url(), schema).await?;
        parked::fill_on(store, *count, &tools::ada()).await?;
    }
    // As a database that has been there for a while.
    let statements = Statements::open(&server.url()).await?;
    statements.tidy().await?;
    let mut sites = Vec::new();
    for (schema, count) in &stores {
        let store = open(&server.url(), schema).await?;
        let engine = tools::register(Engine::builder(store), &Probe::default()).start();
        sites.push(Site { tasks: engine.tasks(tools::ada()), engine, count: *count });
    }
    let [few, all] = &sites[..] else { return Err("two stores were filled".into()) };
    let rounds = if args.quick { 1 } else { 5 };
    let (mut get, mut list, mut answer) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut times = [const { Vec::new() }; 6];
        for n in 0..200_u64 {
            let n = round * 200 + n;
            // Who comes first changes: the second finds the code in the processor's caches. Answers are to
            // every other, so it is not by that.
            let mut order = [(0, few), (1, all)];
            if n / 2 % 2 == 1 {
                order.reverse();
            }
            for (which, site) in order {
                times[which].push(site.get(n).await?);
                times[2 + which].push(site.list().await?);
                if n % 2 == 0 {
                    times[4 + which].push(site.answer(n / 2).await?);
                }
            }
        }
        let [get_few, get_all, list_few, list_all, answer_few, answer_all] =
            times.map(|times| median(&times));
        get.push(get_all / get_few);
        list.push(list_all / list_few);
        answer.push(answer_all / answer_few);
    }
    let most = [&get, &list, &answer].map(|ratio| median(ratio)).into_iter().fold(0.0, f64::max);
    let many = short(many);
    report.add(format!("pg_{many}_get_ratio"), get, Bound::None);
    report.add(format!("pg_{many}_list_ratio"), list, Bound::None);
    report.add(format!("pg_{many}_answer_ratio"), answer, Bound::None);
    report.add(format!("pg_{many}_ratio"), vec![most], Bound::AtMost(1.5));
    for site in sites {
        site.engine.shutdown(Duration::from_secs(10)).await;
    }
    Ok(())
}

/// A store full of tasks that wait.
struct Site {
    engine: Engine,
    tasks: Tasks,
    count: u64,
}

impl Site {
    /// Seconds for one of those that are never answered here.
    async fn get(&self, n: u64) -> Result<f64> {
        let half = self.count / 2;
        let id = TaskId::new(parked::name(half + n * 7_919 % half))?;
        let begun = Instant::now();
        self.tasks.get(&id).await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    async fn list(&self) -> Result<f64> {
        let begun = Instant::now();
        self.tasks.list(ListTasks { limit: 50, ..ListTasks::default() }).await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Until the task has its answer and has ended: one of the older half, spread over it.
    async fn answer(&self, n: u64) -> Result<f64> {
        let id = TaskId::new(parked::name(n * (self.count / 2 / 500)))?;
        let begun = Instant::now();
        self.tasks.answer(&id, "input", yes()).await?;
        self.tasks.wait(&id).await?;
        Ok(begun.elapsed().as_secs_f64())
    }
}
