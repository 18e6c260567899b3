//! Looking: at one task, at many, at histories; and who sees what.

use std::collections::BTreeMap;

use steadfast_core::{Status, Timestamp};

use super::{Fixture, make::*};
use crate::{After, Caller, Counts, Filter, NewTask, Order, Refusal, Store, TaskKey, Turn};

fn of(name: &str, owner: &str) -> NewTask {
    NewTask { owner: Some(who(owner)), ..ready(name) }
}

async fn listed(store: &impl Store, filter: Filter) -> Vec<String> {
    let page = store.list(filter, Order::OldestFirst, None, usize::MAX).await.unwrap();
    assert_eq!(page.next, None);
    page.tasks.iter().map(|row| row.id.to_string()).collect()
}

/// Another principal gets the same answer as for something that does not exist.
pub async fn a_task_exists_for_its_principal_and_for_operators<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    start(&store, of("a", "ann")).await;
    start(&store, ready("n")).await;
    let get = async |by: Caller, name: &str| store.get(by, id(name)).await.map(|row| row.id);
    assert_eq!(get(caller("ann"), "a").await.unwrap(), id("a"));
    assert_eq!(get(operator(0), "a").await.unwrap(), id("a"));
    assert_eq!(get(operator(0), "n").await.unwrap(), id("n"));
    for (by, name) in [("bob", "a"), ("ann", "n"), ("ann", "none"), ("ANN", "a")] {
        assert_eq!(refused(get(caller(by), name).await), Refusal::Unknown);
    }
    let purge = store.purge(caller("bob"), id("a")).await;
    assert_eq!(refused(purge), Refusal::Unknown, "every other call is checked where it is tested");
}

/// From that moment on, before any sweep.
pub async fn a_task_expires_at_its_time<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let key = start(&store, NewTask { expires: Some(at(5)), ..ready("a") }).await;
    assert!(store.get(operator(4), id("a")).await.is_ok());
    assert_eq!(refused(store.get(operator(5), id("a")).await), Refusal::Expired);
    let bob = Caller { now: at(5), ..caller("bob") };
    assert_eq!(refused(store.get(bob, id("a")).await), Refusal::Unknown, "not even that");
    assert!(store.row(key).await.unwrap().is_some());
    assert_eq!(listed(&store, Filter { now: at(4), ..all() }).await, ["a"]);
    assert!(listed(&store, Filter { now: at(5), ..all() }).await.is_empty());
    assert_eq!(store.counts(operator(4)).await.unwrap().values().sum::<u64>(), 1);
    assert_eq!(store.counts(operator(5)).await.unwrap(), Counts::new());
}

/// No lifetime is too short or too long.
pub async fn lifetimes_of_any_length_are_kept<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let (first, last) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
    for (name, expires) in [("never", None), ("last", Some(last)), ("first", Some(first))] {
        start(&store, NewTask { expires, ..ready(name) }).await;
    }
    let get = async |name: &str, now| store.get(Caller { principal: None, now }, id(name)).await;
    assert!(get("never", last).await.is_ok());
    assert_eq!(get("last", Timestamp(i64::MAX - 1)).await.unwrap().expires, Some(last));
    assert_eq!(refused(get("last", last).await), Refusal::Expired);
    assert_eq!(refused(get("first", first).await), Refusal::Expired);
    let lease = claim(&store, 0).await.remove(0).lease();
    take(&store, park(lease, Some(last))).await;
    assert_eq!(store.next_wake().await.unwrap(), Some(last));
}

/// `None` and nothing: whoever holds a number of a task that was removed finds out.
pub async fn a_number_that_is_gone_has_nothing<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let key = TaskKey(4711);
    assert_eq!(store.row(key).await.unwrap(), None);
    assert!(store.inbox(key, 0).await.unwrap().is_empty());
    assert!(store.questions(key).await.unwrap().is_empty());
    let page = store.history(key, Order::NewestFirst, None, 9).await.unwrap();
    assert!(page.events.is_empty() && page.next.is_none());
}

