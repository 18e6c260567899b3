//! The floor: rows of the same size, group-committed by plain SQLite.

use std::{
    path::Path,
    sync::mpsc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::Result;

/// The bytes of one of the engine's commits in the three-step workload, on average: the first event
/// and the task's row, two results, and the last result with the end.
pub(crate) const ROW: usize = 150;

fn open(path: &Path) -> Result<Connection> {
    let conn = Connection::open(path)?;
    conn.pragma_update(None, "journal_mode", "wal")?;
    conn.pragma_update(None, "synchronous", "full")?;
    conn.execute_batch("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, body BLOB NOT NULL)")?;
    Ok(conn)
}

fn flush(delay: Duration) {
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
}

/// A row on its way to the writer, and who waits for it.
struct Row<R> {
    body: Vec<u8>,
    reply: R,
}

/// Group commit: takes all that waits, inserts it, commits, and answers each.
fn write<R: Send + 'static>(
    conn: Connection,
    receive: mpsc::Receiver<Row<R>>,
    delay: Duration,
    answer: impl Fn(R) + Send + 'static,
) -> JoinHandle<rusqlite::Result<()>> {
    std::thread::spawn(move || {
        let mut waiting = Vec::new();
        while let Ok(first) = receive.recv() {
            waiting.push(first);
            waiting.extend(receive.try_iter().take(2_047));
            conn.execute_batch("BEGIN IMMEDIATE")?;
            {
                let mut insert = conn.prepare_cached("INSERT INTO t (body) VALUES (?)")?;
                for row in &waiting {
                    insert.execute([&row.body])?;
                }
            }
            conn.execute_batch("COMMIT")?;
            flush(delay);
            waiting.drain(..).for_each(|row| answer(row.reply));
        }
        Ok(())
    })
}

/// Rows a second with this many callers, each a thread that waits for its row.
pub(crate) fn rows_per_s(
    path: &Path,
    at_once: usize,
    time: Duration,
    delay: Duration,
) -> Result<f64> {
    let (send, receive) = mpsc::channel();
    let writer = write(open(path)?, receive, delay, |reply: mpsc::Sender<()>| {
        let _ = reply.send(());
    });
    let begun = Instant::now();
    let caller = |send: mpsc::Sender<Row<mpsc::Sender<()>>>| {
        move || {
            let (reply, done) = mpsc::channel();
            let mut rows = 0u64;
            while begun.elapsed() < time {
                let row = Row { body: vec![b'x'; ROW], reply: reply.clone() };
                if send.send(row).is_err() || done.recv().is_err() {
                    break;
                }
                rows += 1;
            }
            rows
        }
    };
    let callers: Vec<_> = (0..at_once).map(|_| std::thread::spawn(caller(send.clone()))).collect();
    drop(send);
    let rows: u64 = callers.into_iter().filter_map(|caller| caller.join().ok()).sum();
    let taken = begun.elapsed();
    writer.join().map_err(|_| "the writer panicked")??;
    Ok(rows as f64 / taken.as_secs_f64())
}

/// The same with callers that are tasks of a runtime, as the engine's are: they cost next to
/// nothing to wake, so that this is the fastest that rows can be committed here.
pub(crate) async fn rows_per_s_async(
    path: &Path,
    at_once: usize,
    time: Duration,
    delay: Duration,
) -> Result<f64> {
    let (send, receive) = mpsc::channel();
    let writer = write(open(path)?, receive, delay, |reply: oneshot::Sender<()>| {
        let _ = reply.send(());
    });
    let begun = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let send = send.clone();
        callers.spawn(async move {
            let mut rows = 0u64;
            while begun.elapsed() < time {
                let (reply, done) = oneshot::channel();
                let row = Row { body: vec![b'x'; ROW], reply };
                if send.send(row).is_err() || done.await.is_err() {
                    break;
                }
                rows += 1;
            }
            rows
        });
    }
    drop(send);
    let rows: u64 = callers.join_all().await.into_iter().sum();
    let taken = begun.elapsed();
    writer.join().map_err(|_| "the writer panicked")??;
    Ok(rows as f64 / taken.as_secs_f64())
}

/// Seconds for a commit at the median, by callers that each wait for so long before the next one.
pub(crate) async fn paced(path: &Path, at_once: usize, each: u32, pause: Duration) -> Result<f64> {
    let (send, receive) = mpsc::channel();
    let writer = write(open(path)?, receive, Duration::ZERO, |reply: oneshot::Sender<()>| {
        let _ = reply.send(());
    });
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let send = send.clone();
        callers.spawn(async move {
            let mut times = Vec::new();
            for _ in 0..each {
                tokio::time::sleep(pause).await;
                let begun = Instant::now();
                let (reply, done) = oneshot::channel();
                let row = Row { body: vec![b'x'; ROW], reply };
                if send.send(row).is_err() || done.await.is_err() {
                    break;
                }
                times.push(begun.elapsed().as_secs_f64());
            }
            times
        });
    }
    drop(send);
    let times = callers.join_all().await.concat();
    writer.join().map_err(|_| "the writer panicked")??;
    Ok(crate::report::median(&times))
}

/// Seconds for four commits, one after the other, by one caller.
pub(crate) fn four_commits(path: &Path, rounds: u32, delay: Duration) -> Result<f64> {
    let conn = open(path)?;
    let mut insert = conn.prepare("INSERT INTO t (body) VALUES (?)")?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begun = Instant::now();
        for _ in 0..4 {
            insert.execute([vec![b'x'; ROW]])?;
            flush(delay);
        }
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(crate::report::median(&times.split_off(times.len() / 2)))
}

/// Single commits of a row, one at a time.
pub(crate) struct Commits(Connection);

impl Commits {
    pub(crate) fn open(dir: &Path) -> Result<Commits> {
        Ok(Commits(open(&dir.join("floor"))?))
    }

    pub(crate) fn once(&self) -> Result<()> {
        self.0.execute("INSERT INTO t (body) VALUES (?)", [[0_u8; ROW]])?;
        Ok(())
    }
}
