//! Group commit: what one command's failure does to the others.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{held, operator, task, turn};
use steadfast_core::TaskId;
use steadfast_sqlite::{Options, Store};
use steadfast_store::{Error, Order, Refusal, Started, Store as _};

/// With a slow flush, calls that are made together end up in the same batch.
fn slow(dir: &tempfile::TempDir) -> Arc<Store> {
    let options = Options::new(dir.path().join("tasks.db"));
    Arc::new(options.flush_delay(Duration::from_millis(30)).open().unwrap())
}

#[tokio::test]
async fn one_flush_serves_many_calls() {
    let dir = tempfile::tempdir().unwrap();
    let store = slow(&dir);
    let begun = std::time::Instant::now();
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.start(task(&format!("task-{n}"))).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // One flush each would take six seconds.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_refused_call_does_not_hurt_its_batch() {
    let dir = tempfile::tempdir().unwrap();
    let store = slow(&dir);
    let lease = held(&store, "taken").await;
    let stale = steadfast_store::Lease { epoch: lease.epoch + 1, ..lease };
    let (a, same, b, fenced, good) = tokio::join!(
        store.start(task("a")),
        store.start(task("taken")),
        store.start(task("b")),
        store.turn(turn(stale, 1, b"stale")),
        store.turn(turn(lease, 1, b"good")),
    );
    assert!(matches!(a, Ok(Started::New { .. })) && matches!(b, Ok(Started::New { .. })));
    assert_eq!(same.unwrap_err().refusal(), Some(&Refusal::Exists));
    assert_eq!(fenced.unwrap_err().refusal(), Some(&Refusal::Fenced));
    good.unwrap();
    let page = store.history(lease.key, Order::OldestFirst, None, 10).await.unwrap();
    assert_eq!(page.events.len(), 2);
}

#[tokio::test]
async fn a_call_that_fails_in_the_middle_fails_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = slow(&dir);
    let lease = held(&store, "one").await;
    let activity = |op, token: &str| steadfast_store::Effect::ScheduleActivity {
        op: steadfast_core::OpId(op),
        name: "work".into(),
        token: token.into(),
        body: Vec::new(),
    };
    // The second activity breaks a rule of the schema after the event was written.
    let mut bad = turn(lease, 1, b"bad");
    bad.effects = vec![activity(1, "same"), activity(2, "same")];
    let (before, bad, after) =
        tokio::join!(store.start(task("before")), store.turn(bad), store.start(task("after")));
    assert!(before.is_ok() && after.is_ok());
    assert!(matches!(bad, Err(Error::Corrupt(_))), "{bad:?}");
    let page = store.history(lease.key, Order::OldestFirst, None, 10).await.unwrap();
    assert_eq!(page.events.len(), 1, "nothing of the bad turn is there");
    assert!(store.activity("same".into()).await.unwrap().is_none());
    store.turn(turn(lease, 1, b"good")).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_and_is_recovered_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let store = Options::new(&path).max_pages(200).open().unwrap();
    let lease = held(&store, "one").await;
    let mut written = 1;
    let error = loop {
        match store.turn(turn(lease, written, &[7; 20_000])).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Unavailable(text) if text.contains("full")), "{error}");
    let page = store.history(lease.key, Order::OldestFirst, None, 1000).await.unwrap();
    assert_eq!(page.events.len() as u64, written, "what was acknowledged, and nothing else");
    // Room is made: the task ends and is removed, and the same handle goes on.
    let mut end = turn(lease, written, b"");
    end.events.clear();
    end.after = steadfast_store::After::End {
        status: steadfast_core::Status::Completed,
        expires: None,
        end: Vec::new(),
        tell: Vec::new(),
        keep: false,
    };
    store.turn(end).await.unwrap();
    store.purge(operator(), TaskId::new("one").unwrap()).await.unwrap();
    let lease = held(&store, "two").await;
    store.turn(turn(lease, 1, &[7; 20_000])).await.unwrap();
}

#[tokio::test]
async fn long_histories_side_by_side_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("tasks.db")).unwrap();
    let (a, b) = (held(&store, "a").await, held(&store, "b").await);
    let (mut first_a, mut first_b) = (1, 1);
    for _ in 0..5 {
        for (lease, first) in [(a, &mut first_a), (b, &mut first_b)] {
            let mut many = turn(lease, *first, b"");
            many.events = (*first..*first + 1500).map(|n| n.to_string().into_bytes()).collect();
            store.turn(many).await.unwrap();
            *first += 1500;
        }
    }
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.history(b.key, order, after, 700).await.unwrap();
            seen.extend(page.events);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if order == Order::NewestFirst {
            seen.reverse();
        }
        assert_eq!(seen.len(), 7501);
        let right = |(n, body): &(u64, Vec<u8>)| *n == 0 || *body == n.to_string().into_bytes();
        assert!(seen.iter().zip(0..).all(|(event, n)| event.0 == n && right(event)));
    }
    // Beginning anew removes all of it, and leaves the other alone.
    let mut anew = turn(a, 0, b"anew");
    anew.restart = true;
    store.turn(anew).await.unwrap();
    let page = store.history(a.key, Order::OldestFirst, None, 10).await.unwrap();
    assert_eq!(page.events, [(0, b"anew".to_vec())]);
    store.turn(turn(b, 7501, b"more")).await.unwrap();
}
