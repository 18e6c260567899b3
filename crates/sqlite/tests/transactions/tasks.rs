//! Tasks with transactions, run by an engine.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use steadfast_core::Event;
use steadfast_engine::{
    Builder, Context, Engine, Error, FailureKind, Order, Principal, Result, Retry, Settings,
    Status, TaskInfo, Tool, join_all, race,
};
use steadfast_sqlite::{Store, Transaction, in_sqlite, rusqlite::Connection};
use steadfast_store::Store as AnyStore;

fn book(tx: &Transaction<'_>, cents: i64) -> Result<i64> {
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS payment (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)",
    )?;
    tx.execute("INSERT INTO payment (cents) VALUES (?)", [cents])?;
    Ok(tx.last_insert_rowid())
}

fn paid(path: &Path) -> Vec<i64> {
    let file = Connection::open(path).unwrap();
    let Ok(mut all) = file.prepare("SELECT cents FROM payment ORDER BY id") else { return vec![] };
    all.query_map([], |row| row.get(0)).unwrap().collect::<std::result::Result<_, _>>().unwrap()
}

fn ada() -> Principal {
    Principal::new("ada").unwrap()
}

/// Runs one task of a tool to its end.
async fn run(store: Arc<dyn AnyStore>, settings: Settings, tool: Tool) -> (TaskInfo, Vec<Event>) {
    let name = tool.name().to_owned();
    let builder: Builder = Engine::builder(store).settings(settings);
    let engine = builder.tool(tool).start();
    let tasks = engine.tasks(ada());
    let id = tasks.start(&name, &()).await.unwrap().id;
    let ended = tokio::time::timeout(Duration::from_secs(30), tasks.wait(&id)).await;
    let ended = ended.expect("it hangs").unwrap();
    let page = engine.operator().history(&id, Order::OldestFirst, None, 1_000).await.unwrap();
    engine.shutdown(Duration::from_secs(5)).await;
    (ended, page.entries.into_iter().map(|entry| entry.event).collect())
}

async fn on_file(dir: &tempfile::TempDir, tool: Tool) -> (TaskInfo, Vec<Event>) {
    let store = Store::open(dir.path().join("tasks.db")).unwrap();
    run(Arc::new(store), Settings::default(), tool).await
}

fn output(info: &TaskInfo) -> String {
    assert_eq!(info.status, Status::Completed, "{info:?}");
    info.output.as_ref().unwrap().text().to_owned()
}

#[tokio::test]
async fn steps_and_transactions_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (ended, events) = on_file(
        &dir,
        Tool::new("t", |ctx: Context, (): ()| async move {
            let cents = ctx.step("price", || async { Ok::<_, Error>(5) }).await?;
            let first = ctx.transaction("book", in_sqlite(move |tx| book(tx, cents))).await?;
            let words = ctx.clone();
            let second = ctx
                .transaction(
                    "book",
                    in_sqlite(move |tx| {
                        words.status("booking");
                        book(tx, cents + 1)
                    }),
                )
                .await?;
            ctx.step("mail", || async { Ok::<_, Error>(()) }).await?;
            Ok((first, second))
        }),
    )
    .await;
    assert_eq!(output(&ended), "[1,2]");
    assert_eq!(ended.message.as_deref(), Some("booking"));
    assert_eq!(paid(&path), [5, 6]);
    let steps: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            Event::StepCompleted { name, result, .. } => Some(format!("{name} {}", result.text())),
            _ => None,
        })
        .collect();
    assert_eq!(steps, ["price 5", "book 1", "book 2", "mail null"]);
}

#[tokio::test]
async fn an_error_is_recorded_and_its_rows_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (ended, events) = on_file(
        &dir,
        Tool::new("t", |ctx: Context, (): ()| async move {
            let failed = ctx
                .transaction(
                    "book",
                    in_sqlite(|tx| {
                        book(tx, 5)?;
                        Err::<(), _>(Error::new("too little money").code("poor"))
                    }),
                )
                .await
                .unwrap_err();
            assert_eq!((failed.code_name(), failed.kind()), (Some("poor"), FailureKind::Error));
            let panicked = ctx.transaction(
                "break",
                in_sqlite(|tx| -> Result<()> {
                    book(tx, 6)?;
                    panic!("on purpose")
                }),
            );
            assert_eq!(panicked.await.unwrap_err().kind(), FailureKind::Panicked);
            let large = ctx.transaction(
                "large",
                in_sqlite(|tx| {
                    book(tx, 7)?;
                    Ok::<_, Error>("x".repeat(2 << 20))
                }),
            );
            assert_eq!(large.await.unwrap_err().kind(), FailureKind::Limit);
            ctx.transaction("book", in_sqlite(|tx| book(tx, 8))).await
        }),
    )
    .await;
    assert_eq!((output(&ended).as_str(), paid(&path)), ("1", vec![8]));
    let failed = |event: &&Event| matches!(event, Event::StepFailed { .. });
    assert_eq!(events.iter().filter(failed).count(), 3);
}

