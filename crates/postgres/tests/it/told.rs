//! How processes hear of each other.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use steadfast_core::Timestamp;
use steadfast_postgres::{Store, testing, testing::Setup};
use steadfast_store::{ClaimTasks, NewTask, Store as _};
use tokio::sync::Notify;

use crate::common::{held, task, turn};

/// Waits until nothing more is heard of what was.
async fn quiet(changed: &Notify) {
    while tokio::time::timeout(Duration::from_millis(1300), changed.notified()).await.is_ok() {}
}

async fn heard(changed: &Notify) -> Duration {
    let begun = Instant::now();
    tokio::time::timeout(Duration::from_secs(5), changed.notified()).await.unwrap();
    begun.elapsed()
}

async fn pair(listen: bool) -> (Store, Store, Arc<Notify>) {
    let options = testing::shared().unwrap().options().listen(listen);
    let (one, two) = (options.clone().open().await.unwrap(), options.open().await.unwrap());
    let changed = two.changed();
    quiet(&changed).await;
    (one, two, changed)
}

#[tokio::test]
async fn others_hear_of_a_ready_task_and_of_an_event_soon() {
    let (one, _two, changed) = pair(true).await;
    one.start(NewTask { hold: false, ..task("a") }).await.unwrap();
    let ready = heard(&changed).await;
    assert!(ready < Duration::from_millis(200), "{ready:?}");
    let lease = held(&one, "b").await;
    quiet(&changed).await;
    one.turn(turn(lease, 1, "x")).await.unwrap();
    let event = heard(&changed).await;
    assert!(event < Duration::from_millis(200), "{event:?}");
}

#[tokio::test]
async fn a_notify_that_is_lost_costs_time_only() {
    let (one, _two, changed) = pair(false).await;
    let lease = held(&one, "a").await;
    let late = heard(&changed).await;
    assert!(late < Duration::from_millis(1500), "{late:?}");
    quiet(&changed).await;
    one.turn(turn(lease, 1, "x")).await.unwrap();
    assert!(heard(&changed).await < Duration::from_millis(1500));
}

/// It has no time to say anything after that.
#[tokio::test]
async fn others_hear_at_once_of_what_a_process_gives_back_when_it_goes() {
    let (one, two, changed) = pair(true).await;
    held(&one, "a").await;
    quiet(&changed).await;
    one.close().await.unwrap();
    one.kill();
    let late = heard(&changed).await;
    assert!(late < Duration::from_millis(200), "{late:?}");
    let tools = vec![("tool".into(), 1, 1)];
    let claim = ClaimTasks { tools, limit: 9, now: Timestamp(1) };
    assert_eq!(two.claim(claim).await.unwrap().len(), 1);
}

#[tokio::test]
async fn nobody_is_told_of_his_own_doings() {
    let (one, two, changed) = pair(true).await;
    let lease = held(&two, "a").await;
    two.turn(turn(lease, 1, "x")).await.unwrap();
    two.start(NewTask { hold: false, ..task("b") }).await.unwrap();
    let own = tokio::time::timeout(Duration::from_millis(1300), changed.notified()).await;
    assert!(own.is_err());
    drop(one);
}

#[tokio::test]
async fn an_idle_process_asks_little() {
    let server = Setup::default().start().unwrap();
    let options = server.options();
    let (_one, _two) = (options.clone().open().await.unwrap(), options.open().await.unwrap());
    let url = server.url().replace("?sslmode=disable", "");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let count = async || {
        // What a process did is counted a second after it did it, or later.
        let sql = "SELECT pg_stat_clear_snapshot(), xact_commit + xact_rollback FROM \
                   pg_stat_database WHERE datname = 'postgres'";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(1)
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = count().await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let each = (count().await - before) as f64 / 4.0 / 2.0;
    assert!(each < 2.5, "{each} a second");
}
