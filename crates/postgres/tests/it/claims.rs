//! Who takes up what, with several processes, and if it is much.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use steadfast_core::Timestamp;
use steadfast_engine::{Context, Engine, Error, Principal, Settings, Status, TaskId, Tool};
use steadfast_postgres::{Options, testing};
use steadfast_store::{ClaimTasks, Store as _};
use tokio::sync::Notify;

/// Tasks on the ready pile, each with so many events of so many bytes, `from` this number on.
async fn ready(options: &Options, from: u32, tasks: u32, events: u32, bytes: u32) {
    let last = from + tasks - 1;
    let sql = format!(
        "INSERT INTO task SELECT k, 1, 1, NULL, NULL, NULL, NULL, NULL, 0, NULL, k, 1, 0, 0, 1,
            0::smallint, 0::smallint, false, 'ready' || k, 'tool', 'me', NULL, NULL, 'about', 'view', NULL
         FROM generate_series({from}, {last}) k;
         INSERT INTO event SELECT k, n, convert_to(repeat('x', {bytes}), 'UTF8')
         FROM generate_series({from}, {last}) k, generate_series(0, {events} - 1) n;"
    );
    testing::sql(options, &sql).await.unwrap();
}

/// How many tasks each claim takes, until there are none. If it leaves some it says so.
async fn claims(options: &Options, most: usize) -> Vec<usize> {
    let store = options.clone().open().await.unwrap();
    let changed = store.changed();
    let told = async || {
        let soon = Duration::from_secs(10);
        while !tokio::time::timeout(soon, changed.next()).await.expect("nothing is said").work {}
    };
    // What is said when it is opened.
    told().await;
    let (mut left, mut taken) = (most, Vec::new());
    while left > 0 {
        let tools = vec![("tool".into(), 1, 1)];
        let claim = ClaimTasks { tools, limit: 100, now: Timestamp(10) };
        let claimed = store.claim(claim).await.unwrap();
        assert!(claimed.iter().all(|task| !task.history.is_empty() && task.row.epoch == 2));
        assert!(!claimed.is_empty(), "{taken:?}");
        taken.push(claimed.len());
        left -= claimed.len();
        if left > 0 {
            told().await;
        }
    }
    taken
}

#[tokio::test]
async fn a_claim_takes_as_much_as_fits_into_an_answer_and_says_that_there_is_more() {
    let options = testing::shared().unwrap().options();
    options.clone().migrate().await.unwrap();
    ready(&options, 1_000, 7, 5, 1 << 20).await;
    assert_eq!(claims(&options, 7).await, [3, 3, 1]);
    ready(&options, 2_000, 2, 20, 1 << 20).await;
    assert_eq!(claims(&options, 2).await, [1, 1], "one in any case");
    ready(&options, 3_000, 4, 6_000, 1).await;
    assert_eq!(claims(&options, 4).await, [2, 2], "small events count as well");
    ready(&options, 4_000, 60, 3, 10).await;
    assert_eq!(claims(&options, 60).await, [60]);
}

/// Who has run which task, and the door that all wait at.
#[derive(Clone, Default)]
struct Seen(Arc<(Mutex<BTreeMap<u32, usize>>, Notify)>);

impl Seen {
    fn by(&self, engine: u32) -> usize {
        let seen = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&engine).copied().unwrap_or(0)
    }

    fn add(&self, engine: u32) {
        let mut seen = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(engine).or_default() += 1;
    }
}

fn ada() -> Principal {
    Principal::new("ada").unwrap()
}

