//! How many commits a second: many callers that each start a task, take turns and end it, against
//! callers whose rows are inserted in batches by hand.
//!
//! `cargo run --release -p steadfast-postgres --example throughput --features testing -- 256 5`

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use steadfast_core::{Status, TaskId, Timestamp};
use steadfast_postgres::{Store, testing::Setup};
use steadfast_store::{After, Lease, NewTask, Started, Store as _, Turn};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::ToSql;

fn task(id: String) -> NewTask {
    NewTask {
        id: TaskId::new(id).unwrap(),
        tool: "bench".into(),
        version: Some(1),
        owner: None,
        tags: Default::default(),
        parent: None,
        dedup: None,
        bound: false,
        status: Status::Running,
        created: Timestamp(1),
        wake: None,
        expires: None,
        hold: true,
        about: vec![b'a'; 200],
        view: b"{}".to_vec(),
        events: vec![vec![b'e'; 100]],
    }
}

fn turn(lease: Lease, first: u64, ends: bool) -> Turn {
    let after = match ends {
        false => After::Keep,
        true => After::End {
            status: Status::Completed,
            expires: Some(Timestamp(1_000)),
            end: vec![b'r'; 100],
            tell: vec![],
            keep: false,
        },
    };
    Turn {
        lease,
        at: Timestamp(2),
        first,
        events: vec![vec![b'e'; 100]; if ends { 2 } else { 1 }],
        restart: false,
        consumed: None,
        view: None,
        progress: true,
        effects: Vec::new(),
        after,
    }
}

static LAST: AtomicU64 = AtomicU64::new(0);

async fn measure(stores: &[Arc<Store>], callers: usize, time: Duration) -> (f64, f64, f64) {
    let stop = Arc::new(AtomicBool::new(false));
    let commits = Arc::new(AtomicU64::new(0));
    let mut all = Vec::new();
    for caller in 0..callers {
        let (store, stop, commits) =
            (stores[caller % stores.len()].clone(), stop.clone(), commits.clone());
        all.push(tokio::spawn(async move {
            let mut waits = Vec::new();
            for _ in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let begun = Instant::now();
                let n = LAST.fetch_add(1, Ordering::Relaxed);
                let id = format!("{n:015x}-{n:032x}");
                let started = store.start(task(id)).await.unwrap();
                waits.push(begun.elapsed());
                let Started::New { lease: Some(lease), .. } = started else { panic!() };
                for (first, ends) in [(1, false), (2, false), (3, true)] {
                    store.turn(turn(lease, first, ends)).await.unwrap();
                }
                commits.fetch_add(4, Ordering::Relaxed);
            }
            waits
        }));
    }
    tokio::time::sleep(WARM_UP).await;
    let (begun, before) = (Instant::now(), commits.load(Ordering::Relaxed));
    tokio::time::sleep(time).await;
    let rate = (commits.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let mut waits = Vec::new();
    for caller in all {
        waits.extend(caller.await.unwrap());
    }
    waits.sort();
    let all = commits.load(Ordering::Relaxed) as f64;
    (rate, waits[waits.len() / 2].as_secs_f64() * 1000.0, all)
}

/// What a caller wants to have inserted: a new task or none, and events.
struct Record {
    task: i64,
    new: bool,
    first: i64,
    events: i64,
    done: oneshot::Sender<()>,
}

/// One batcher that inserts the rows of whatever waits, by hand: two statements and one commit.
struct Raw {
    send: mpsc::UnboundedSender<Record>,
    last: Arc<AtomicU64>,
}

impl Raw {
    async fn begin(url: &str, schema: &str) -> Raw {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let tables = format!(
            "CREATE TABLE raw_task (LIKE {schema}.task INCLUDING ALL);
             CREATE TABLE raw_event (LIKE {schema}.event INCLUDING ALL)"
        );
        client.batch_execute(&tables).await.unwrap();
        let task = "INSERT INTO raw_task SELECT k, 1, 1, NULL, NULL, NULL, NULL, NULL, 1, NULL, 0, \
                    1, 0, 0, 1, 1, 0, false, i, 'bench', '', NULL, NULL, a, v, NULL \
                    FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[]) u (k, i, a, v)";
        let event = "INSERT INTO raw_event \
                     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])";
        let (task, event) =
            (client.prepare(task).await.unwrap(), client.prepare(event).await.unwrap());
        let (send, mut records) = mpsc::unbounded_channel::<Record>();
        tokio::spawn(async move {
            let mut batch = Vec::new();
            while records.recv_many(&mut batch, 1024).await > 0 {
                let new: Vec<i64> = batch.iter().filter(|r| r.new).map(|r| r.task).collect();
                let ids: Vec<String> = new.iter().map(|n| format!("{n:015x}-{n:032x}")).collect();
                let (about, view) = (vec![vec![b'a'; 200]; new.len()], vec![&b"{}"[..]; new.len()]);
                let (mut of, mut seq) = (Vec::new(), Vec::new());
                for record in &batch {
                    for n in 0..record.events {
                        of.push(record.task);
                        seq.push(record.first + n);
                    }
                }
                let body = vec![vec![b'e'; 100]; of.len()];
                let task_rows: [&(dyn ToSql + Sync); 4] = [&new, &ids, &about, &view];
                let event_rows: [&(dyn ToSql + Sync); 3] = [&of, &seq, &body];
                let (begun, tasks, events, committed) = tokio::join!(
                    client.batch_execute("BEGIN"),
                    client.execute(&task, &task_rows),
                    client.execute(&event, &event_rows),
                    client.batch_execute("COMMIT")
                );
                begun.unwrap();
                tasks.and(events).unwrap();
                committed.unwrap();
                for record in batch.drain(..) {
                    let _ = record.done.send(());
                }
            }
        });
        Raw { send, last: Arc::default() }
    }

