//! How long it takes from an answer in one process until another has the task.
//!
//! `cargo run --release -p steadfast-postgres --example wake --features testing`

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::{Duration, Instant};

use steadfast_core::{OpId, Status, TaskId, Timestamp};
use steadfast_postgres::testing::Setup;
use steadfast_store::{After, Caller, ClaimTasks, Effect, NewTask, Started, Store as _, Turn};

#[tokio::main]
async fn main() {
    let server = Setup::default().fsync(true).start().unwrap();
    let options = server.options();
    let (one, two) = (options.clone().open().await.unwrap(), options.open().await.unwrap());
    let changed = two.changed();
    let mut waits = Vec::new();
    for n in 0..300 {
        let id = TaskId::new(format!("t{n}")).unwrap();
        let new = NewTask {
            id: id.clone(),
            tool: "t".into(),
            version: Some(1),
            owner: None,
            tags: Default::default(),
            parent: None,
            dedup: None,
            bound: false,
            status: Status::Running,
            created: Timestamp(0),
            wake: None,
            expires: None,
            hold: true,
            about: vec![],
            view: vec![],
            events: vec![],
        };
        let Started::New { lease: Some(lease), .. } = two.start(new).await.unwrap() else {
            panic!()
        };
        let ask = Effect::OpenQuestion { key: "q".into(), op: OpId(1), body: vec![] };
        let parks = Turn {
            lease,
            at: Timestamp(1),
            first: 0,
            events: vec![],
            restart: false,
            consumed: None,
            view: None,
            progress: true,
            effects: vec![ask],
            after: After::Park { wake: None },
        };
        two.turn(parks).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        let begun = Instant::now();
        let caller = Caller { principal: None, now: Timestamp(0) };
        one.answer(caller, id, "q".into(), b"yes".to_vec()).await.unwrap();
        loop {
            let tools = vec![("t".into(), 1, 1)];
            let claim = ClaimTasks { tools, limit: 9, now: Timestamp(0) };
            changed.next().await;
            if !two.claim(claim).await.unwrap().is_empty() {
                break;
            }
        }
        waits.push(begun.elapsed());
    }
    waits.sort();
    println!("p50 {:?}, p90 {:?}, longest {:?}", waits[150], waits[270], waits[299]);
}
