//! Reads that take long.

use std::time::Duration;

use steadfast_postgres::testing;
use steadfast_store::{Order, Store as _};

use crate::common::held;

/// Each takes well below what it may; all together take longer.
#[tokio::test]
async fn who_waits_for_others_that_read_is_not_too_slow() {
    let options = testing::shared().unwrap().options().patience(Duration::from_secs(2));
    let store = options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    let sql = "ALTER TABLE event RENAME TO events;
               CREATE VIEW event AS SELECT * FROM events WHERE pg_sleep(0.9) IS NOT NULL";
    testing::sql(&options, sql).await.unwrap();
    let read = || store.history(lease.key, Order::OldestFirst, None, 9);
    let (a, b, c, d, e) = tokio::join!(read(), read(), read(), read(), read());
    for page in [a, b, c, d, e] {
        assert_eq!(page.unwrap().events.len(), 1);
    }
}

/// Who wants one event does not wait for those who want all.
#[tokio::test]
async fn the_last_event_is_read_past_long_reads() {
    let options = testing::shared().unwrap().options();
    let store = options.clone().open().await.unwrap();
    let (slow, quick) = (held(&store, "a").await, held(&store, "b").await);
    let sql = format!(
        "ALTER TABLE event RENAME TO events;
         CREATE VIEW event AS SELECT * FROM events
         WHERE CASE WHEN task = {} THEN pg_sleep(600) IS NOT NULL ELSE true END",
        slow.key.0
    );
    testing::sql(&options, &sql).await.unwrap();
    let last = async {
        // The other is on its way first.
        tokio::task::yield_now().await;
        let page = store.history(quick.key, Order::NewestFirst, None, 1).await.unwrap();
        assert_eq!(page.events.len(), 1);
    };
    tokio::select! {
        biased;
        page = store.history(slow.key, Order::OldestFirst, None, 9) => panic!("{page:?}"),
        last = tokio::time::timeout(Duration::from_secs(10), last) => last.unwrap(),
    }
}
