//! Whether a process says that it is ready: not as long as nothing can be written, and by itself again
//! when it can.

use std::time::{Duration, Instant};

use steadfast_postgres::{Options, Store, testing, testing::Setup};
use steadfast_store::{Error, Lease, Store as _};

use crate::{
    common::{held, turn},
    proxy::Proxy,
};

/// Asks until the answer is yes, or an error with this word in it.
async fn until(store: &Store, wanted: Option<&str>) {
    let begun = Instant::now();
    loop {
        let said = tokio::time::timeout(Duration::from_secs(2), store.check()).await;
        let said = said.unwrap_or_else(|_| Err(Error::Unavailable("it says nothing".into())));
        match (&said, wanted) {
            (Ok(()), None) => return,
            (Err(Error::Unavailable(why)), Some(word)) if why.contains(word) => return,
            _ => {}
        }
        assert!(begun.elapsed() < Duration::from_secs(15), "{wanted:?}: {said:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn fails(store: &Store, lease: Lease, word: &str) {
    let error = store.turn(turn(lease, 1, "x")).await.unwrap_err();
    assert!(matches!(&error, Error::Unavailable(why) if why.contains(word)), "{error}");
}

#[tokio::test]
async fn it_is_not_while_the_server_is_down_or_only_reads() {
    let server = Setup::default().start().unwrap();
    let options = server.options();
    let store = options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    until(&store, None).await;
    server.stop().unwrap();
    until(&store, Some("connect")).await;
    server.start().unwrap();
    until(&store, None).await;
    let set = async |on: &str| {
        let set = format!("ALTER SYSTEM SET default_transaction_read_only = {on}");
        testing::sql(&options, &set).await.unwrap();
        testing::sql(&options, "SELECT pg_reload_conf()").await.unwrap();
    };
    set("on").await;
    // Reading is fine, and says nothing.
    assert!(store.next_wake().await.is_ok());
    until(&store, Some("only reads")).await;
    fails(&store, lease, "only reads").await;
    set("off").await;
    until(&store, None).await;
    store.turn(turn(lease, 1, "x")).await.unwrap();
}

/// A server that lets us in and then refuses is asked now and then, not all the time.
#[tokio::test]
async fn a_server_that_only_reads_is_left_in_peace() {
    let server = Setup::default().set("log_connections", "on").start().unwrap();
    let options = server.options().lease(Duration::from_secs(8));
    let store = options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    store.turn(turn(lease, 1, "x")).await.unwrap();
    for sql in ["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"] {
        testing::sql(&options, sql).await.unwrap();
    }
    // Somebody insists meanwhile, as tasks do, and somebody asks whether it is ready.
    let insists = async {
        loop {
            let _ = store.turn(turn(lease, 2, "x")).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let asks = async {
        loop {
            let _ = store.check().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let count = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = server.connections();
        tokio::time::sleep(Duration::from_secs(3)).await;
        server.connections() - before
    };
    let made = tokio::select! {
        () = insists => unreachable!(),
        () = asks => unreachable!(),
        made = count => made,
    };
    assert!(made < 24, "{made} connections in three seconds");
}

/// What is refused for want of room is a write like any other; a heartbeat needs none.
#[tokio::test]
async fn it_is_not_while_a_disk_is_full() {
    let options = testing::shared().unwrap().options();
    let store = options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    let sql = "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
               RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$; \
               CREATE TRIGGER no_room BEFORE INSERT ON event \
               FOR EACH ROW EXECUTE FUNCTION no_room()";
    testing::sql(&options, sql).await.unwrap();
    until(&store, None).await;
    fails(&store, lease, "full").await;
    // Also if nobody tries to write any more,
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let error = store.check().await.unwrap_err();
        assert!(matches!(&error, Error::Unavailable(why) if why.contains("full")), "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    testing::sql(&options, "DROP TRIGGER no_room ON event").await.unwrap();
    // and by itself again when there is room;
    until(&store, None).await;
    assert_eq!(crate::common::history(&store, lease).await, ["started"]);
    fail_again(&options, &store, lease).await;
    testing::sql(&options, "DROP TRIGGER no_room ON event").await.unwrap();
    store.turn(turn(lease, 1, "x")).await.unwrap();
    // at once, if a write says so.
    store.check().await.unwrap();
}

async fn fail_again(options: &Options, store: &Store, lease: Lease) {
    let sql =
        "CREATE TRIGGER no_room BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION no_room()";
    testing::sql(options, sql).await.unwrap();
    fails(store, lease, "full").await;
}

/// Whoever reads has a connection, and who writes finds none.
#[tokio::test]
async fn it_is_not_while_writers_find_no_connection() {
    let server = Setup::default().start().unwrap();
    let options = server.options();
    let hurried = options.clone().patience(Duration::from_secs(1));
    let store = hurried.open().await.unwrap();
    let lease = held(&store, "a").await;
    until(&store, None).await;
    let lets = |whether: bool| {
        format!("UPDATE pg_database SET datallowconn = {whether} WHERE datname = 'postgres'")
    };
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE state = 'idle' AND query NOT LIKE '%desk d%'";
    testing::sql(&options, &format!("{}; COMMIT; {end}", lets(false))).await.unwrap();
    let error = store.start(crate::common::task("b")).await.unwrap_err();
    assert!(error.to_string().contains("not currently accepting"), "{error}");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let error = store.check().await.unwrap_err();
        assert!(error.to_string().contains("not currently accepting"), "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let beside = Options::new(server.url().replace("/postgres?", "/template1?"));
    testing::sql(&beside, &lets(true)).await.unwrap();
    until(&store, None).await;
    store.turn(turn(lease, 1, "x")).await.unwrap();
}

#[tokio::test]
async fn it_is_not_while_the_server_has_no_connection_left_or_does_not_answer() {
    let setup = Setup::default().set("max_connections", "18");
    let server = setup.set("superuser_reserved_connections", "0").start().unwrap();
    let options = server.options();
    let store = options.clone().open().await.unwrap();
    let mut others = Vec::new();
    let full = loop {
        match testing::alive(&options, store.desk()).await {
            Ok(open) => others.push(open),
            Err(error) => break error.to_string(),
        }
    };
    assert!(full.contains("max_connections"), "{full}");
    until(&store, Some("max_connections")).await;
    others.clear();
    until(&store, None).await;
    let proxy = Proxy::to(server.port()).await;
    let behind = Options::new(server.url_by(proxy.port)).schema(options.schema_name());
    let slow = behind.patience(Duration::from_secs(1)).open().await.unwrap();
    until(&slow, None).await;
    proxy.freeze(true);
    until(&slow, Some("says nothing")).await;
    proxy.freeze(false);
    until(&slow, None).await;
}
