//! Keys that were freed: taken by two at the same time, and beside processes of version 1, which know nothing of
//! the table that they are in.

use std::time::Duration;

use steadfast_core::Timestamp;
use steadfast_postgres::{Options, Store, testing};
use steadfast_store::{Bond, Dedup, Keyed, NewTask, Started, Store as _};
use tokio_postgres::{Client, NoTls};

use crate::common::{id, operator, since, task};

/// A connection that writes as another process would.
struct Other {
    options: Options,
    client: Client,
    pid: i32,
}

impl Other {
    async fn connect(options: &Options) -> Other {
        let url = testing::shared().unwrap().url().replace("?sslmode=disable", "");
        let (client, wire) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(wire);
        let path = format!("SET search_path = {}", options.schema_name());
        client.batch_execute(&path).await.unwrap();
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        Other { options: options.clone(), client, pid }
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(&format!("SELECT count(*) FROM {sql}"), &[]).await.unwrap().get(0)
    }

    /// Starts a task as version 1 does.
    async fn start(&self, name: &str) {
        let sql = format!(
            "INSERT INTO task (key, status, created, updated, ended, expires, wake, parent, parent_op,
                desk, bound, rank, epoch, deaths, letters, version, traces, tells, id, tool, owner,
                dedup, tags, about, view, outcome)
             VALUES (nextval('task_key'), 1, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, 0,
                1, 0, false, '{name}', 'tool', 'me', 'once', NULL, 'about', 'view', NULL)"
        );
        self.run(&sql).await;
    }

    /// Frees a task's key as version 1 does.
    async fn free(&self, name: &str) {
        self.run(&format!("UPDATE task SET dedup = NULL WHERE id = '{name}'")).await;
    }

    /// Waits until somebody waits for this transaction.
    async fn is_waited_for(&self) {
        let sql = format!("pg_stat_activity WHERE {} = ANY(pg_blocking_pids(pid))", self.pid);
        let wait = async {
            while self.count(&sql).await == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("somebody waits");
    }
}

async fn set() -> (Store, Other) {
    let options = testing::shared().unwrap().options();
    let store = options.clone().open().await.unwrap();
    (store, Other::connect(&options).await)
}

/// Asked for before anything was freed.
fn waited(name: &str) -> NewTask {
    let dedup = Dedup { asked: since(8), ..Dedup::from("once") };
    NewTask { dedup: Some(dedup), ..task(name) }
}

/// The id of the task that a start found, and whether it was freed of its key.
async fn found(store: &Store, new: NewTask) -> (String, bool) {
    match store.start(new).await.unwrap() {
        Started::Existing { id, freed, .. } => (id.to_string(), freed),
        other => panic!("{other:?}"),
    }
}

async fn free(store: &Store, name: &str) {
    store.unbind(vec![(id(name), Bond::Key)], since(0)).await.unwrap();
}

async fn keyed(store: &Store) -> Option<Keyed> {
    let me = task("x").owner;
    store
        .keyed(steadfast_store::Caller { principal: me, ..operator() }, "once".into())
        .await
        .unwrap()
}

/// Asked for now. The store need not know to the millisecond that it is after.
async fn start_after_free(store: &Store, name: &str) {
    for _ in 0..1_000 {
        let new = NewTask { dedup: Some("once".into()), ..task(name) };
        if let Started::New { .. } = store.start(new).await.unwrap() {
            return;
        }
    }
    panic!("a key that was freed is never free");
}

const HAS_KEY: &str = "task WHERE owner = 'me' AND dedup = 'once'";

/// Nor do they wait for it: a report, or a backup, that takes an hour.
#[tokio::test]
async fn tables_of_version_1_are_brought_to_version_2_while_others_read_them() {
    let (store, reader) = set().await;
    store.start(waited("a")).await.unwrap();
    reader.run("DROP TABLE freed, up; DELETE FROM schema_version WHERE version > 1").await;
    reader.run("BEGIN; SELECT FROM task").await;
    let migrate = reader.options.clone().migrate();
    tokio::time::timeout(Duration::from_secs(20), migrate).await.expect("nobody waits").unwrap();
    assert_eq!(reader.count("task").await, 1);
    free(&store, "a").await;
    assert_eq!(found(&store, waited("b")).await, ("a".into(), true));
}

