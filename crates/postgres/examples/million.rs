//! What it costs to read and answer tasks among a million parked ones, against a thousand.
//!
//! `cargo run --release -p steadfast-postgres --example million --features testing -- 1000000`

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::{Duration, Instant};

use steadfast_core::{Principal, Status, TaskId, Timestamp};
use steadfast_postgres::{Store, testing, testing::Setup};
use steadfast_store::{Caller, Filter, Order, Store as _};

/// Parked tasks, each with an open question.
fn fill(count: usize) -> String {
    format!(
        "INSERT INTO task SELECT k, k, k, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, 0, 1,
            3, 1, false, 'id' || k, 'tool' || k % 5, 'owner' || k % 50, NULL, NULL,
            decode(repeat('61', 200), 'hex'), 'view', NULL
         FROM generate_series(1, {count}) k;
         INSERT INTO event SELECT k, s, decode(repeat('61', 100), 'hex')
         FROM generate_series(1, {count}) k, generate_series(0, 1) s;
         INSERT INTO question SELECT k, 1, 1, 'q', 'body' FROM generate_series(1, {count}) k;
         SELECT setval('task_key', {count}); ANALYZE"
    )
}

struct Among {
    store: Store,
    count: u64,
    last: u64,
}

impl Among {
    /// Another task, anywhere among them, and never the same.
    fn next(&mut self) -> TaskId {
        self.last = (self.last + 1) % self.count;
        // Odd and prime to both counts.
        let key = self.last.wrapping_mul(387_420_489) % self.count + 1;
        TaskId::new(format!("id{key}")).unwrap()
    }

    async fn time(&mut self, what: &str) -> Duration {
        let caller = Caller { principal: None, now: Timestamp(0) };
        let id = self.next();
        let begun = Instant::now();
        match what {
            "get" => drop(self.store.get_with_questions(caller, id).await.unwrap()),
            "answer" => {
                self.store.answer(caller, id, "q".into(), b"yes".to_vec()).await.unwrap();
            }
            _ => {
                let owner = Principal::new(format!("owner{}", self.last % 50)).ok();
                let statuses = vec![Status::InputRequired];
                let filter = Filter { owner, statuses, ..Filter::default() };
                let page = self.store.list(filter, Order::NewestFirst, None, 10).await.unwrap();
                assert_eq!(page.tasks.len(), 10);
            }
        }
        begun.elapsed()
    }
}

#[tokio::main]
async fn main() {
    let count = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let setup = Setup::default().fsync(true).set("max_wal_size", "8GB");
    let server = setup.set("shared_buffers", "1GB").start().unwrap();
    let mut both = Vec::new();
    for count in [1_000, count] {
        let options = server.options();
        options.clone().migrate().await.unwrap();
        testing::sql(&options, &fill(count)).await.unwrap();
        testing::sql(&options, "VACUUM").await.unwrap();
        both.push(Among { store: options.open().await.unwrap(), count: count as u64, last: 0 });
    }
    for what in ["get", "list", "answer"] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..700 {
            for (among, times) in both.iter_mut().zip(&mut times) {
                times.push(among.time(what).await);
            }
        }
        let [few, many] = times.map(|mut times| {
            times.sort();
            times[times.len() / 2].as_secs_f64() * 1e6
        });
        let ratio = many / few;
        println!("{what}: {few:.0} µs among 1000, {many:.0} µs among {count}, ratio {ratio:.2}");
    }
    for among in &both {
        let begun = Instant::now();
        let caller = Caller { principal: Principal::new("owner1").ok(), now: Timestamp(0) };
        among.store.counts(caller).await.unwrap();
        println!("counts of one principal among {}: {:?}", among.count, begun.elapsed());
    }
}
