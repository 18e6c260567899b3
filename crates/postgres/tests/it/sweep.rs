//! Removing what is over, where that is much, or slow: it comes to its end, and is in nobody's way.

use std::time::{Duration, Instant};

use steadfast_core::Timestamp;
use steadfast_postgres::{Options, Store, testing, tokio_postgres::NoTls};
use steadfast_store::{ClaimTasks, NewTask, Poison, SessionRow, Started, Store as _, Swept};

use crate::common::{held, id, operator, task, turn};

/// Tasks that have ended and expired, `from` this number on.
async fn over(options: &Options, from: u32, tasks: u32, events: u32, body: &str) {
    let last = from + tasks - 1;
    let sql = format!(
        "INSERT INTO task SELECT k, 1, 1, 2, 3, NULL, NULL, NULL, NULL, NULL, k, 1, 0, 0, 1,
            7::smallint, 0::smallint, false, 'over' || k, 'tool', 'me', NULL, NULL, 'about', 'view', NULL
         FROM generate_series({from}, {last}) k;
         INSERT INTO event SELECT k, n, {body} FROM generate_series({from}, {last}) k,
            generate_series(0, {events} - 1) n;"
    );
    testing::sql(options, &sql).await.unwrap();
}

/// Each row that is removed from a table takes this long.
async fn slow(options: &Options, table: &str, seconds: f64) {
    let sql = format!(
        "CREATE FUNCTION slow_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_sleep({seconds}); RETURN OLD; END $$;
         CREATE TRIGGER slow BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION slow_{table}()"
    );
    testing::sql(options, &sql).await.unwrap();
}

