//! Steps: at least once, at most once, retried.

use std::time::Duration;

use steadfast_engine::{Attempt, Context, Error, FailureKind, Result, Retry, Status, Tool};

use crate::support::{Ledger, Place, output};

#[tokio::test(start_paused = true)]
async fn a_recorded_step_never_runs_again() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |ledger: Ledger| {
        move |builder: steadfast_engine::Builder| {
            builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
                let ledger = ledger.clone();
                async move {
                    for round in 0..3 {
                        let got = ctx
                            .step("count", || async { Ok::<_, Error>(ledger.add("count")) })
                            .await?;
                        assert_eq!(got, round + 1, "the result of the first run comes back");
                    }
                    ctx.sleep(Duration::from_secs(3600)).await;
                    ctx.step("last", || async { Ok::<_, Error>(ledger.add("last")) }).await
                }
            }))
        }
    };
    let first = place.start(tools(ledger.clone()));
    let id = first.tasks().start("t", &()).await.unwrap().id;
    first.until(&id, Status::Waiting).await;
    first.kill().await;
    let second = place.start(tools(ledger.clone()));
    assert_eq!(output::<u32>(&second.end(&id).await), 1);
    assert_eq!(ledger.count("count"), 3);
}

#[tokio::test(start_paused = true)]
async fn an_error_without_a_policy_is_recorded_and_returned() {
    let place = Place::new();
    let ledger = Ledger::default();
    let counted = ledger.clone();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
            let ledger = counted.clone();
            async move {
                let failed: Result<()> = ctx
                    .step("fail", || async {
                        ledger.add("fail");
                        Err(Error::new("no paper").code("paper"))
                    })
                    .await;
                let error = failed.unwrap_err();
                assert_eq!(error.code_name(), Some("paper"));
                Ok(error.to_string())
            }
        }))
    });
    assert_eq!(output::<String>(&life.run("t", ()).await), "no paper");
    assert_eq!(ledger.count("fail"), 1);
}

#[tokio::test(start_paused = true)]
async fn retries_wait_durably_and_show_the_last_error() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |ledger: Ledger| {
        move |builder: steadfast_engine::Builder| {
            builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
                let ledger = ledger.clone();
                async move {
                    let retry =
                        Retry::exponential().attempts(3).first_delay(Duration::from_secs(3600));
                    ctx.step("flaky", |attempt: Attempt| {
                        let ledger = ledger.clone();
                        async move {
                            ledger.add(&format!("{} {}", attempt.number(), attempt.key()));
                            if ledger.add("flaky") < 3 { Err(Error::new("not yet")) } else { Ok(7) }
                        }
                    })
                    .retry(retry)
                    .await
                }
            }))
        }
    };
    let first = place.start(tools(ledger.clone()));
    let id = first.tasks().start("t", &()).await.unwrap().id;
    let shown = first.until(&id, Status::Retrying).await;
    assert_eq!(shown.failure.unwrap().message, "not yet");
    assert!(shown.retry_at.is_some());
    first.parked(&id).await;
    first.kill().await;
    let second = place.start(tools(ledger.clone()));
    let info = second.end(&id).await;
    assert_eq!(output::<u32>(&info), 7);
    assert_eq!(info.failure, None, "a success leaves no error behind");
    let key = format!("{id}:0:0");
    assert_eq!(ledger.count("flaky"), 3);
    for number in 1..=3 {
        assert_eq!(ledger.count(&format!("{number} {key}")), 1, "each attempt has the same key");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_fails_and_counts() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let retry = Retry::exponential().attempts(2).timeout(Duration::from_secs(5));
            let slow: Result<()> = ctx
                .step("slow", || async {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Ok::<_, Error>(())
                })
                .retry(retry)
                .await;
            Ok(slow.unwrap_err().is_timeout())
        }))
    });
    assert!(output::<bool>(&life.run("t", ()).await));
}

