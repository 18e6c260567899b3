//! SQL of an author's in the transaction that records it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use steadfast_core::{Event, OpId, Timestamp};
use steadfast_engine::{
    Context, Engine, Error, FailureKind, Order, Principal, Result, Settings, Status, TaskInfo, Tool,
};
use steadfast_postgres::{
    Isolation, Options, Transaction, in_postgres, testing,
    tokio_postgres::{Client, NoTls},
};
use steadfast_store::{
    ClaimTasks, Join, Judge, Overruled, Poison, Prepared, Refusal, Store as _, Turn, Work as _,
};
use tokio::sync::Notify;

use crate::{
    common::{held, history, id, operator, turn},
    proxy::{Fate, Proxy},
};

/// A store of its own, and a table of an author's beside it.
struct Bank {
    options: Options,
    client: Client,
    table: String,
}

impl Bank {
    async fn open() -> Bank {
        let server = testing::shared().unwrap();
        let options = server.options();
        let (client, wire) =
            steadfast_postgres::tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(wire);
        // There may be a schema of the role's name, which would come first.
        let table = format!("public.payment_{}", options.schema_name());
        let sql = format!(
            "CREATE TABLE {table} (id bigserial PRIMARY KEY, cents bigint NOT NULL UNIQUE);
             CREATE TABLE {table}_of (cents bigint REFERENCES {table} (cents)
                DEFERRABLE INITIALLY DEFERRED)"
        );
        client.batch_execute(&sql).await.unwrap();
        Bank { options, client, table }
    }