/// The first column of the first row.
async fn number(options: &Options, sql: &str) -> i64 {
    let server = testing::shared().unwrap();
    let (client, wire) =
        steadfast_postgres::tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(wire);
    let path = format!("SET search_path = \"{}\"", options.schema_name());
    client.batch_execute(&path).await.unwrap();
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// As an engine does it.
async fn sweep_all(store: &Store) -> u64 {
    let mut removed = 0;
    loop {
        let swept = store.sweep(Timestamp(10), 500).await.unwrap();
        removed += swept.removed;
        if !swept.more {
            return removed;
        }
    }
}

fn hurried() -> Options {
    testing::shared().unwrap().options().patience(Duration::from_secs(2))
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_history_that_takes_longer_than_an_answer_may_is_removed_all_the_same() {
    let options = hurried();
    let store = options.clone().open().await.unwrap();
    over(&options, 1_000, 1, 3_000, "'body'").await;
    over(&options, 2_000, 100, 3, "'body'").await;
    slow(&options, "event", 0.001).await;
    assert_eq!(sweep_all(&store).await, 101);
    for table in ["event", "task"] {
        assert_eq!(number(&options, &format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
}

/// By their number they would be few.
#[tokio::test]
async fn large_events_are_removed_few_at_a_time() {
    let options = testing::shared().unwrap().options();
    let store = options.clone().open().await.unwrap();
    let megabyte = "convert_to(repeat('x', 1048576), 'UTF8')";
    testing::sql(&options, "ALTER TABLE event ALTER body SET STORAGE EXTERNAL").await.unwrap();
    over(&options, 1_000, 2, 7, megabyte).await;
    // A transaction that removed more than five would fail.
    let sql = "CREATE FUNCTION few() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF (SELECT count(*) FROM gone) > 5 THEN RAISE EXCEPTION 'too many at once'; END IF;
            RETURN NULL; END $$;
         CREATE TRIGGER few AFTER DELETE ON event REFERENCING OLD TABLE AS gone
            FOR EACH STATEMENT EXECUTE FUNCTION few()";
    testing::sql(&options, sql).await.unwrap();
    assert_eq!(sweep_all(&store).await, 2);
}

#[tokio::test]
async fn a_sweep_that_is_stuck_holds_up_neither_claims_nor_sessions_nor_turns() {
    let options = testing::shared().unwrap().options();
    let store = options.clone().open().await.unwrap();
    let lease = match store.start(NewTask { expires: Some(Timestamp(2)), ..task("late") }).await {
        Ok(Started::New { lease: Some(lease), .. }) => lease,
        other => panic!("{other:?}"),
    };
    let session = SessionRow { id: "s".into(), expires: Timestamp(99), body: b"one".to_vec() };
    store.begin_session(session.clone(), 9).await.unwrap();
    store.start(NewTask { hold: false, ..task("ready") }).await.unwrap();
    over(&options, 1_000, 1, 1, "'body'").await;
    slow(&options, "event", 600.0).await;
    let others = async {
        let stuck = "SELECT count(*) FROM pg_stat_activity
                     WHERE wait_event = 'PgSleep' AND query LIKE '%DELETE FROM event%'";
        until("it is not stuck", async || number(&options, stuck).await > 0).await;
        let begun = Instant::now();
        let claim = ClaimTasks { tools: vec![("tool".into(), 1, 1)], limit: 9, now: Timestamp(1) };
        assert_eq!(store.claim(claim).await.unwrap().len(), 1);
        assert!(store.touch_session("s".into(), Timestamp(100)).await.unwrap());
        let next = SessionRow { body: b"two".to_vec(), ..session };
        assert!(store.keep_session(next, b"one".to_vec()).await.unwrap());
        store.turn(turn(lease, 1, "still here")).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    };
    tokio::select! {
        swept = store.sweep(Timestamp(10), 500) => panic!("{swept:?}"),
        () = others => {}
    }
}

/// Otherwise it would have its locks until it is done, and whoever tries again would wait for them.
#[tokio::test]
async fn a_statement_that_is_given_up_ends_in_the_server_too() {
    let options = hurried();
    let store = options.clone().open().await.unwrap();
    over(&options, 1_000, 1, 1, "'body'").await;
    slow(&options, "event", 600.0).await;
    store.sweep(Timestamp(10), 500).await.unwrap_err();
    let schema = options.schema_name();
    testing::sql(&options, &format!("DROP FUNCTION \"{schema}\".slow_event CASCADE"))
        .await
        .unwrap();
    assert_eq!(sweep_all(&store).await, 1);
}

/// What can't be removed keeps nobody from being told of what is overdue.
#[tokio::test]
async fn what_is_overdue_is_said_also_if_nothing_can_be_removed() {
    let options = testing::shared().unwrap().options();
    let store = options.clone().open().await.unwrap();
    store.start(NewTask { expires: Some(Timestamp(2)), ..task("late") }).await.unwrap();
    over(&options, 1_000, 1, 1, "'body'").await;
    let sql = "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION 'no' USING ERRCODE = '53100'; END $$;
         CREATE TRIGGER no BEFORE DELETE ON event FOR EACH ROW EXECUTE FUNCTION no()";
    testing::sql(&options, sql).await.unwrap();
    let Swept { removed, overdue, more } = store.sweep(Timestamp(10), 500).await.unwrap();
    assert_eq!((removed, overdue, more), (0, vec![id("late")], false));
}

#[tokio::test]
async fn thousands_of_sessions_messages_and_notices_are_removed_in_parts() {
    let options = hurried();
    let store = options.clone().open().await.unwrap();
    let fill = "INSERT INTO session SELECT 's' || k, k, 'body' FROM generate_series(-2500, 11) k;
        INSERT INTO kept SELECT k, k, 'i' || k, '', 'body' FROM generate_series(-2500, 11) k;
        INSERT INTO notice SELECT k, k, 'body' FROM generate_series(-2500, 11) k;";
    testing::sql(&options, fill).await.unwrap();
    for table in ["session", "kept", "notice"] {
        slow(&options, table, 0.001).await;
    }
    sweep_all(&store).await;
    for table in ["session", "kept", "notice"] {
        assert_eq!(number(&options, &format!("SELECT count(*) FROM {table}")).await, 1, "{table}");
    }
}

/// Who lost the answer to its last commit may still ask, however old its desk was.
#[tokio::test]
async fn the_batches_of_an_old_desk_are_known_for_a_day_after_its_death() {
    let options = testing::shared().unwrap().options();
    let beside = options.clone().open().await.unwrap();
    let (busy, idle, closed) = (
        options.clone().open().await.unwrap(),
        options.clone().open().await.unwrap(),
        options.clone().open().await.unwrap(),
    );
    held(&busy, "a").await;
    let desks = [busy.desk(), idle.desk(), closed.desk()];
    let age = "UPDATE writer SET since = since - interval '2 days'";
    testing::sql(&options, age).await.unwrap();
    closed.close().await.unwrap();
    for store in [&busy, &idle] {
        store.kill();
        testing::expire(&options, store.desk()).await.unwrap();
    }
    let poison = Poison { deaths: 5, at: Timestamp(1), view: vec![] };
    beside.adopt(desks[0], poison).await.unwrap();
    let known = async || {
        beside.sweep(Timestamp(0), 9).await.unwrap();
        let [one, two, three] = desks.map(|desk| desk.0);
        let sql = format!(
            "SELECT count(DISTINCT desk) FROM writer WHERE desk IN ({one}, {two}, {three})"
        );
        number(&options, &sql).await
    };
    assert_eq!(known().await, 3);
    assert_eq!(number(&options, "SELECT count(*) FROM desk").await, 1, "they are dead");
    testing::sql(&options, age).await.unwrap();
    assert_eq!(known().await, 0);
    assert!(beside.get(operator(), id("a")).await.is_ok());
}