/// One of several engines on a database.
async fn engine(options: &Options, number: u32, places: usize, seen: &Seen) -> Engine {
    let (one, two) = (seen.clone(), seen.clone());
    let settings = Settings {
        max_running: places,
        park_after: Duration::from_millis(20),
        ..Settings::default()
    };
    // Holds its place until the door is opened.
    let waits = Tool::new("waits", move |ctx: Context, (): ()| {
        let seen = one.clone();
        async move {
            ctx.step("wait", || async {
                seen.add(number);
                seen.0.1.notified().await;
                Ok::<_, Error>(())
            })
            .await
        }
    });
    // The same after a time that it waits for outside of memory.
    let parks = Tool::new("parks", move |ctx: Context, at: Timestamp| {
        let seen = two.clone();
        async move {
            ctx.sleep_until(at).await;
            ctx.step("wait", || async {
                seen.add(number);
                seen.0.1.notified().await;
                Ok::<_, Error>(())
            })
            .await
        }
    });
    let store = Arc::new(options.clone().open().await.unwrap());
    Engine::builder(store).settings(settings).tool(waits).tool(parks).start()
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Opens the door until all have ended.
async fn finish(engine: &Engine, seen: &Seen, tasks: &[TaskId]) {
    for task in tasks {
        until("it does not end", async || {
            seen.0.1.notify_waiters();
            engine.operator().get(task).await.unwrap().status == Status::Completed
        })
        .await;
    }
}

#[tokio::test]
async fn a_process_that_joins_takes_up_what_waits_for_a_place_elsewhere() {
    let (options, seen) = (testing::shared().unwrap().options(), Seen::default());
    let one = engine(&options, 1, 2, &seen).await;
    let mut tasks = Vec::new();
    for _ in 0..7 {
        tasks.push(one.tasks(ada()).start("waits", &()).await.unwrap().id);
    }
    until("its places are not taken", async || seen.by(1) == 2).await;
    let two = engine(&options, 2, 3, &seen).await;
    until("it takes up nothing", async || seen.by(2) == 3).await;
    assert_eq!(seen.by(1), 2, "while others wait for the door");
    let three = engine(&options, 3, 5, &seen).await;
    until("it does not take the rest", async || seen.by(3) == 2).await;
    finish(&one, &seen, &tasks).await;
    assert_eq!([1, 2, 3].map(|engine| seen.by(engine)), [2, 3, 2], "each ran once");
    for engine in [one, two, three] {
        engine.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn tasks_that_are_due_at_once_are_taken_up_by_all_who_have_a_place() {
    let (options, seen) = (testing::shared().unwrap().options(), Seen::default());
    let one = engine(&options, 1, 12, &seen).await;
    let two = engine(&options, 2, 12, &seen).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at = Timestamp(i64::try_from(now.as_millis()).unwrap() + 3_000);
    let mut tasks = Vec::new();
    for n in 0..24 {
        let by = if n % 2 == 0 { &one } else { &two };
        tasks.push(by.tasks(ada()).start("parks", &at).await.unwrap().id);
    }
    until("they are not taken up", async || seen.by(1) + seen.by(2) == 24).await;
    assert_eq!([seen.by(1), seen.by(2)], [12, 12]);
    finish(&one, &seen, &tasks).await;
    for engine in [one, two] {
        engine.shutdown(Duration::from_secs(5)).await;
    }
}

/// More than one claim can take: the engine asks until it has them.
#[tokio::test]
async fn tasks_with_long_histories_that_are_due_at_once_are_all_taken_up() {
    let options = testing::shared().unwrap().options();
    let store = Arc::new(options.clone().open().await.unwrap());
    let settings = Settings { park_after: Duration::from_millis(20), ..Settings::default() };
    let large = Tool::new("large", |ctx: Context, at: Timestamp| async move {
        for n in 0..5 {
            let text = || async { Ok::<_, Error>("x".repeat(1_000_000)) };
            ctx.step(format!("step {n}"), text).await?;
        }
        ctx.sleep_until(at).await;
        Ok::<_, Error>(())
    });
    let engine = Engine::builder(store).settings(settings).tool(large).start();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at = Timestamp(i64::try_from(now.as_millis()).unwrap() + 4_000);
    let tasks = engine.tasks(ada());
    let mut ids = Vec::new();
    for _ in 0..9 {
        ids.push(tasks.start("large", &at).await.unwrap().id);
    }
    for id in &ids {
        let ended = tokio::time::timeout(Duration::from_secs(30), tasks.wait(id)).await;
        assert_eq!(ended.expect("it is not taken up").unwrap().status, Status::Completed);
    }
    engine.shutdown(Duration::from_secs(5)).await;
}
