//! How processes hear of each other.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use steadfast_core::Timestamp;
use steadfast_postgres::{Options, Store, testing, testing::Setup};
use steadfast_store::{
    After, Cancel, Change, Changes, ClaimTasks, Lease, NewTask, SendTo, Store as _, Turn, Which,
};

use crate::common::{held, id, operator, task, turn};

/// Waits until nothing more is heard of what was.
async fn quiet(changed: &Changes) {
    while tokio::time::timeout(Duration::from_millis(1300), changed.next()).await.is_ok() {}
}

async fn heard(changed: &Changes) -> Duration {
    let begun = Instant::now();
    tokio::time::timeout(Duration::from_secs(5), changed.next()).await.unwrap();
    begun.elapsed()
}

async fn pair(listen: bool) -> (Store, Store, Arc<Changes>) {
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
    let own = tokio::time::timeout(Duration::from_millis(1300), changed.next()).await;
    assert!(own.is_err());
    drop(one);
}

/// What the next words said, all together.
async fn next(changed: &Changes) -> Change {
    let limit = Duration::from_secs(5);
    tokio::time::timeout(limit, changed.next()).await.expect("something is said")
}

fn about(lease: Lease) -> Change {
    let tasks = Which::These(BTreeSet::from([lease.key]));
    Change { tasks, ..Change::nothing() }
}

#[tokio::test]
async fn everybody_hears_what_is_his_to_do_and_others_what_there_is_to_see() {
    let options = testing::shared().unwrap().options();
    let one = options.clone().open().await.unwrap();
    let two = options.clone().open().await.unwrap();
    let three = options.open().await.unwrap();
    let (second, third) = (two.changed(), three.changed());
    let lease = held(&two, "a").await;
    let other = held(&one, "b").await;
    quiet(&second).await;
    quiet(&third).await;

    let letter = SendTo { id: id("a"), body: b"x".to_vec(), keep_until: None };
    one.send(operator(), letter).await.unwrap();
    assert_eq!(next(&second).await, Change { held: true, ..about(lease) });
    assert_eq!(next(&third).await, about(lease));

    let cancel = Cancel {
        at: Timestamp(2),
        event: b"cancelled".to_vec(),
        view: Vec::new(),
        end: Vec::new(),
        tell: Vec::new(),
        expires: None,
        frees: None,
    };
    one.cancel(operator(), id("a"), cancel).await.unwrap();
    assert_eq!(next(&second).await, Change { held: true, ..about(lease) });
    assert_eq!(next(&third).await, about(lease));

    let after = After::Park { wake: Some(Timestamp(77)) };
    one.turn(Turn { after, ..turn(other, 1, "x") }).await.unwrap();
    let parked = Change { due: Some(Timestamp(77)), ..about(other) };
    assert_eq!((next(&second).await, next(&third).await), (parked.clone(), parked));

    one.post(b"hear".to_vec(), Timestamp(99), 9).await.unwrap();
    let news = Change { news: true, ..Change::nothing() };
    assert_eq!((next(&second).await, next(&third).await), (news.clone(), news));
}

#[tokio::test]
async fn what_was_written_without_a_word_is_noticed() {
    let server = Setup::default().start().unwrap();
    let options = Options::new(server.url()).schema("told");
    let (one, two) = (options.clone().open().await.unwrap(), options.open().await.unwrap());
    let changed = two.changed();
    quiet(&changed).await;
    let url = server.url().replace("?sslmode=disable", "");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // As if a process had died between its commit and its word.
    let sql = "UPDATE told.writer SET batch = batch + 1 WHERE desk = $1 AND lane = 2";
    client.execute(sql, &[&one.desk().0]).await.unwrap();
    assert_eq!(next(&changed).await, Change::anything());
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