/// It neither finds the old task nor is in its way; and whoever has the key then has it for all.
#[tokio::test]
async fn a_key_that_was_freed_is_free_for_version_1() {
    let (store, v1) = set().await;
    store.start(waited("a")).await.unwrap();
    assert_eq!(v1.count(HAS_KEY).await, 1);
    free(&store, "a").await;
    assert_eq!(v1.count(HAS_KEY).await, 0);
    assert_eq!(found(&store, waited("b")).await, ("a".into(), true));
    v1.start("theirs").await;
    assert_eq!(found(&store, waited("b")).await, ("theirs".into(), false));
    assert_eq!(keyed(&store).await, Some(Keyed { id: id("theirs"), freed: None }));
    // That the first had it is forgotten when the second is freed of it.
    free(&store, "theirs").await;
    assert_eq!(found(&store, waited("b")).await, ("theirs".into(), true));
    assert_eq!(keyed(&store).await.unwrap().id, id("theirs"));
    assert_eq!(v1.count("freed").await, 1);
    start_after_free(&store, "b").await;
    assert_eq!(found(&store, waited("c")).await, ("b".into(), false));
    assert_eq!(v1.count("freed").await, 0);
}

/// It says nowhere that it did, so who asked before begins anew, as ever in version 1.
#[tokio::test]
async fn a_key_that_version_1_freed_is_free() {
    let (store, v1) = set().await;
    store.start(waited("a")).await.unwrap();
    v1.free("a").await;
    assert_eq!(keyed(&store).await, None);
    assert!(matches!(store.start(waited("b")).await.unwrap(), Started::New { .. }));
    // Also if it was freed by another before that one had it.
    free(&store, "b").await;
    v1.start("theirs").await;
    v1.free("theirs").await;
    assert_eq!(found(&store, waited("c")).await, ("b".into(), true));
    start_after_free(&store, "c").await;
    assert_eq!(v1.count("freed").await, 0);
}

/// A task of version 1 that expired has the key no longer, and nobody had it before.
#[tokio::test]
async fn who_had_a_key_before_version_1_took_it_does_not_come_back() {
    let (store, v1) = set().await;
    store.start(waited("a")).await.unwrap();
    free(&store, "a").await;
    v1.start("theirs").await;
    v1.run("UPDATE task SET expires = 5 WHERE id = 'theirs'").await;
    assert_eq!(keyed(&store).await, None);
    let late = NewTask { created: Timestamp(5), ..waited("b") };
    assert!(matches!(store.start(late).await.unwrap(), Started::New { .. }));
    assert_eq!(v1.count("freed").await, 0);
}

/// By whatever way.
#[tokio::test]
async fn nothing_is_left_of_a_freed_key_when_its_task_is_gone() {
    let (store, v1) = set().await;
    for way in ["sweep", "purge", "version 1"] {
        store.start(NewTask { expires: Some(Timestamp(5)), ..waited("a") }).await.unwrap();
        v1.run("UPDATE task SET status = 7, desk = NULL").await;
        free(&store, "a").await;
        assert_eq!(v1.count("freed").await, 1, "{way}");
        match way {
            "sweep" => assert_eq!(store.sweep(Timestamp(6), 9).await.unwrap().removed, 1),
            "purge" => {
                let caller = steadfast_store::Caller { now: Timestamp(1), ..operator() };
                store.purge(caller, id("a")).await.unwrap();
            }
            _ => v1.run("DELETE FROM task WHERE key = ANY(ARRAY(SELECT key FROM task))").await,
        }
        assert_eq!(v1.count("freed").await + v1.count("task").await, 0, "{way}");
    }
}

/// Makes two calls as one batch, behind one that can't go on until they are there.
async fn together<A, B>(
    store: &Store,
    calls: (impl Future<Output = A>, impl Future<Output = B>),
    hold: &Other,
    meanwhile: impl Future<Output = ()>,
) -> (A, B) {
    let sql = format!("BEGIN; SELECT FROM writer WHERE desk = {} FOR UPDATE", store.desk().0);
    hold.run(&sql).await;
    let both = async {
        hold.is_waited_for().await;
        let go_on = async {
            hold.run("COMMIT").await;
            meanwhile.await;
        };
        tokio::join!(biased; calls.0, calls.1, go_on)
    };
    let (first, (a, b, ())) = tokio::join!(store.unbind(vec![], since(0)), both);
    first.unwrap();
    (a, b)
}

