//! Two processes that do things at the same time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use steadfast_core::{OpId, Status, Timestamp};
use steadfast_postgres::{Store, testing};
use steadfast_store::{
    After, Cancel, ClaimTasks, Dedup, Effect, Lease, NewTask, Parent, Refusal, SendTo, Started,
    Store as _, TaskKey, Turn,
};

use crate::common::{held, history, id, operator, task, turn};

async fn pair() -> (Arc<Store>, Arc<Store>) {
    let options = testing::shared().unwrap().options();
    let one = options.clone().open().await.unwrap();
    (Arc::new(one), Arc::new(options.open().await.unwrap()))
}

fn effects(lease: Lease, effects: Vec<Effect>) -> Turn {
    Turn { events: vec![], effects, ..turn(lease, 0, "") }
}

#[tokio::test]
async fn of_two_that_use_an_id_or_a_dedup_key_one_starts_it() {
    let (one, two) = pair().await;
    for n in 0..50 {
        let new = |name: &str, dedup: Option<&str>| NewTask {
            dedup: dedup.map(|key| format!("{key}{n}").into()),
            ..task(&format!("{name}{n}"))
        };
        let (a, b) = tokio::join!(one.start(new("same", None)), two.start(new("same", None)));
        let made = |s: &steadfast_store::Result<Started>| matches!(s, Ok(Started::New { .. }));
        assert!(made(&a) != made(&b), "{a:?} {b:?}");
        let lost = if made(&a) { b } else { a };
        assert_eq!(lost.unwrap_err().refusal(), Some(&Refusal::Exists));
        let (a, b) = tokio::join!(one.start(new("a", Some("d"))), two.start(new("b", Some("d"))));
        assert!(made(&a) != made(&b), "{a:?} {b:?}");
        let other = if made(&a) { b } else { a };
        assert!(matches!(other.unwrap(), Started::Existing { .. }));
    }
}

#[tokio::test]
async fn of_two_answers_one_is_taken() {
    let (one, two) = pair().await;
    let lease = held(&one, "a").await;
    let ask = |n: u32| Effect::OpenQuestion { key: n.to_string(), op: OpId(n), body: vec![] };
    one.turn(effects(lease, (0..40).map(ask).collect())).await.unwrap();
    for n in 0..40 {
        let answer = |store: &Arc<Store>, by: &str| {
            let (store, by) = (store.clone(), by.as_bytes().to_vec());
            async move { store.answer(operator(), id("a"), n.to_string(), by).await }
        };
        let (a, b) = tokio::join!(answer(&one, "1"), answer(&two, "2"));
        assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
    }
    assert_eq!(one.inbox(lease.key, 0).await.unwrap().len(), 40);
}

/// Either the message is kept and found by the start, or it finds the task.
#[tokio::test]
async fn a_message_and_a_start_do_not_miss_each_other() {
    let (one, two) = pair().await;
    for n in 0..60 {
        let name = format!("t{n}");
        let keep_until = Some(Timestamp(100));
        let send = SendTo { id: id(&name), body: b"m".to_vec(), keep_until };
        let (sent, started) = tokio::join!(one.send(operator(), send), two.start(task(&name)));
        sent.unwrap();
        let Started::New { key, .. } = started.unwrap() else { panic!() };
        assert_eq!(one.inbox(key, 0).await.unwrap().len(), 1, "{n}");
    }
}

