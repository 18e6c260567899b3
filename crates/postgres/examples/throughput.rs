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

async fn measure(stores: Vec<Arc<Store>>, callers: usize, time: Duration) -> (f64, f64) {
    let stop = Arc::new(AtomicBool::new(false));
    let commits = Arc::new(AtomicU64::new(0));
    let mut all = Vec::new();
    for caller in 0..callers {
        let (store, stop, commits) =
            (stores[caller % stores.len()].clone(), stop.clone(), commits.clone());
        all.push(tokio::spawn(async move {
            let mut waits = Vec::new();
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let begun = Instant::now();
                let number = u64::from(std::process::id()) << 32 | n << 12 | caller as u64;
                let id = format!("{number:015x}-{n:032x}");
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
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (begun, before) = (Instant::now(), commits.load(Ordering::Relaxed));
    tokio::time::sleep(time).await;
    let rate = (commits.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let mut waits = Vec::new();
    for caller in all {
        waits.extend(caller.await.unwrap());
    }
    waits.sort();
    (rate, waits[waits.len() / 2].as_secs_f64() * 1000.0)
}

/// One batcher that inserts whatever waits, with one statement and one commit.
async fn raw(url: &str, callers: usize, time: Duration) -> f64 {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let table = "CREATE TABLE IF NOT EXISTS raw (task bigint, seq bigint, body bytea NOT NULL, \
                 PRIMARY KEY (task, seq))";
    client.batch_execute(table).await.unwrap();
    let sql = "INSERT INTO raw SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])";
    let insert = client.prepare(sql).await.unwrap();
    type Record = (i64, i64, Vec<u8>, oneshot::Sender<()>);
    let (send, mut records) = mpsc::unbounded_channel::<Record>();
    let batcher = tokio::spawn(async move {
        let mut batch = Vec::new();
        while records.recv_many(&mut batch, 1024).await > 0 {
            let task: Vec<i64> = batch.iter().map(|r| r.0).collect();
            let seq: Vec<i64> = batch.iter().map(|r| r.1).collect();
            let body: Vec<&[u8]> = batch.iter().map(|r| r.2.as_slice()).collect();
            client.execute(&insert, &[&task, &seq, &body]).await.unwrap();
            for (.., done) in batch.drain(..) {
                let _ = done.send(());
            }
        }
    });
    let stop = Arc::new(AtomicBool::new(false));
    let commits = Arc::new(AtomicU64::new(0));
    let mut all = Vec::new();
    for caller in 0..callers {
        let (send, stop, commits) = (send.clone(), stop.clone(), commits.clone());
        all.push(tokio::spawn(async move {
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                for seq in 0..4 {
                    let (done, wait) = oneshot::channel();
                    send.send((n << 12 | caller as i64, seq, vec![b'e'; 100], done)).unwrap();
                    wait.await.unwrap();
                }
                commits.fetch_add(4, Ordering::Relaxed);
            }
        }));
    }
    drop(send);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (begun, before) = (Instant::now(), commits.load(Ordering::Relaxed));
    tokio::time::sleep(time).await;
    let rate = (commits.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for caller in all {
        caller.await.unwrap();
    }
    batcher.await.unwrap();
    rate
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |or: usize| args.next().and_then(|text| text.parse().ok()).unwrap_or(or);
    let (callers, seconds, handles) = (number(256), number(5), number(1));
    let time = Duration::from_secs(seconds as u64);
    let server = Setup::default().fsync(true).set("max_wal_size", "4GB").start().unwrap();
    let options = server.options();
    let base = raw(&server.url(), callers, time).await;
    println!("raw: {base:.0} records/s with {callers} callers");
    let mut stores = Vec::new();
    for _ in 0..handles {
        stores.push(Arc::new(options.clone().open().await.unwrap()));
    }
    let (rate, wait) = measure(stores, callers, time).await;
    println!(
        "store: {rate:.0} commits/s with {callers} callers on {handles} handles, \
         p50 of a start {wait:.2} ms; ratio {:.2}",
        rate / base
    );
}
