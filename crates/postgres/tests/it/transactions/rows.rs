//! What a transaction leaves, in the author's tables and in the history.

use std::{sync::Arc, time::Duration};

use steadfast_core::Event;
use steadfast_engine::{Context, Engine, Error, FailureKind, Result, Tool};
use steadfast_postgres::{Isolation, in_postgres};

use super::{Bank, ada, completed, output, tool};

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
