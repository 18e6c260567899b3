//! What code can do to the connection it is given.

use std::{
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use steadfast_core::Event;
use steadfast_engine::{Error, FailureKind, Result, Retry};
use steadfast_postgres::in_postgres;
use tokio::sync::Notify;

use super::{Bank, completed, output, tool};

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

/// They are looked at before all others by whoever does not say otherwise.
#[tokio::test]
async fn temporary_tables_of_the_code_are_not_taken_for_the_stores() {
    let bank = Bank::open().await;
    let schema = bank.options.schema_name().to_owned();
    let (ended, events) = bank
        .run_on(
            bank.options.clone().transactions(1),
            tool(&(bank.book(), schema), |(book, schema), ctx| async move {
                let (book, schema) = (&book, &schema);
                // The second time the store's statements are prepared already.
                for cents in [1, 2] {
                    let pay = in_postgres(|tx| async move {
                        for name in ["event", "task", "desk", "writer"] {
                            let sql = format!("CREATE TEMP TABLE {name} (LIKE {schema}.{name})");
                            tx.execute(&sql, &[]).await?;
                        }
                        tx.execute("CREATE TEMP SEQUENCE moment", &[]).await?;
                        book.pay(&tx, cents).await
                    });
                    ctx.transaction("book", pay).await?;
                }
                Ok(())
            }),
        )
        .await;
    output(&ended);
    assert_eq!(completed(&events), ["book 1", "book 2"]);
    assert_eq!(bank.paid().await, [1, 2]);
}

/// A role that may not touch the store's tables is for the author's own statements.
#[tokio::test]
async fn what_the_code_has_set_does_not_hold_for_the_record() {
    let bank = Bank::open().await;
    let clerk = format!("clerk_{}", bank.options.schema_name());
    let sql = format!(
        "CREATE ROLE {clerk}; GRANT ALL ON {table}, {table}_of TO {clerk};
         GRANT ALL ON SEQUENCE {table}_id_seq TO {clerk}",
        table = bank.table
    );
    bank.client.batch_execute(&sql).await.unwrap();
    let (ended, events) = bank
        .run_on(
            bank.options.clone().transactions(1),
            tool(&(bank.book(), clerk), |(book, clerk), ctx| async move {
                let (book, clerk) = (&book, &clerk);
                let settings = [
                    format!("SET ROLE {clerk}"),
                    format!("SET LOCAL ROLE {clerk}"),
                    format!("SET SESSION AUTHORIZATION {clerk}"),
                    "SET default_transaction_read_only = on".to_owned(),
                    "SET lock_timeout = 1".to_owned(),
                    // PostgreSQL would work it out for the commit.
                    "DECLARE c CURSOR WITH HOLD FOR SELECT 1 / (n - 5) FROM generate_series(1, 9) n"
                        .to_owned(),
                ];
                for (cents, sql) in (1..).zip(&settings) {
                    let pay = in_postgres(|tx| async move {
                        tx.execute(sql, &[]).await?;
                        book.pay(&tx, cents).await
                    });
                    ctx.transaction("book", pay).await?;
                }
                let whoami = in_postgres(|tx| async move {
                    let row = tx.query_one("SELECT current_user::text", &[]).await?;
                    Ok::<String, Error>(row.get(0))
                });
                ctx.transaction("who", whoami).await
            }),
        )
        .await;
    assert_eq!(output(&ended), "\"steadfast\"");
    assert_eq!(bank.paid().await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(completed(&events).len(), 7);
}

/// It would be so each time: it is not tried again, and not for ever.
#[tokio::test]
async fn code_that_can_not_be_recorded_fails_for_good() {
    let bank = Bank::open().await;
    let (ended, events) = bank
        .run_on(
            bank.options.clone().transactions(1),
            tool(&bank.book(), |book, ctx| async move {
                let book = &book;
                let fine = |cents| in_postgres(move |tx| async move { book.pay(&tx, cents).await });
                ctx.transaction("fine", fine(1)).await?;
                let wrongs = [
                    ("SET TRANSACTION READ ONLY", "only reads"),
                    ("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$", "prepared statements"),
                ];
                for (sql, why) in wrongs {
                    let wrong = in_postgres(|tx| async move {
                        book.pay(&tx, 9).await?;
                        tx.execute(sql, &[]).await?;
                        Ok::<_, Error>(())
                    });
                    let wrong = ctx.transaction("wrong", wrong).retry(Retry::exponential()).await;
                    let wrong = wrong.unwrap_err();
                    assert_eq!(wrong.kind(), FailureKind::Usage, "{wrong}");
                    assert!(wrong.to_string().contains(why), "{wrong}");
                    ctx.transaction("fine", fine(if why == "only reads" { 2 } else { 3 })).await?;
                }
                // These don't get to the server.
                for (sql, why) in [("DEALLOCATE ALL", "name yours"), ("SELECT 1\0", "null")] {
                    let wrong = in_postgres(|tx| async move {
                        book.pay(&tx, 9).await?;
                        tx.execute(sql, &[]).await?;
                        Ok::<_, Error>(())
                    });
                    let wrong = ctx.transaction("wrong", wrong).await.unwrap_err();
                    assert!(wrong.to_string().contains(why), "{wrong}");
                }
                ctx.transaction("fine", fine(4)).await
            }),
        )
        .await;
    output(&ended);
    assert_eq!(bank.paid().await, [1, 2, 3, 4]);
    assert!(!events.iter().any(|event| matches!(event, Event::StepRetrying { .. })));
}

/// What only its commit brings to light is its own failure as well, and neither waited for nor the task's end.
#[tokio::test]
async fn what_postgresql_refuses_at_the_commit_is_the_failure_of_the_code() {
    let bank = Bank::open().await;
    let (ended, events) = bank
        .run(tool(&bank.book(), |book, ctx| async move {
            let book = &book;
            let wrong = in_postgres(|tx| async move {
                book.pay(&tx, 1).await?;
                let keep = "CREATE TEMP TABLE a (x int PRIMARY KEY) ON COMMIT DELETE ROWS";
                tx.execute(keep, &[]).await?;
                let of = "CREATE TEMP TABLE b (x int REFERENCES a) ON COMMIT PRESERVE ROWS";
                tx.execute(of, &[]).await?;
                Ok::<_, Error>(())
            });
            let wrong = ctx.transaction("wrong", wrong).await.unwrap_err();
            assert!(wrong.to_string().contains("ON COMMIT"), "{wrong}");
            let fine = in_postgres(|tx| async move { book.pay(&tx, 2).await });
            ctx.transaction("fine", fine).await
        }))
        .await;
    output(&ended);
    assert_eq!(bank.paid().await, [2]);
    assert_eq!(completed(&events), ["fine 2"]);
}

/// The code was dropped when its time was over, and what it had spawned goes on.
#[tokio::test]
async fn a_handle_is_of_no_use_when_its_code_was_dropped() {
    let bank = Bank::open().await;
    let go = Arc::new(Notify::new());
    let late = Arc::new(Mutex::new(None));
    let shared = (bank.book(), go.clone(), late.clone());
    let (ended, _) = bank
        .run_on(
            bank.options.clone().transactions(1),
            tool(&shared, |(book, go, late), ctx| async move {
                let (book, go, late) = (&book, &go, &late);
                let stray = in_postgres(|tx| async move {
                    book.pay(&tx, 1).await?;
                    let (book, go) = (book.clone(), go.clone());
                    let stray = tokio::spawn(async move {
                        go.notified().await;
                        book.pay(&tx, 2).await
                    });
                    *late.lock().unwrap() = Some(stray);
                    std::future::pending::<Result<()>>().await
                });
                let retry = Retry::never().timeout(Duration::from_millis(300));
                let dropped = ctx.transaction("stray", stray).retry(retry).await.unwrap_err();
                assert!(dropped.is_timeout(), "{dropped}");
                // Whoever has the connection next has it alone.
                let next = in_postgres(|tx| async move {
                    book.pay(&tx, 3).await?;
                    let Some(stray) = late.lock().unwrap().take() else { return Ok(()) };
                    go.notify_one();
                    let said = stray.await.map_err(|e| Error::new(e.to_string()))?;
                    assert!(said.unwrap_err().to_string().contains("is over"));
                    Ok::<_, Error>(())
                });
                ctx.transaction("next", next).await
            }),
        )
        .await;
    output(&ended);
    assert_eq!(bank.paid().await, [3]);
}

#[tokio::test]
async fn a_statement_that_is_not_waited_for_is_an_error() {
    let bank = Bank::open().await;
    let (ended, _) = bank
        .run_on(
            bank.options.clone().transactions(1),
            tool(&bank.book(), |book, ctx| async move {
                let book = &book;
                let hasty = in_postgres(|tx| async move {
                    book.pay(&tx, 1).await?;
                    let book = book.clone();
                    let mut second = Box::pin(async move { book.pay(&tx, 2).await });
                    std::future::poll_fn(|cx| {
                        assert!(second.as_mut().poll(cx).is_pending(), "it is under way");
                        Poll::Ready(())
                    })
                    .await;
                    tokio::spawn(second);
                    Ok::<_, Error>(())
                });
                let hasty = ctx.transaction("hasty", hasty).retry(Retry::exponential()).await;
                let hasty = hasty.unwrap_err();
                assert_eq!(hasty.kind(), FailureKind::Usage, "{hasty}");
                assert!(hasty.to_string().contains("still under way"), "{hasty}");
                let fine = in_postgres(|tx| async move { book.pay(&tx, 3).await });
                ctx.transaction("fine", fine).await
            }),
        )
        .await;
    output(&ended);
    assert_eq!(bank.paid().await, [3]);
}