fn at_most_once(ledger: Ledger) -> Tool {
    Tool::new("t", move |ctx: Context, (): ()| {
        let ledger = ledger.clone();
        async move {
            let charged: Result<()> = ctx
                .step("charge", || async {
                    ledger.add("charge");
                    std::future::pending::<()>().await;
                    Ok::<_, Error>(())
                })
                .at_most_once()
                .await;
            let error = charged.unwrap_err();
            Ok(error.is_unfinished() && error.is_permanent())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn at_most_once_that_was_cut_off_is_a_permanent_typed_error() {
    let place = Place::new();
    let ledger = Ledger::default();
    let first = place.start(|b| b.tool(at_most_once(ledger.clone())));
    let id = first.tasks().start("t", &()).await.unwrap().id;
    while ledger.count("charge") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    first.kill().await;
    let second = place.start(|b| b.tool(at_most_once(ledger.clone())));
    assert!(output::<bool>(&second.end(&id).await));
    assert_eq!(ledger.count("charge"), 1, "never twice");
}

#[tokio::test(start_paused = true)]
async fn named_errors_reset_an_at_most_once_step_and_others_do_not() {
    let place = Place::new();
    let ledger = Ledger::default();
    let counted = ledger.clone();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
            let ledger = counted.clone();
            async move {
                let done: u32 = ctx
                    .step("busy twice", || async {
                        match ledger.add("busy") {
                            3 => Ok(3),
                            _ => Err(Error::new("busy").code("busy")),
                        }
                    })
                    .reset_on(["busy"])
                    .await?;
                let other: Result<()> = ctx
                    .step("other", || async {
                        ledger.add("other");
                        Err(Error::new("broken").code("broken"))
                    })
                    .reset_on(["busy"])
                    .await;
                assert_eq!(other.unwrap_err().code_name(), Some("broken"));
                Ok(done)
            }
        }))
    });
    assert_eq!(output::<u32>(&life.run("t", ()).await), 3);
    assert_eq!((ledger.count("busy"), ledger.count("other")), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn steps_in_flight_are_bounded_and_closures_may_borrow() {
    let place = Place::new();
    let mut settings = crate::support::settings();
    settings.task.steps_in_flight = 4;
    let life = place.start_with(settings, |builder| {
        builder.tool(Tool::new("t", |ctx: Context, names: Vec<String>| async move {
            let running = std::sync::Mutex::new((0u32, 0u32));
            let steps = names.iter().map(|name| {
                let running = &running;
                ctx.step("work", move || async move {
                    {
                        let mut now = running.lock().unwrap();
                        now.0 += 1;
                        now.1 = now.1.max(now.0);
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    running.lock().unwrap().0 -= 1;
                    Ok::<_, Error>(name.len())
                })
            });
            let lengths: Result<Vec<usize>> =
                steadfast_engine::join_all(steps).await.into_iter().collect();
            let most = running.lock().unwrap().1;
            Ok((lengths?.into_iter().sum::<usize>(), most))
        }))
    });
    let names: Vec<String> = (0..20).map(|n| "x".repeat(n)).collect();
    assert_eq!(output::<(usize, u32)>(&life.run("t", names).await), (190, 4));
}

#[tokio::test(start_paused = true)]
async fn a_result_over_the_limit_is_a_clear_error() {
    let place = Place::new();
    let settings = steadfast_engine::Settings { max_payload: 100, ..crate::support::settings() };
    let life = place.start_with(settings, |builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let big: Result<String> =
                ctx.step("big", || async { Ok::<_, Error>("x".repeat(200)) }).await;
            let error = big.unwrap_err();
            assert_eq!(error.kind(), FailureKind::Limit);
            Ok(error.to_string())
        }))
    });
    let text = output::<String>(&life.run("t", ()).await);
    assert!(text.contains("202 bytes") && text.contains("limit of 100"), "{text}");
    let refused = life.tasks().start("t", &"y".repeat(200)).await.unwrap_err();
    assert!(matches!(refused, steadfast_engine::CallError::TooLarge { limit: 100, .. }));
}