/// Each condition alone, and two together.
pub async fn a_list_meets_its_filter<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let root = hold(&store, task("root")).await;
    let tags = |value: &str| BTreeMap::from([("t".into(), value.into())]);
    let from = |task: NewTask| NewTask { parent: Some(parent(root.key, 1)), ..task };
    start(&store, from(NewTask { tags: tags("1"), created: at(1), ..of("a", "ann") })).await;
    start(&store, NewTask { tags: tags("2"), created: at(2), ..of("b", "bob") }).await;
    start(&store, from(NewTask { tool: "other".into(), created: at(3), ..of("c", "bob") })).await;
    store.suspend(operator(0), id("c"), suspend(4)).await.unwrap();
    take(&store, end(root)).await;
    let list = async |filter: Filter| listed(&store, filter).await.join(" ");
    assert_eq!(list(all()).await, "root a b c");
    assert_eq!(list(Filter { owner: Some(who("bob")), ..all() }).await, "b c");
    assert_eq!(list(Filter { owner: Some(who("eve")), ..all() }).await, "");
    assert_eq!(list(Filter { parent: Some(root.key), ..all() }).await, "a c");
    let both = Filter { parent: Some(root.key), owner: Some(who("bob")), ..all() };
    assert_eq!(list(both).await, "c");
    assert_eq!(list(Filter { tool: Some("other".into()), ..all() }).await, "c");
    let tag = |tag: &str, value: &str| Filter { tag: Some((tag.into(), value.into())), ..all() };
    assert_eq!(list(tag("t", "2")).await, "b");
    assert_eq!(list(tag("t", "")).await, "");
    assert_eq!(list(tag("u", "1")).await, "");
    let statuses = |statuses: &[Status]| Filter { statuses: statuses.to_vec(), ..all() };
    assert_eq!(list(statuses(&[Status::Completed])).await, "root");
    assert_eq!(list(statuses(&[Status::Suspended, Status::Completed])).await, "root c");
    assert_eq!(list(statuses(&[Status::Failed])).await, "");
    let window = |from, before| Filter { created_from: from, created_before: before, ..all() };
    assert_eq!(list(window(Some(at(1)), Some(at(3)))).await, "a b");
    assert_eq!(list(window(Some(at(3)), None)).await, "c");
    assert_eq!(list(window(None, Some(at(1)))).await, "root");
}

/// A task is listed and counted by its status alone, wherever it lies and wherever it goes: on a
/// desk, on the pile, parked, over.
pub async fn a_status_is_listed_wherever_the_task_lies<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let mine = |name: &str| NewTask { hold: true, ..of(name, "ann") };
    let desk = hold(&store, mine("desk")).await;
    start(&store, of("pile", "ann")).await;
    let parked = hold(&store, mine("parked")).await;
    take(&store, park(parked, None)).await;
    let waits = hold(&store, mine("waits")).await;
    take(&store, Turn { view: Some((Status::Waiting, bytes("view"))), ..turn(waits) }).await;
    let over = hold(&store, mine("over")).await;
    take(&store, end(over)).await;
    let check = async |expected: &[(&str, &[Status])]| {
        let mut counts = Counts::new();
        for (names, statuses) in expected {
            let statuses = statuses.to_vec();
            for (owner, tool) in [(None, None), (Some("ann"), None), (None, Some("tool".into()))] {
                let statuses = statuses.clone();
                let filter = Filter { statuses, owner: owner.map(who), tool, ..all() };
                assert_eq!(listed(&store, filter).await.join(" "), *names, "{owner:?}");
            }
            if let ([status], false) = (&statuses[..], names.is_empty()) {
                counts.insert(*status, names.split(' ').count() as u64);
            }
        }
        assert_eq!(store.counts(operator(0)).await.unwrap(), counts);
        assert_eq!(store.counts(caller("ann")).await.unwrap(), counts);
    };
    let (running, completed, waiting) = (Status::Running, Status::Completed, Status::Waiting);
    check(&[
        ("desk pile parked", &[running]),
        ("waits", &[waiting]),
        ("over", &[completed]),
        ("desk pile parked over", &[running, completed]),
        ("desk pile parked waits", &[waiting, running]),
    ])
    .await;
    // Each goes somewhere else.
    assert_eq!(names(&claim(&store, 1).await), ["pile"]);
    take(&store, Turn { after: After::Yield, ..turn(desk) }).await;
    let view = Some((Status::Running, bytes("view")));
    take(&store, Turn { view, ..turn(waits) }).await;
    store.cancel(operator(0), id("parked"), cancel(2)).await.unwrap();
    check(&[
        ("desk pile waits", &[running]),
        ("parked", &[Status::Cancelled]),
        ("over", &[completed]),
        ("", &[waiting]),
    ])
    .await;
    let failed = After::End {
        status: Status::Failed,
        expires: None,
        end: bytes("end"),
        tell: bytes("told"),
        keep: false,
    };
    take(&store, Turn { after: failed, ..turn(waits) }).await;
    store.suspend(operator(0), id("pile"), suspend(3)).await.unwrap();
    check(&[
        ("desk", &[running]),
        ("pile", &[Status::Suspended]),
        ("waits", &[Status::Failed]),
        ("parked", &[Status::Cancelled]),
        ("over", &[completed]),
    ])
    .await;
}

/// Everything but the end, which may be large.
pub async fn a_list_has_rows_without_their_end<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, end(lease)).await;
    let rows = store.list(all(), Order::NewestFirst, None, 9).await.unwrap().tasks;
    let row = get(&store, "a").await;
    assert!(row.end.is_some());
    assert_eq!(rows, [crate::TaskRow { end: None, ..row }]);
}