    async fn paid(&self) -> Vec<i64> {
        let sql = format!("SELECT cents FROM {} ORDER BY id", self.table);
        self.client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    fn book(&self) -> Book {
        Book(format!("INSERT INTO {} (cents) VALUES ($1) RETURNING cents", self.table))
    }

    /// Runs one task to its end on a store that is opened for it.
    async fn run(&self, tool: Tool) -> (TaskInfo, Vec<Event>) {
        self.run_on(self.options.clone(), tool).await
    }

    async fn run_on(&self, options: Options, tool: Tool) -> (TaskInfo, Vec<Event>) {
        let engine = engine(options, tool).await;
        let tasks = engine.tasks(ada());
        let id = tasks.start("t", &()).await.unwrap().id;
        let ended = tokio::time::timeout(Duration::from_secs(40), tasks.wait(&id)).await;
        let ended = ended.expect("it hangs").unwrap();
        let page = engine.operator().history(&id, Order::OldestFirst, None, 1_000).await.unwrap();
        engine.shutdown(Duration::from_secs(5)).await;
        (ended, page.entries.into_iter().map(|entry| entry.event).collect())
    }
}

async fn engine(options: Options, tool: Tool) -> Engine {
    Engine::builder(Arc::new(options.open().await.unwrap()))
        .settings(Settings::default())
        .tool(tool)
        .start()
}

fn ada() -> Principal {
    Principal::new("ada").unwrap()
}

/// How to book a payment.
#[derive(Clone)]
struct Book(String);

impl Book {
    async fn pay(&self, tx: &Transaction, cents: i64) -> Result<i64> {
        Ok(tx.query_one(&self.0, &[&cents]).await?.get(0))
    }
}

/// A tool that shares something with its test.
fn tool<S, F, Fut, O>(shared: &S, function: F) -> Tool
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: serde::Serialize,
{
    let shared = shared.clone();
    Tool::new("t", move |ctx: Context, (): ()| function(shared.clone(), ctx))
}

fn output(info: &TaskInfo) -> String {
    assert_eq!(info.status, Status::Completed, "{info:?}");
    info.output.as_ref().unwrap().text().to_owned()
}

fn completed(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match event {
        Event::StepCompleted { name, result, .. } => Some(format!("{name} {}", result.text())),
        _ => None,
    };
    events.iter().filter_map(line).collect()
}

#[tokio::test]
async fn rows_and_record_are_there_together() {
    let bank = Bank::open().await;
    let (ended, events) = bank
        .run(tool(&bank.book(), |book, ctx| async move {
            let cents = ctx.step("price", || async { Ok::<_, Error>(5) }).await?;
            // It may borrow.
            let (book, price) = (&book, &cents);
            let pay = in_postgres(|tx| async move { book.pay(&tx, *price).await });
            let first = ctx.transaction("book", pay).await?;
            let pay = in_postgres(|tx| async move { book.pay(&tx, *price + 1).await });
            let second = ctx.transaction("book", pay.isolation(Isolation::Serializable)).await?;
            ctx.step("mail", || async { Ok::<_, Error>(()) }).await?;
            Ok((first, second))
        }))
        .await;
    assert_eq!((output(&ended).as_str(), bank.paid().await), ("[5,6]", vec![5, 6]));
    assert_eq!(completed(&events), ["price 5", "book 5", "book 6", "mail null"]);
}

#[tokio::test]
async fn what_fails_is_rolled_back_and_recorded() {
    let bank = Bank::open().await;
    let shared = (bank.book(), bank.table.clone());
    let (ended, events) = bank
        .run(tool(&shared, |(book, table), ctx| async move {
            let book = &book;
            let poor = in_postgres(|tx| async move {
                book.pay(&tx, 1).await?;
                Err::<(), _>(Error::new("too little money").code("poor"))
            });
            let poor = ctx.transaction("poor", poor).await.unwrap_err();
            assert_eq!(poor.code_name(), Some("poor"));

            let panics = in_postgres(|tx| async move {
                book.pay(&tx, 2).await?;
                if true {
                    panic!("on purpose");
                }
                Ok::<_, Error>(())
            });
            let panicked = ctx.transaction("panics", panics).await.unwrap_err();
            assert_eq!(panicked.kind(), FailureKind::Panicked);

            let slow = in_postgres(|tx| async move {
                book.pay(&tx, 3).await?;
                tx.execute("SELECT pg_sleep(60)", &[]).await?;
                Ok::<_, Error>(())
            });
            let late = ctx.transaction("slow", slow.limit(Duration::from_millis(300))).await;
            assert!(late.unwrap_err().is_timeout());

            let idle = in_postgres(|tx| async move {
                book.pay(&tx, 4).await?;
                std::future::pending::<Result<()>>().await
            });
            let late = ctx.transaction("idle", idle.limit(Duration::from_millis(300))).await;
            assert!(late.unwrap_err().is_timeout());

            // A statement failed, and the closure does not say so.
            let deaf = in_postgres(|tx| async move {
                book.pay(&tx, 5).await?;
                assert!(tx.execute("SELECT 1 / 0", &[]).await.is_err());
                Ok::<_, Error>(())
            });
            let deaf = ctx.transaction("deaf", deaf).await.unwrap_err();
            assert!(deaf.to_string().contains("a statement of it failed"), "{deaf}");

            // What PostgreSQL checks at the end only.
            let of = &format!("INSERT INTO {table}_of VALUES (99)");
            let deferred = in_postgres(|tx| async move {
                tx.execute(of, &[]).await?;
                Ok::<_, Error>(())
            });
            let deferred = ctx.transaction("deferred", deferred).await.unwrap_err();
            assert!(deferred.to_string().contains("foreign key"), "{deferred}");

            let good = in_postgres(|tx| async move { book.pay(&tx, 6).await });
            ctx.transaction("good", good).await
        }))
        .await;
    assert_eq!((output(&ended).as_str(), bank.paid().await), ("6", vec![6]));
    let failed = |event: &&Event| matches!(event, Event::StepFailed { .. });
    assert_eq!(events.iter().filter(failed).count(), 6);
}

#[tokio::test]
async fn the_transaction_is_the_stores_to_end() {
    let bank = Bank::open().await;
    let (ended, _) = bank
        .run(tool(&bank.book(), |book, ctx| async move {
            let book = &book;
            for sql in ["COMMIT", "/* so */ rollback", "; END", "BEGIN"] {
                let ends = in_postgres(|tx| async move {
                    book.pay(&tx, 1).await?;
                    tx.execute(sql, &[]).await?;
                    Ok::<_, Error>(())
                });
                let refused = ctx.transaction(sql, ends).await.unwrap_err().to_string();
                assert!(refused.contains("would end the transaction"), "{refused}");
            }
            let two = in_postgres(|tx| async move {
                book.pay(&tx, 1).await?;
                tx.execute("SELECT 1; COMMIT", &[]).await?;
                Ok::<_, Error>(())
            });
            let refused = ctx.transaction("two", two).await.unwrap_err().to_string();
            assert!(refused.contains("multiple commands"), "{refused}");
            let procedure = in_postgres(|tx| async move {
                book.pay(&tx, 1).await?;
                tx.execute("DO $$ BEGIN COMMIT; END $$", &[]).await?;
                Ok::<_, Error>(())
            });
            let refused = ctx.transaction("procedure", procedure).await.unwrap_err().to_string();
            assert!(refused.contains("invalid transaction termination"), "{refused}");
            // Savepoints are the author's.
            let savepoint = in_postgres(|tx| async move {
                tx.execute("SAVEPOINT mine", &[]).await?;
                book.pay(&tx, 1).await?;
                tx.execute("ROLLBACK TO mine", &[]).await?;
                book.pay(&tx, 2).await
            });
            ctx.transaction("savepoint", savepoint).await?;
            let kept = Arc::new(std::sync::Mutex::new(None));
            let keeps = kept.clone();
            let stash = in_postgres(move |tx| {
                *keeps.lock().unwrap() = Some(tx.clone());
                async move { book.pay(&tx, 3).await }
            });
            ctx.transaction("stash", stash).await?;
            let kept = kept.lock().unwrap().take().unwrap();
            let late = ctx.step("late", || async { book.pay(&kept, 4).await }).await;
            assert!(late.unwrap_err().to_string().contains("is over"));
            Ok(())
        }))
        .await;
    output(&ended);
    assert_eq!(bank.paid().await, [2, 3]);
}

#[tokio::test]
async fn settings_of_one_do_not_reach_the_next_nor_does_the_stores_schema() {
    let bank = Bank::open().await;
    let schema = bank.options.schema_name().to_owned();
    let (ended, _) = bank
        .run_on(
            bank.options.clone().transactions(1),
            tool(&(bank.book(), schema), |(book, schema), ctx| async move {
                let (book, schema) = (&book, &schema);
                let show = || {
                    in_postgres(|tx| async move {
                        let sql = "SELECT current_setting('search_path'),
                                   current_setting('work_mem'), current_setting('enable_seqscan'),
                                   to_regclass('scratch')::text,
                                   (SELECT s::text FROM unnest(current_schemas(true)) AS s
                                    WHERE s = $1::text)";
                        let row = tx.query_one(sql, &[schema]).await?;
                        let text = |at| row.get::<_, Option<String>>(at);
                        Ok::<_, Error>((0..5).map(text).collect::<Vec<_>>())
                    })
                };
                let before = ctx.transaction("show", show()).await?;
                let changes = in_postgres(|tx| async move {
                    tx.execute("SET work_mem = '99MB'", &[]).await?;
                    tx.execute("SET search_path = pg_catalog, public", &[]).await?;
                    tx.execute("CREATE TEMP TABLE scratch (x int)", &[]).await?;
                    book.pay(&tx, 1).await
                });
                ctx.transaction("changes", changes).await?;
                assert_eq!(ctx.transaction("show", show()).await?, before);
                assert_eq!(before[2..], [Some("on".to_owned()), None, None]);
                Ok(())
            }),
        )
        .await;
    output(&ended);
    assert_eq!(bank.paid().await, [1]);
}

/// Reads, lets somebody else change what was read, and writes: the first time that can't be put in line.
#[tokio::test]
async fn a_serialization_failure_is_run_again() {
    let bank = Bank::open().await;
    bank.client
        .batch_execute(&format!("INSERT INTO {} (id, cents) VALUES (100, 10)", bank.table))
        .await
        .unwrap();
    let (ready, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let shared = (bank.table.clone(), ready.clone(), go.clone());
    let others = async {
        ready.notified().await;
        let sql = format!("UPDATE {} SET cents = cents + 1 WHERE id = 100", bank.table);
        bank.client.batch_execute(&sql).await.unwrap();
        go.notify_one();
    };
    let run = bank.run(tool(&shared, |(table, ready, go), ctx| async move {
        let runs = &AtomicU32::new(0);
        let (table, ready, go) = (&table, &ready, &go);
        let add = in_postgres(|tx| async move {
            let sql = format!("SELECT cents FROM {table} WHERE id = 100");
            let cents: i64 = tx.query_one(&sql, &[]).await?.get(0);
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                ready.notify_one();
                go.notified().await;
            }
            let sql = format!("UPDATE {table} SET cents = $1 WHERE id = 100");
            tx.execute(&sql, &[&(cents + 100)]).await?;
            Ok::<_, Error>(cents)
        });
        let seen = ctx.transaction("add", add.isolation(Isolation::RepeatableRead)).await?;
        Ok((seen, runs.load(Ordering::SeqCst)))
    }));
    let ((ended, events), ()) = tokio::join!(run, others);
    assert_eq!((output(&ended).as_str(), bank.paid().await), ("[11,2]", vec![111]));
    assert!(!events.iter().any(|event| matches!(event, Event::StepRetrying { .. })));
}

/// A message to the task comes while its code runs: it waits for nothing, and of what can't be put in line
/// with it only the author's transaction is done again.
#[tokio::test]
async fn a_task_gets_its_messages_while_it_is_at_a_transaction() {
    let bank = Bank::open().await;
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        bank.client.batch_execute(&format!("TRUNCATE {} CASCADE", bank.table)).await.unwrap();
        let (ready, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let shared = (bank.book(), ready.clone(), go.clone(), isolation);
        let tool = tool(&shared, |(book, ready, go, isolation), ctx| async move {
            let runs = &AtomicU32::new(0);
            let (book, ready, go) = (&book, &ready, &go);
            let pay = in_postgres(|tx| async move {
                book.pay(&tx, 1).await?;
                if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                    ready.notify_one();
                    go.notified().await;
                }
                Ok::<_, Error>(())
            });
            ctx.transaction("book", pay.isolation(isolation)).await?;
            let word: String = ctx.event("word").await?;
            Ok((word, runs.load(Ordering::SeqCst)))
        });
        let engine = engine(bank.options.clone(), tool).await;
        let tasks = engine.tasks(ada());
        let id = tasks.start("t", &()).await.unwrap().id;
        ready.notified().await;
        let event = steadfast_engine::Event::new("word", "hello");
        let sent = tokio::time::timeout(Duration::from_secs(5), tasks.signal(&id, event)).await;
        sent.expect("the message waits").unwrap();
        go.notify_one();
        let ended = tokio::time::timeout(Duration::from_secs(20), tasks.wait(&id)).await;
        let text = output(&ended.expect("it hangs").unwrap());
        assert!(text.starts_with("[\"hello\","), "{text}");
        assert_eq!(bank.paid().await, [1], "{isolation:?}");
        engine.shutdown(Duration::from_secs(5)).await;
    }
}

