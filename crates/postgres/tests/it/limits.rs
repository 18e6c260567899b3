//! Limits that a server sets all sessions, as some providers do: none of them ends a connection of ours.

use std::{collections::BTreeSet, time::Duration};

use steadfast_postgres::{
    testing,
    testing::{Server, Setup},
    tokio_postgres::{self, NoTls},
};
use steadfast_store::Store as _;

use crate::{
    common::{held, history, id, operator, turn},
    works::books,
};

/// Three times what it allows.
const LONG: Duration = Duration::from_millis(900);

/// 14 has the first of them and 17 the second.
const HASTY: &str = "ALTER ROLE steadfast SET idle_session_timeout = '300ms';
    DO $$ BEGIN
        IF current_setting('transaction_timeout', true) IS NOT NULL THEN
            ALTER ROLE steadfast SET transaction_timeout = '300ms';
        END IF;
    END $$";

/// Those of the server that serve a connection of a store.
async fn processes(server: &Server) -> BTreeSet<i32> {
    let (client, wire) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(wire);
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'steadfast'";
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn connections_outlive_the_limits_on_sessions_and_transactions() {
    let server = Setup::default().start().unwrap();
    let options = server.options().transactions(1);
    testing::sql(&options, HASTY).await.unwrap();
    let store = options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    store.get(operator(), id("a")).await.unwrap();
    books(&store, lease, 1, "SELECT pg_sleep(0.9)").await;
    let before = processes(&server).await;
    assert!(before.len() > 5, "that write, read, say that we live, and one of an author's");
    let hold = testing::hold(&options, store.desk()).await.unwrap();
    let release = async {
        tokio::time::sleep(LONG).await;
        drop(hold);
    };
    let (waited, ()) = tokio::join!(store.turn(turn(lease, 2, "x")), release);
    waited.unwrap();
    // Nobody has anything to do meanwhile, but for the heart, and that not as often.
    tokio::time::sleep(LONG).await;
    store.turn(turn(lease, 3, "y")).await.unwrap();
    store.get(operator(), id("a")).await.unwrap();
    books(&store, lease, 4, "SELECT pg_sleep(0)").await;
    assert_eq!(history(&store, lease).await, ["started", "booked", "x", "y", "booked"]);
    let after = processes(&server).await;
    assert!(before.is_subset(&after), "none was lost: {before:?}, {after:?}");
}