/// Nothing is listed twice or left out while tasks come and go.
pub async fn a_list_is_read_in_pages<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let prefix = if order == Order::OldestFirst { "o" } else { "n" };
        let name = |n: u32| format!("{prefix}{n}");
        let filter = Filter { owner: Some(who(prefix)), ..all() };
        for n in 0..5 {
            start(&store, of(&name(n), prefix)).await;
            start(&store, of(&format!("{prefix}-other{n}"), "other")).await;
        }
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = store.list(filter.clone(), order, after, 2).await.unwrap();
            found.extend(page.tasks.iter().map(|row| row.id.to_string()));
            if found.len() == 2 {
                start(&store, of(&name(5), prefix)).await;
                store.cancel(operator(0), id(&name(2)), cancel(1)).await.unwrap();
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<String> = match order {
            Order::OldestFirst => (0..6).map(name).collect(),
            Order::NewestFirst => (0..5).rev().map(name).collect(),
        };
        assert_eq!(found, expected);
    }
}

/// A page that is just full is the last if nothing comes behind it.
pub async fn the_last_page_says_so<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for name in ["a", "b"] {
        start(&store, of(name, "ann")).await;
    }
    start(&store, of("c", "bob")).await;
    let ann = Filter { owner: Some(who("ann")), ..all() };
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let page = store.list(ann.clone(), order, None, 2).await.unwrap();
        assert_eq!((page.tasks.len(), page.next), (2, None));
        let page = store.list(ann.clone(), order, None, 1).await.unwrap();
        assert_eq!(page.next, Some(page.tasks[0].key));
        let page = store.list(ann.clone(), order, page.next, 1).await.unwrap();
        assert_eq!((page.tasks.len(), page.next), (1, None));
    }
}

/// In pages, both ways; what is appended meanwhile is at the end.
pub async fn a_history_is_read_in_pages<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    let events = vec![bytes("1"), bytes("2"), bytes("3")];
    take(&store, Turn { first: 1, events, ..turn(lease) }).await;
    let read = async |order, after, limit| {
        let page = store.history(lease.key, order, after, limit).await.unwrap();
        (page.events.iter().map(|(number, _)| *number).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(read(Order::OldestFirst, None, 3).await, (vec![0, 1, 2], Some(2)));
    assert_eq!(read(Order::OldestFirst, Some(2), 3).await, (vec![3], None));
    assert_eq!(read(Order::OldestFirst, None, 4).await, (vec![0, 1, 2, 3], None));
    assert_eq!(read(Order::OldestFirst, Some(3), 4).await, (vec![], None));
    assert_eq!(read(Order::NewestFirst, None, 3).await, (vec![3, 2, 1], Some(1)));
    assert_eq!(read(Order::NewestFirst, Some(1), 3).await, (vec![0], None));
    assert_eq!(read(Order::NewestFirst, Some(0), 3).await, (vec![], None));
    take(&store, Turn { first: 4, events: vec![bytes("4")], ..turn(lease) }).await;
    assert_eq!(read(Order::OldestFirst, Some(3), 4).await, (vec![4], None));
    let page = store.history(lease.key, Order::NewestFirst, None, 1).await.unwrap();
    assert_eq!(page.events, [(4, bytes("4"))]);
}

/// Of one principal or of all; a status that nobody has is not there.
pub async fn tasks_are_counted_by_status<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    assert_eq!(store.counts(operator(0)).await.unwrap(), Counts::new());
    start(&store, of("a", "ann")).await;
    let lease = hold(&store, NewTask { hold: true, ..of("b", "ann") }).await;
    take(&store, end(lease)).await;
    start(&store, of("c", "bob")).await;
    let gone = hold(&store, task("gone")).await;
    take(&store, end(gone)).await;
    store.purge(operator(0), id("gone")).await.unwrap();
    start(&store, ready("n")).await;
    store.cancel(operator(0), id("n"), cancel(1)).await.unwrap();
    let counts = |counts: &[(Status, u64)]| counts.iter().copied().collect::<Counts>();
    let (running, completed) = (Status::Running, Status::Completed);
    let ann = counts(&[(running, 1), (completed, 1)]);
    assert_eq!(store.counts(caller("ann")).await.unwrap(), ann);
    assert_eq!(store.counts(caller("bob")).await.unwrap(), counts(&[(running, 1)]));
    assert_eq!(store.counts(caller("eve")).await.unwrap(), Counts::new());
    let all = counts(&[(running, 2), (completed, 1), (Status::Cancelled, 1)]);
    assert_eq!(store.counts(operator(0)).await.unwrap(), all);
}