/// A request that is taken back in one process and begun in another, under a key of its own: the second of the
/// two finds the first, whoever is killed after that.
#[tokio::test]
async fn a_start_and_the_word_that_takes_it_back_do_not_miss_each_other() {
    let (one, two) = pair().await;
    let (mut first, mut second) = (0, 0);
    for n in 0..200 {
        let (request, call) = (format!("request{n}"), format!("call{n}"));
        let word = NewTask {
            status: Status::Cancelled,
            hold: false,
            dedup: Some(request.clone().into()),
            ..task(&format!("word{n}"))
        };
        let dedup = Dedup { unless: Some(request), ..Dedup::from(format!("key{n}")) };
        let begun = two.start(NewTask { dedup: Some(dedup), ..task(&call) });
        let taken_back = async {
            let word = one.start(word).await;
            assert!(matches!(word, Ok(Started::New { .. })), "{word:?}");
            one.get(operator(), id(&call)).await.is_ok()
        };
        let (seen, begun) = tokio::join!(taken_back, begun);
        let found = matches!(begun.unwrap(), Started::Existing { .. });
        assert!(seen || found, "{n}");
        first += u32::from(found);
        second += u32::from(seen);
    }
    // Both ways, or it says nothing.
    assert!(first > 0 && second > 0, "{first} {second}");
}

/// Who watches a value and then reads it has seen the change, or is told of it.
#[tokio::test]
async fn a_watch_and_a_write_do_not_miss_each_other() {
    let (one, two) = pair().await;
    let (watcher, writer) = (held(&one, "watcher").await, held(&two, "writer").await);
    for n in 0..60 {
        let (scope, key) = ("s".to_owned(), format!("k{n}"));
        let watch = Effect::Watch { scope: scope.clone(), key: key.clone() };
        let write = Effect::WriteState {
            scope: scope.clone(),
            key: key.clone(),
            value: Some(b"v".to_vec()),
            notice: key.clone().into_bytes(),
        };
        let watch = async {
            one.turn(effects(watcher, vec![watch])).await.unwrap();
            one.state(scope, key.clone()).await.unwrap().version
        };
        let (seen, written) = tokio::join!(watch, two.turn(effects(writer, vec![write])));
        written.unwrap();
        let told = one.inbox(watcher.key, 0).await.unwrap();
        let told = told.iter().any(|letter| letter.body == key.as_bytes());
        assert!(told || seen == 1, "{n}");
    }
}

#[tokio::test]
async fn each_ready_task_is_claimed_by_one() {
    let (one, two) = pair().await;
    for n in 0..200 {
        one.start(NewTask { hold: false, ..task(&format!("t{n}")) }).await.unwrap();
    }
    let take = async |store: &Store| {
        let mut keys = Vec::new();
        let mut empty = 0;
        while empty < 3 {
            let tools = vec![("tool".into(), 1, 1)];
            let claim = ClaimTasks { tools, limit: 7, now: Timestamp(1) };
            let claimed = store.claim(claim).await.unwrap();
            empty += usize::from(claimed.is_empty());
            keys.extend(claimed.iter().map(|claimed| claimed.row.key));
        }
        keys
    };
    let (a, b) = tokio::join!(take(&one), take(&two));
    assert!(!a.is_empty() && !b.is_empty());
    let all: BTreeSet<TaskKey> = a.iter().chain(&b).copied().collect();
    assert_eq!((all.len(), a.len() + b.len()), (200, 200));
}

/// A number is never seen before a lower one.
#[tokio::test]
async fn who_reads_on_from_the_last_notice_misses_none() {
    let (one, two) = pair().await;
    let post = async |store: &Store| {
        for _ in 0..100 {
            store.post(b"n".to_vec(), Timestamp(99), 10_000).await.unwrap();
        }
    };
    let read = async {
        let (mut seen, mut last) = (Vec::new(), 0);
        while seen.len() < 200 {
            let posted = two.posted(last, 7).await.unwrap();
            seen.extend(posted.notices.iter().map(|(number, _)| *number));
            last = seen.last().copied().unwrap_or(0);
        }
        seen
    };
    let all = async { tokio::join!(post(&one), post(&two), read) };
    let ((), (), seen) = tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
    assert_eq!(seen, (1..=200).collect::<Vec<u64>>());
}