#[tokio::test]
async fn a_task_that_begins_and_is_freed_in_one_batch_is_freed() {
    let (store, other) = set().await;
    let key = || vec![(id("a"), Bond::Key)];
    let calls = (store.start(waited("a")), store.unbind(key(), since(0)));
    let (started, freed) = together(&store, calls, &other, async {}).await;
    assert!(matches!(started.unwrap(), Started::New { .. }));
    freed.unwrap();
    assert_eq!(other.count(HAS_KEY).await, 0);
    assert_eq!(found(&store, waited("b")).await, ("a".into(), true));
    assert!(keyed(&store).await.unwrap().freed.is_some());
}

/// And another has its key, all in one batch.
#[tokio::test]
async fn a_key_is_freed_and_taken_in_one_batch() {
    let (store, other) = set().await;
    let now = |name| NewTask { dedup: Some("once".into()), ..task(name) };
    let others = async {
        let key = vec![(id("a"), Bond::Key)];
        tokio::join!(biased; store.unbind(key, since(5)), store.start(now("b")))
    };
    let calls = (store.start(waited("a")), others);
    let (first, (freed, second)) = together(&store, calls, &other, async {}).await;
    assert!(matches!(first.unwrap(), Started::New { .. }));
    freed.unwrap();
    assert!(matches!(second.unwrap(), Started::New { .. }));
    assert_eq!(found(&store, waited("c")).await, ("b".into(), false));
    assert_eq!(other.count("freed").await, 0);
}

/// The key is held against others though nobody has it in the end.
#[tokio::test]
async fn of_two_that_begin_with_a_key_one_does_though_it_is_freed_at_once() {
    let (store, other) = set().await;
    let hold = Other::connect(&other.options).await;
    other.run("BEGIN").await;
    other.start("theirs").await;
    let calls = (store.start(waited("a")), store.unbind(vec![(id("a"), Bond::Key)], since(0)));
    let commit = async {
        other.is_waited_for().await;
        other.run("COMMIT").await;
    };
    let (started, freed) = together(&store, calls, &hold, commit).await;
    freed.unwrap();
    let Started::Existing { id: found, freed: false, .. } = started.unwrap() else { panic!() };
    assert_eq!(found, id("theirs"));
    assert_eq!(other.count("task").await, 1);
}

/// It saw neither the task with its key nor the key that was freed: the one was there too late, and the other too
/// early.
#[tokio::test]
async fn a_start_finds_one_that_began_and_was_freed_while_it_was_on_its_way() {
    let (store, other) = set().await;
    other.run("BEGIN").await;
    other.start("theirs").await;
    let commit = async {
        other.is_waited_for().await;
        other.free("theirs").await;
        let freed = "INSERT INTO freed SELECT owner, 'once', key,
                     extract(epoch FROM clock_timestamp()) * 1000000 FROM task";
        other.run(freed).await;
        other.run("COMMIT").await;
    };
    let (found, ()) = tokio::join!(found(&store, waited("a")), commit);
    assert_eq!(found, ("theirs".into(), true));
    assert_eq!(other.count("task").await, 1);
}

/// One has it, and the other finds that one.
#[tokio::test]
async fn of_two_that_take_a_freed_key_one_does() {
    let options = testing::shared().unwrap().options();
    let (one, two) = (options.clone().open().await.unwrap(), options.open().await.unwrap());
    for n in 0..50 {
        let new = |name: &str| NewTask {
            dedup: Some(format!("key{n}").into()),
            ..task(&format!("{name}{n}"))
        };
        one.start(new("first")).await.unwrap();
        let key = vec![(id(&format!("first{n}")), Bond::Key)];
        one.unbind(key, since(5)).await.unwrap();
        let (a, b) = tokio::join!(one.start(new("a")), two.start(new("b")));
        let (made, found) = match (a.unwrap(), b.unwrap()) {
            (Started::New { key: made, .. }, Started::Existing { key, freed: false, .. })
            | (Started::Existing { key, freed: false, .. }, Started::New { key: made, .. }) => {
                (made, key)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(made, found);
    }
}
