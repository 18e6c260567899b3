//! All that a store shows of itself to an engine.

use steadfast_core::{TaskId, Timestamp};
use steadfast_store::{Caller, Filter, Order, Store, TaskKey};

/// A time: `n` milliseconds into the test.
pub(crate) fn at(n: i64) -> Timestamp {
    Timestamp(1_800_000_000_000 + n)
}

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

pub(crate) fn operator() -> Caller {
    Caller { principal: None, now: at(0) }
}

/// The keys, sessions and tokens that the content of [`rows`](crate::rows) has.
pub(crate) struct Names {
    pub(crate) values: Vec<(String, String)>,
    pub(crate) sessions: Vec<String>,
    pub(crate) tokens: Vec<String>,
    pub(crate) dedups: Vec<(String, String)>,
}

/// A line each of all there is. What lies on a desk is shown as it will be after a death, and so is
/// the same before a move and after it.
pub(crate) async fn seen(store: &dyn Store, names: &Names) -> Vec<String> {
    let mut lines = Vec::new();
    let all = Filter { now: at(0), ..Filter::default() };
    let listed = store.list(all, Order::OldestFirst, None, 1_000).await.unwrap();
    assert!(listed.next.is_none());
    for task in listed.tasks {
        let key = task.key;
        // With its end.
        let mut row = store.row(key).await.unwrap().unwrap();
        if row.desk.take().is_some() {
            row.epoch += 1;
            row.deaths += 1;
        }
        let bound = row.bound.take().is_some();
        lines.push(format!("{row:?} bound {bound}"));
        let history = store.history(key, Order::OldestFirst, None, 1_000).await.unwrap();
        lines.push(format!("{key:?} {:?}", history.events));
        lines.push(format!("{key:?} {:?}", store.inbox(key, 0).await.unwrap()));
        lines.push(format!("{key:?} {:?}", store.questions(key).await.unwrap()));
        let children = Filter { parent: Some(key), now: at(0), ..Filter::default() };
        let children = store.list(children, Order::NewestFirst, None, 100).await.unwrap().tasks;
        let children: Vec<TaskKey> = children.iter().map(|task| task.key).collect();
        lines.push(format!("{key:?} children {children:?}"));
    }
    let tagged = Some(("ta\0g".to_owned(), "v\u{f8ff}".to_owned()));
    let tagged = Filter { tag: tagged, now: at(0), ..Filter::default() };
    let tagged = store.list(tagged, Order::OldestFirst, None, 100).await.unwrap().tasks;
    lines.push(format!("tagged {:?}", tagged.iter().map(|t| t.key).collect::<Vec<_>>()));
    lines.push(format!("{:?}", store.counts(operator()).await.unwrap()));
    for (scope, key) in &names.values {
        let value = store.state(scope.clone(), key.clone()).await.unwrap();
        lines.push(format!("{scope:?} {key:?} {value:?}"));
    }
    for session in &names.sessions {
        lines.push(format!("{:?}", store.session(session.clone(), at(0)).await.unwrap()));
    }
    for token in &names.tokens {
        let mut row = store.activity(token.clone()).await.unwrap().unwrap();
        if row.desk.take().is_some() {
            row.epoch += 1;
            row.attempt += 1;
        }
        lines.push(format!("{row:?}"));
    }
    for (owner, dedup) in &names.dedups {
        let caller = Caller { principal: owner.parse().ok(), now: at(0) };
        lines.push(format!("{:?}", store.keyed(caller, dedup.clone()).await.unwrap()));
    }
    lines.push(format!("{:?}", store.posted(0, 100).await.unwrap()));
    lines.push(format!("{:?}", store.next_wake().await.unwrap()));
    lines
}