#[tokio::test]
async fn it_is_tried_again_by_its_policy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (ended, events) = on_file(
        &dir,
        Tool::new("t", |ctx: Context, (): ()| async move {
            let tries = Arc::new(AtomicU32::new(0));
            let code = in_sqlite(move |tx| {
                let number = tries.fetch_add(1, Ordering::SeqCst);
                book(tx, i64::from(number))?;
                if number < 2 { Err(Error::new("not yet")) } else { Ok(number) }
            });
            let retry = Retry::exponential().first_delay(Duration::from_millis(5)).attempts(5);
            ctx.transaction("book", code).retry(retry).await
        }),
    )
    .await;
    assert_eq!((output(&ended).as_str(), paid(&path)), ("2", vec![2]));
    let retries: Vec<u32> = events
        .iter()
        .filter_map(|event| match event {
            Event::StepRetrying { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(retries, [1, 2]);
}

#[tokio::test]
async fn many_at_once_in_one_task_lose_nothing_and_the_loser_of_a_race_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let (ended, _) = on_file(
        &dir,
        Tool::new("t", |ctx: Context, (): ()| async move {
            let all = (0..20).map(|n| {
                let ctx = ctx.clone();
                async move {
                    if n % 2 == 0 {
                        return ctx.step("other", || async { Ok::<_, Error>(n) }).await;
                    }
                    ctx.transaction("book", in_sqlite(move |tx| book(tx, n))).await
                }
            });
            let all = join_all(all).await.into_iter().collect::<Result<Vec<i64>>>()?;
            // It has not even begun when the other is ready.
            let event = async { ctx.step("quick", || async { Ok::<_, Error>(-1) }).await };
            let slow = async {
                ctx.sleep(Duration::from_secs(3600)).await;
                ctx.transaction("late", in_sqlite(|tx| book(tx, 99))).await
            };
            race(event, slow).await;
            Ok(all.len())
        }),
    )
    .await;
    assert_eq!(output(&ended), "20");
    let mut paid = paid(&path);
    paid.sort_unstable();
    assert_eq!(paid, (0..20).filter(|n| n % 2 == 1).collect::<Vec<_>>());
}

#[tokio::test]
async fn many_tasks_at_once_book_each_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let tool = Tool::new("t", |ctx: Context, cents: i64| async move {
        let booked = ctx
            .transaction(
                "book",
                in_sqlite(move |tx| {
                    let id = book(tx, cents)?;
                    if cents % 3 == 0 { Err(Error::new("no")) } else { Ok(id) }
                }),
            )
            .await;
        ctx.step("after", || async { Ok::<_, Error>(()) }).await?;
        Ok(booked.is_ok())
    });
    let engine = Engine::builder(Arc::new(Store::open(&path).unwrap())).tool(tool).start();
    let tasks = engine.tasks(ada());
    let mut ids = Vec::new();
    for cents in 0..90i64 {
        ids.push(tasks.start("t", &cents).await.unwrap().id);
    }
    let mut good = 0;
    for id in &ids {
        good += usize::from(output(&tasks.wait(id).await.unwrap()) == "true");
    }
    engine.shutdown(Duration::from_secs(5)).await;
    let mut paid = paid(&path);
    paid.sort_unstable();
    assert_eq!((good, paid), (60, (0..90).filter(|cents| cents % 3 != 0).collect()));
}

#[tokio::test]
async fn a_store_of_another_kind_says_what_to_do() {
    let tool = || {
        Tool::new("t", |ctx: Context, (): ()| async move {
            let wrong = ctx.transaction("book", in_sqlite(|tx| book(tx, 1))).await.unwrap_err();
            assert!(wrong.is_permanent());
            assert_eq!(wrong.code_name(), Some("wrong_store"));
            Ok(wrong.to_string())
        })
    };
    let memory = Arc::new(steadfast_store::Disk::new().open());
    let (ended, _) = run(memory, Settings::default(), tool()).await;
    let text = output(&ended);
    assert!(text.contains("the store in memory") && text.contains("in_postgres"), "{text}");
}

#[tokio::test]
async fn effect_validation_runs_it_once_and_replays_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let tool = Tool::new("t", move |ctx: Context, (): ()| {
        let runs = counted.clone();
        async move {
            let mut all = Vec::new();
            for cents in 0..5 {
                let runs = runs.clone();
                all.push(
                    ctx.transaction(
                        "book",
                        in_sqlite(move |tx| {
                            runs.fetch_add(1, Ordering::SeqCst);
                            book(tx, cents)
                        }),
                    )
                    .await?,
                );
            }
            Ok(all)
        }
    });
    let settings = Settings { validate_effects: true, ..Settings::default() };
    let (ended, _) = run(Arc::new(Store::open(&path).unwrap()), settings, tool).await;
    assert_eq!((output(&ended).as_str(), runs.load(Ordering::SeqCst)), ("[1,2,3,4,5]", 5));
    assert_eq!(paid(&path).len(), 5);
}

#[tokio::test]
async fn a_durable_operation_inside_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path().join("tasks.db")).unwrap());
    let tool = Tool::new("t", |ctx: Context, (): ()| async move {
        let inner = ctx.clone();
        ctx.transaction(
            "book",
            in_sqlite(move |tx| {
                let _ = inner.version("a change", 1);
                book(tx, 1)
            }),
        )
        .await
    });
    let engine = Engine::builder(store).tool(tool).start();
    let tasks = engine.tasks(ada());
    let id = tasks.start("t", &()).await.unwrap().id;
    let stuck = tasks.wait_for(&id, |info| info.status == Status::Stuck);
    let stuck = tokio::time::timeout(Duration::from_secs(20), stuck).await.expect("it hangs");
    let text = format!("{:?}", stuck.unwrap().failure);
    assert!(text.contains("inside the step \\\"book\\\""), "{text}");
    engine.shutdown(Duration::from_secs(5)).await;
}