    async fn measure(&self, callers: usize, time: Duration) -> f64 {
        let stop = Arc::new(AtomicBool::new(false));
        let commits = Arc::new(AtomicU64::new(0));
        let mut all = Vec::new();
        for _ in 0..callers {
            let (send, last) = (self.send.clone(), self.last.clone());
            let (stop, commits) = (stop.clone(), commits.clone());
            all.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let task = last.fetch_add(1, Ordering::Relaxed) as i64;
                    for (first, events) in [(0, 1), (1, 1), (2, 1), (3, 2)] {
                        let (done, wait) = oneshot::channel();
                        send.send(Record { task, new: first == 0, first, events, done })
                            .unwrap_or(());
                        wait.await.unwrap();
                    }
                    commits.fetch_add(4, Ordering::Relaxed);
                }
            }));
        }
        tokio::time::sleep(WARM_UP).await;
        let (begun, before) = (Instant::now(), commits.load(Ordering::Relaxed));
        tokio::time::sleep(time).await;
        let rate =
            (commits.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for caller in all {
            caller.await.unwrap();
        }
        rate
    }
}

const WARM_UP: Duration = Duration::from_millis(300);

/// Where the server's time went, statement by statement.
async fn explain(url: &str, commits: f64) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = "SELECT calls, total_exec_time, rows, regexp_replace(query, '\\s+', ' ', 'g') \
               FROM pg_stat_statements ORDER BY 2 DESC LIMIT 14";
    for row in client.query(sql, &[]).await.unwrap() {
        let (calls, time, rows): (i64, f64, i64) = (row.get(0), row.get(1), row.get(2));
        let text: String = row.get::<_, String>(3).chars().take(60).collect();
        println!(
            "{:6.2} µs a commit, {calls} calls of {:.0} µs, {:.1} rows each: {text}",
            time * 1000.0 / commits,
            time * 1000.0 / calls as f64,
            rows as f64 / calls as f64
        );
    }
}

/// Seconds of processor time that the server has used, and that we have.
fn used(port: u16) -> (f64, f64) {
    let read = |pid: &str, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    let time = |pid: &str| {
        let stat = read(pid, "stat").unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
        (
            fields.get(1).map(|f| (*f).to_owned()).unwrap_or_default(),
            (ticks(11) + ticks(12)) / 100.0,
        )
    };
    let pids: Vec<String> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        .collect();
    let mark = format!("port={port}");
    let is_server = |pid: &&String| {
        read(pid, "cmdline").is_ok_and(|line| line.contains(&mark) && !line.starts_with("sh"))
    };
    let Some(server) = pids.iter().find(is_server) else { return (0.0, 0.0) };
    let of_server = |pid: &&String| *pid == server || time(pid).0 == *server;
    (pids.iter().filter(of_server).map(|pid| time(pid).1).sum(), time("self").1)
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |or: usize| args.next().and_then(|text| text.parse().ok()).unwrap_or(or);
    let (callers, rounds, handles) = (number(256), number(5), number(1));
    let time = Duration::from_millis(1_500);
    let statements = std::env::var_os("STATEMENTS").is_some();
    let setup = Setup::default().fsync(true).set("max_wal_size", "4GB");
    let setup = match statements {
        true => setup.set("shared_preload_libraries", "pg_stat_statements"),
        false => setup,
    };
    let server = setup.start().unwrap();
    let options = server.options();
    let mut stores = Vec::new();
    for _ in 0..handles {
        stores.push(Arc::new(options.clone().open().await.unwrap()));
    }
    let raw = Raw::begin(&server.url(), options.schema_name()).await;
    let (mut raws, mut rates, mut ratios) = (vec![], vec![], vec![]);
    let (mut commits, mut theirs, mut ours) = (0.0, 0.0, 0.0);
    // In turns, as a machine is not always equally fast.
    for round in 0..rounds {
        let base = raw.measure(callers, time).await;
        if statements && round == 0 {
            run(&server.url(), "CREATE EXTENSION pg_stat_statements").await;
            run(&server.url(), "SELECT pg_stat_statements_reset()").await;
        }
        let before = used(server.port());
        let (rate, wait, more) = measure(&stores, callers, time).await;
        let after = used(server.port());
        (commits, theirs, ours) =
            (commits + more, theirs + after.0 - before.0, ours + after.1 - before.1);
        println!("raw {base:.0}/s, store {rate:.0}/s, p50 of a start {wait:.2} ms");
        raws.push(base);
        rates.push(rate);
        ratios.push(rate / base);
    }
    if statements {
        explain(&server.url(), commits).await;
    }
    println!(
        "{callers} callers on {handles} handles: raw {:.0}/s, store {:.0}/s, ratio {:.2} (medians); \
         processor time of a commit: {:.1} µs of the server, {:.1} µs of ours",
        median(raws),
        median(rates),
        median(ratios),
        theirs / commits * 1e6,
        ours / commits * 1e6
    );
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

async fn run(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
}
