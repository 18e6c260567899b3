//! A server that goes away, refuses, or is in the way.

use std::time::{Duration, Instant};

use steadfast_postgres::{Options, Store, testing, testing::Setup};
use steadfast_store::{Error, Lease, Store as _};

use crate::{
    common::{held, history, id, operator, task, turn},
    proxy::Proxy,
};

/// Takes a turn as the engine does: for as long as the store is not available.
async fn insist(store: &Store, lease: Lease, first: u64, event: &str) {
    let begun = Instant::now();
    loop {
        match store.turn(turn(lease, first, event)).await {
            Ok(_) => return,
            Err(Error::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

#[tokio::test]
async fn a_server_that_restarts_or_crashes_is_found_again() {
    // With flushes, so that what was acknowledged is there after the crash.
    let server = Setup::default().fsync(true).start().unwrap();
    let store = server.options().lease(Duration::from_secs(60)).open().await.unwrap();
    let lease = held(&store, "a").await;
    let mut expected = vec!["started".to_owned()];
    for n in 1..40 {
        match n {
            10 => server.restart().unwrap(),
            20 => server.crash().unwrap(),
            30 => {
                server.stop().unwrap();
                let down = store.turn(turn(lease, n, "no")).await.unwrap_err();
                assert!(matches!(down, Error::Unavailable(_)), "{down:?}");
                let read = store.get(operator(), id("a")).await.unwrap_err();
                assert!(matches!(read, Error::Unavailable(_)), "{read:?}");
                server.start().unwrap();
            }
            _ => {}
        }
        insist(&store, lease, n, &n.to_string()).await;
        expected.push(n.to_string());
    }
    assert_eq!(history(&store, lease).await, expected);
    assert_eq!(store.held().await.unwrap().len(), 1, "it is the same desk");
}

/// Nobody can be heard while it is down, and nobody is dead for that.
#[tokio::test]
async fn a_server_that_is_down_for_longer_than_a_lease_costs_nobody_his_tasks() {
    let server = Setup::default().start().unwrap();
    let options = server.options().lease(Duration::from_secs(1));
    let (one, two) = (options.clone().open().await.unwrap(), options.open().await.unwrap());
    let (lease, desk) = (held(&one, "a").await, one.desk());
    server.stop().unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    server.start().unwrap();
    insist(&one, lease, 1, "x").await;
    assert_eq!(one.desk(), desk);
    assert!(two.dead().await.unwrap().is_empty());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    insist(&one, lease, 2, "y").await;
    assert!(two.is_alive(desk).await.unwrap());
}

/// The same when it has lost a process of its own, and recovers without a start: that takes as long as it takes.
#[tokio::test]
async fn a_server_that_recovers_for_longer_than_a_lease_costs_nobody_his_tasks() {
    let server = Setup::default().fsync(true).start().unwrap();
    let proxy = Proxy::to(server.port()).await;
    let direct = server.options().lease(Duration::from_secs(1));
    let behind = Options::new(server.url_by(proxy.port)).schema(direct.schema_name());
    let one = behind.lease(Duration::from_secs(1)).open().await.unwrap();
    let two = direct.clone().open().await.unwrap();
    let (lease, desk) = (held(&one, "a").await, one.desk());
    // Not heard of as long as a recovery may take; then it is over.
    proxy.freeze(true);
    let dead = async {
        while two.is_alive(desk).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), dead).await.unwrap();
    let ends_itself = "COPY (SELECT 1) TO PROGRAM 'kill -9 $PPID'";
    testing::sql(&direct, ends_itself).await.unwrap_err();
    proxy.freeze(false);
    insist(&one, lease, 1, "x").await;
    assert_eq!(one.desk(), desk);
    // And no more than that: who is not heard of from then on is dead.
    one.kill();
    let dead = async {
        while two.is_alive(desk).await.unwrap_or(true) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), dead).await.unwrap();
}

/// A server that takes connections and does not answer: calls end all the same.
#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let server = testing::shared().unwrap();
    let proxy = Proxy::to(server.port()).await;
    let direct = server.options();
    let behind = Options::new(server.url_by(proxy.port)).schema(direct.schema_name());
    let store = behind.patience(Duration::from_millis(500)).open().await.unwrap();
    let lease = held(&store, "a").await;
    store.get(operator(), id("a")).await.unwrap();
    proxy.freeze(true);
    let begun = Instant::now();
    let error = store.turn(turn(lease, 1, "x")).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    let error = store.get(operator(), id("a")).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    proxy.freeze(false);
    insist(&store, lease, 1, "x").await;
}

#[tokio::test]
async fn a_server_that_only_reads_is_named_and_waited_for() {
    let server = Setup::default().start().unwrap();
    let options = server.options();
    let store = options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    // Both writers know all by heart.
    for n in 1..9 {
        store.turn(turn(lease, n, "x")).await.unwrap();
    }
    let set = |on: &str| {
        format!("ALTER SYSTEM SET default_transaction_read_only = {on}; SELECT pg_reload_conf()")
    };
    for sql in set("on").split("; ") {
        testing::sql(&options, sql).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..2 {
        let begun = Instant::now();
        let error = store.turn(turn(lease, 9, "x")).await.unwrap_err();
        let named = matches!(&error, Error::Unavailable(text) if text.contains("only reads"));
        assert!(named, "it is known that nothing was written: {error:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
    assert!(store.get(operator(), id("a")).await.is_ok());
    for sql in set("off").split("; ") {
        let sql = format!("SET default_transaction_read_only = off; {sql}");
        for sql in sql.split("; ") {
            let _ = testing::sql(&options, sql).await;
        }
    }
    insist(&store, lease, 9, "x").await;
}

/// Commits wait for a standby that is away. Everybody is alive all the same, reads go on, and no server process
/// is left behind by what is given up.
#[tokio::test]
async fn a_standby_that_is_away_is_waited_for() {
    let server = Setup::default().fsync(true).set("log_connections", "on").start().unwrap();
    let options = server.options().lease(Duration::from_secs(1));
    let (one, two) = (options.clone().open().await.unwrap(), options.clone().open().await.unwrap());
    let (lease, desk) = (held(&one, "a").await, one.desk());
    let standbys = async |names: &str| {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        testing::sql(&options, &set).await.unwrap();
        testing::sql(&options, "SELECT pg_reload_conf()").await.unwrap();
    };
    // So that all connections for it are there.
    for _ in 0..9 {
        assert!(one.get(operator(), id("a")).await.is_ok() && two.is_alive(desk).await.unwrap());
    }
    standbys("nobody").await;
    let waits = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (begun, before) = (Instant::now(), server.connections());
        while begun.elapsed() < Duration::from_secs(4) {
            assert!(two.is_alive(desk).await.unwrap());
            assert!(one.get(operator(), id("a")).await.is_ok());
            let ready = tokio::time::timeout(Duration::from_millis(200), one.check()).await;
            assert!(ready.is_err(), "{ready:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(6), "a read had to wait");
        assert_eq!(server.connections() - before, 0);
        standbys("").await;
    };
    let (taken, ()) = tokio::join!(one.turn(turn(lease, 1, "x")), waits);
    taken.unwrap();
    one.check().await.unwrap();
    assert_eq!(one.desk(), desk);
    assert_eq!(history(&one, lease).await, ["started", "x"]);
}

/// A trigger that fails for some events.
async fn fail(options: &steadfast_postgres::Options, how: &str) {
    let sql = format!(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {how} RETURN NEW; \
         END $$; CREATE TRIGGER fail BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION fail()"
    );
    testing::sql(options, &sql).await.unwrap();
}

#[tokio::test]
async fn one_that_can_not_be_written_fails_alone() {
    let options = testing::shared().unwrap().options();
    let store = options.clone().open().await.unwrap();
    let leases = [held(&store, "a").await, held(&store, "b").await, held(&store, "c").await];
    let how = "IF NEW.body = 'bad' THEN RAISE EXCEPTION 'no' USING ERRCODE = '22000'; END IF;";
    fail(&options, how).await;
    let hold = testing::hold(&options, store.desk()).await.unwrap();
    let take = |n: usize, event: &'static str| store.turn(turn(leases[n], 1, event));
    let release = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(hold);
    };
    let (none, a, b, c, ()) = tokio::join!(
        store.unbind(vec![], crate::common::since(0)),
        take(0, "a"),
        take(1, "bad"),
        take(2, "c"),
        release
    );
    none.unwrap();
    assert!(a.is_ok() && c.is_ok(), "{a:?} {c:?}");
    assert!(matches!(b, Err(Error::Corrupt(_))), "{b:?}");
    assert_eq!(history(&store, leases[1]).await, ["started"]);
    store.turn(turn(leases[1], 1, "good")).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_named_and_nothing_is_written() {
    let options = testing::shared().unwrap().options();
    let store = options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    fail(&options, "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100';").await;
    let error = store.turn(turn(lease, 1, "x")).await.unwrap_err();
    assert!(matches!(&error, Error::Unavailable(text) if text.contains("full")), "{error}");
    testing::sql(&options, "DROP TRIGGER fail ON event").await.unwrap();
    store.turn(turn(lease, 1, "x")).await.unwrap();
}

#[tokio::test]
async fn who_loses_a_deadlock_tries_again() {
    let options = testing::shared().unwrap().options();
    let store = options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    testing::sql(&options, "CREATE SEQUENCE tries").await.unwrap();
    let how = "IF nextval('tries') < 4 THEN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END IF;";
    fail(&options, how).await;
    store.turn(turn(lease, 1, "x")).await.unwrap();
    assert_eq!(history(&store, lease).await, ["started", "x"]);
}

#[tokio::test]
async fn a_handle_that_was_killed_refuses_everything() {
    let store = testing::shared().unwrap().options().open().await.unwrap();
    store.kill();
    for error in [
        store.start(task("a")).await.unwrap_err(),
        store.close().await.unwrap_err(),
        store.get(operator(), id("a")).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    }
}