/// A notice whose transaction takes long is waited for: a higher number is seen by nobody before it.
#[tokio::test]
async fn a_notice_waits_for_one_that_has_a_lower_number_and_is_not_there_yet() {
    let options = testing::shared().unwrap().options();
    let (one, two) = (options.clone().open().await.unwrap(), options.clone().open().await.unwrap());
    one.post(b"first".to_vec(), Timestamp(99), 10).await.unwrap();
    let url = testing::shared().unwrap().url().replace("?sslmode=disable", "");
    let (slow, wire) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(wire);
    // As a writer does it.
    let sql = format!(
        "SET search_path = {}; BEGIN; SELECT notice FROM counter FOR NO KEY UPDATE;
         INSERT INTO notice VALUES (2, 99, 'second'); UPDATE counter SET notice = 2",
        options.schema_name()
    );
    slow.batch_execute(&sql).await.unwrap();
    let third = two.post(b"third".to_vec(), Timestamp(99), 10);
    tokio::pin!(third);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut third).await;
    assert!(early.is_err(), "{early:?}");
    let seen = one.posted(1, 9).await.unwrap();
    assert_eq!((seen.last, seen.notices.len()), (1, 0));
    slow.batch_execute("COMMIT").await.unwrap();
    assert_eq!(third.await.unwrap(), 3);
    let seen = one.posted(1, 9).await.unwrap();
    let expected = [(2, b"second".to_vec()), (3, b"third".to_vec())];
    assert_eq!((seen.last, seen.notices), (3, expected.to_vec()));
}

/// Tasks on both desks that write to each other's, in every order.
#[tokio::test]
async fn messages_in_both_directions_all_arrive() {
    let (one, two) = pair().await;
    let mut ends = Vec::new();
    for (store, name) in [(&one, "a"), (&two, "b"), (&one, "c"), (&two, "d")] {
        ends.push((store.clone(), held(store, name).await, name));
    }
    let mut all = Vec::new();
    for (store, lease, own) in ends.clone() {
        all.push(tokio::spawn(async move {
            for _ in 0..50 {
                let to = ["a", "d", "b", "c"].into_iter().filter(|name| *name != own);
                let send = |to| Effect::Send { to: id(to), body: b"m".to_vec() };
                store.turn(effects(lease, to.map(send).collect())).await.unwrap();
            }
        }));
    }
    for one in all {
        one.await.unwrap();
    }
    for (store, lease, _) in ends {
        assert_eq!(store.inbox(lease.key, 0).await.unwrap().len(), 150);
    }
}

/// A parent that cancels its child on one desk while the child ends on another.
#[tokio::test]
async fn a_child_that_ends_while_its_parent_cancels_it_is_told_of_once() {
    let (one, two) = pair().await;
    for n in 0..20 {
        let parent = held(&one, &format!("p{n}")).await;
        let name = format!("c{n}");
        let how = Parent { key: TaskKey(0), op: OpId(1), notify: true };
        let child = NewTask { parent: Some(how), hold: false, ..task(&name) };
        let start = Effect::StartTask { task: Box::new(child), exists: vec![] };
        one.turn(effects(parent, vec![start])).await.unwrap();
        let tools = vec![("tool".into(), 1, 1)];
        let claim = ClaimTasks { tools, limit: 9, now: Timestamp(1) };
        let child = two.claim(claim).await.unwrap().remove(0).lease();
        let cancel = Cancel {
            at: Timestamp(3),
            event: b"cancelled".to_vec(),
            view: vec![],
            end: vec![],
            tell: b"told".to_vec(),
            expires: None,
            frees: None,
        };
        let cancel = Effect::CancelTask { id: id(&name), cancel: Box::new(cancel) };
        let after = After::End {
            status: steadfast_core::Status::Completed,
            expires: None,
            end: vec![],
            tell: b"told".to_vec(),
            keep: false,
        };
        let (cancelled, ended) = tokio::join!(
            one.turn(effects(parent, vec![cancel])),
            two.turn(Turn { after, ..turn(child, 1, "x") })
        );
        cancelled.unwrap();
        let told = one.inbox(parent.key, 0).await.unwrap();
        assert_eq!(told.len(), 1, "{ended:?}");
        let last = if ended.is_ok() { "x" } else { "cancelled" };
        assert_eq!(history(&one, child).await.last().unwrap(), last);
    }
}