/// Takes all that does not fail.
struct Yes;

impl Judge<Result<i64>> for Yes {
    fn run(&mut self, code: Box<dyn FnOnce() -> Result<i64> + '_>) -> Option<Vec<u8>> {
        code().ok().map(|cents| format!("booked {cents}").into_bytes())
    }

    fn overrule(&mut self, why: Overruled) {
        panic!("{why:?}");
    }
}

#[tokio::test]
async fn who_does_not_hold_the_task_any_more_commits_nothing() {
    let bank = Bank::open().await;
    let other = bank.options.clone().open().await.unwrap();
    let poison = || Poison { deaths: 5, at: Timestamp(9), view: b"view".to_vec() };
    let tools = || vec![("tool".into(), 1, 1)];
    for loss in ["late", "adopted", "cancelled", "none"] {
        let store = bank.options.clone().open().await.unwrap();
        let lease = held(&store, loss).await;
        let book = &bank.book();
        let mut work = in_postgres(|tx| async move { book.pay(&tx, 1).await });
        let Prepared::Ready(parcel) = work.prepare(&store, Box::new(Yes)).await else {
            panic!("it is done, but for the commit")
        };
        let desk = store.desk();
        if loss == "late" || loss == "adopted" {
            testing::expire(&bank.options, desk).await.unwrap();
        }
        if loss == "adopted" {
            // Nobody waits for the author's transaction.
            assert_eq!(other.adopt(desk, poison()).await.unwrap().ready, 1);
            let claim = ClaimTasks { tools: tools(), limit: 9, now: Timestamp(1) };
            assert_eq!(other.claim(claim).await.unwrap().len(), 1);
        }
        if loss == "cancelled" {
            let cancel = steadfast_store::Cancel {
                at: Timestamp(3),
                event: b"cancelled".to_vec(),
                view: b"view".to_vec(),
                end: b"end".to_vec(),
                tell: b"tell".to_vec(),
                expires: None,
                frees: None,
            };
            other.cancel(operator(), id(loss), cancel).await.unwrap();
        }
        let turn = Turn { events: Vec::new(), ..turn(lease, 1, "") };
        let answer = store.turn_with(turn, Join { op: OpId(7), parcel }).await;
        if loss == "none" {
            answer.unwrap();
            assert_eq!(history(&other, lease).await, ["started", "booked 1"]);
            assert_eq!(bank.paid().await, [1]);
        } else {
            assert_eq!(answer.unwrap_err().refusal(), Some(&Refusal::Fenced), "{loss}");
            let recorded = history(&other, lease).await;
            assert!(!recorded.contains(&"booked 1".to_owned()), "{loss}: {recorded:?}");
            assert!(bank.paid().await.is_empty(), "{loss}");
        }
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_looked_up() {
    let server = testing::shared().unwrap();
    for fate in [Fate::AnswerLost, Fate::Lost, Fate::Late] {
        let bank = Bank::open().await;
        let proxy = Arc::new(Proxy::to(server.port()).await);
        let behind = Options::new(server.url_by(proxy.port)).schema(bank.options.schema_name());
        let shared = (bank.book(), proxy.clone());
        let (ended, events) = bank
            .run_on(
                behind,
                tool(&shared, move |(book, proxy), ctx| async move {
                    ctx.step("first", || async { Ok::<_, Error>(()) }).await?;
                    let (book, proxy, runs) = (&book, &proxy, &AtomicU32::new(0));
                    let pay = in_postgres(|tx| async move {
                        book.pay(&tx, 1).await?;
                        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                            // Nothing else of this process is committed now.
                            proxy.next_commit(fate, 0);
                        }
                        Ok::<_, Error>(())
                    });
                    ctx.transaction("book", pay).await?;
                    Ok(runs.load(Ordering::SeqCst))
                }),
            )
            .await;
        assert!(proxy.met(), "{fate:?}");
        assert_eq!(bank.paid().await, [1], "{fate:?}");
        assert_eq!(completed(&events), ["first null", "book null"], "{fate:?}");
        // What the server did not get was rolled back, and is done again.
        let runs = if fate == Fate::Lost { "2" } else { "1" };
        assert_eq!(output(&ended), runs, "{fate:?}");
    }
}

/// What was committed is there. But who was taken for dead before he knew must not go on as if he held it.
#[tokio::test]
async fn a_commit_that_is_found_after_the_lease_is_no_leave_to_go_on() {
    let server = testing::shared().unwrap();
    let bank = Bank::open().await;
    let proxy = Proxy::to(server.port()).await;
    let behind = Options::new(server.url_by(proxy.port)).schema(bank.options.schema_name());
    let store = behind.open().await.unwrap();
    let lease = held(&store, "a").await;
    let book = &bank.book();
    let mut work = in_postgres(|tx| async move { book.pay(&tx, 1).await });
    let Prepared::Ready(parcel) = work.prepare(&store, Box::new(Yes)).await else {
        panic!("it is done, but for the commit")
    };
    let desk = store.desk();
    proxy.next_commit(Fate::AnswerLost, 0);
    proxy.then_refuse();
    let others = async {
        while !proxy.met() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        testing::expire(&bank.options, desk).await.unwrap();
        proxy.let_in();
    };
    let turn = Turn { events: Vec::new(), ..turn(lease, 1, "") };
    let taken = store.turn_with(turn, Join { op: OpId(7), parcel });
    let (answer, ()) = tokio::join!(taken, others);
    assert!(matches!(answer, Err(steadfast_store::Error::Unknown(_))), "{answer:?}");
    assert_eq!(bank.paid().await, [1], "it was committed");
}

#[tokio::test]
async fn a_store_of_another_kind_says_what_to_do() {
    let memory = Arc::new(steadfast_store::Disk::new().open());
    let tool = Tool::new("t", |ctx: Context, (): ()| async move {
        let none = in_postgres(|_| async { Ok::<_, Error>(()) });
        Ok(ctx.transaction("book", none).await.unwrap_err().to_string())
    });
    let engine = Engine::builder(memory).tool(tool).start();
    let tasks = engine.tasks(ada());
    let id = tasks.start("t", &()).await.unwrap().id;
    let text = output(&tasks.wait(&id).await.unwrap());
    assert!(text.contains("the store in memory") && text.contains("in_sqlite"), "{text}");
}
