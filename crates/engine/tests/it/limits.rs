//! Limits are enforced with errors that name them.

use steadfast_engine::{
    Action, ActivityContext, Answer, CallError, Context, Error, Event, FailureKind, Json, Result,
    Retry, Settings, Status, Tool,
};

use crate::support::{Ledger, Place, accept, bob, counted, output, settings, tool, when};

async fn steps(ledger: Ledger, ctx: Context, count: u32) -> Result<u32> {
    for _ in 0..count {
        counted(&ctx, &ledger, "step").await?;
    }
    Ok(count)
}

#[tokio::test(start_paused = true)]
async fn a_history_over_the_limit_fails_the_task_and_says_what_to_do() {
    let place = Place::new();
    let ledger = Ledger::default();
    let mut settings = settings();
    settings.task.history = 20;
    let life = place.start_with(settings, |b| b.tool(tool("t", &ledger, steps)));
    assert_eq!(output::<u32>(&life.run("t", 15).await), 15);
    let failed = life.run("t", 100).await;
    assert_eq!(failed.status, Status::Failed);
    let failure = failed.failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Limit);
    assert!(failure.message.contains("limit of 20") && failure.message.contains("continue as new"));
    assert!(ledger.count("step") < 15 + 25);
}

#[tokio::test(start_paused = true)]
async fn payloads_over_the_limit_are_refused_wherever_they_come_in() {
    let place = Place::new();
    let settings = Settings { max_payload: 100, ..settings() };
    let life = place.start_with(settings, |builder| {
        builder
            .tool(Tool::new("ask", |ctx: Context, (): ()| async move {
                let schema = steadfast_engine::Json::of(&true)?;
                let ask = ctx.ask::<String>("?").key("q").schema(schema);
                Ok(ask.await?.accepted())
            }))
            .tool(Tool::new("large", |_: Context, (): ()| async { Ok("x".repeat(200)) }))
            .tool(Tool::new("inside", |ctx: Context, (): ()| async move {
                let long = "x".repeat(200);
                let errors: [Error; 3] = [
                    ctx.activity::<()>("a", &long).await.unwrap_err(),
                    ctx.child::<()>("c", &long).await.unwrap_err(),
                    ctx.ask::<u32>("?").data(&long).await.unwrap_err(),
                ];
                Ok(errors.iter().all(|error| error.kind() == FailureKind::Limit))
            }))
    });
    let long = "x".repeat(200);
    let id = life.begin("ask", ()).await;
    life.until(&id, Status::InputRequired).await;
    let input = life.tasks().start("ask", &long).await.map(drop);
    let event = life.tasks().signal(&id, Event::new("e", &long)).await;
    let answer = life.tasks().answer(&id, "q", accept(&long)).await;
    for refused in [input, event, answer] {
        assert!(matches!(refused, Err(CallError::TooLarge { limit: 100, .. })), "{refused:?}");
    }
    assert_eq!(life.get(&id).await.questions.len(), 1, "the question stays open");
    assert!(output::<bool>(&life.run("inside", ()).await));
    let large = life.run("large", ()).await;
    assert_eq!(large.failure.unwrap().kind, FailureKind::Limit);
}

#[tokio::test(start_paused = true)]
async fn a_question_over_the_payload_limit_is_refused_and_not_asked() {
    let place = Place::new();
    let settings = Settings { max_payload: 300, ..settings() };
    let life = place.start_with(settings, |builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let any = || Json::of(&true);
            let long = "x".repeat(400);
            let text = ctx.ask::<u32>(&*long).schema(any()?).await.unwrap_err();
            let data = ctx.ask::<u32>("?").schema(any()?).data(&long).await.unwrap_err();
            let schema = ctx.ask::<u32>("?").schema(Json::of(&[&long])?).await.unwrap_err();
            let errors = [text, data, schema];
            assert!(errors.iter().all(|e: &Error| e.kind() == FailureKind::Limit), "{errors:?}");
            ctx.ask::<u32>("short").schema(any()?).await?;
            Ok(errors.map(|error| error.to_string()))
        }))
    });
    let id = life.begin("t", ()).await;
    let asked = life.until(&id, Status::InputRequired).await.questions;
    assert_eq!(asked.iter().map(|question| &*question.message).collect::<Vec<_>>(), ["short"]);
    life.tasks().answer(&id, &asked[0].key, accept(1)).await.unwrap();
    let refused: [String; 3] = output(&life.end(&id).await);
    for (refused, part) in refused.iter().zip(["message", "data", "schema"]) {
        assert!(refused.starts_with(&format!("the question's {part} has")), "{refused}");
        assert!(refused.ends_with("over the limit of 300"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_limit_is_refused_also_if_it_says_no() {
    let place = Place::new();
    let settings = Settings { max_payload: 100, ..settings() };
    let life = place.start_with(settings, |builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            Ok(ctx.ask::<u32>("?").key("q").schema(Json::of(&true)?).await?.accepted())
        }))
    });
    let id = life.begin("t", ()).await;
    life.until(&id, Status::InputRequired).await;
    for action in [Action::Decline, Action::Cancel] {
        let answer = Answer { action, ..accept("x".repeat(200)) };
        let refused = life.tasks().answer(&id, "q", answer).await;
        assert!(matches!(refused, Err(CallError::TooLarge { limit: 100, .. })), "{refused:?}");
    }
    assert_eq!(life.get(&id).await.questions.len(), 1, "the question stays open");
}

/// An error of 202 bytes of data that a retry rule goes by.
fn full_of_data() -> Error {
    Error::new("out of paper").code("paper").data(&"x".repeat(200))
}

#[tokio::test(start_paused = true)]
async fn data_of_an_error_over_the_limit_is_left_out_and_the_error_stays() {
    let place = Place::new();
    let settings = Settings { max_payload: 100, ..settings() };
    let life = place.start_with(settings, |builder| {
        builder
            .tool(Tool::new("t", |ctx: Context, (): ()| async move {
                let retry = Retry::exponential().attempts(2).only(["paper"]);
                let print = || async { Err::<(), _>(full_of_data()) };
                let step = ctx.step("print", print).retry(retry).await.unwrap_err();
                let activity = ctx.activity::<()>("print", &()).await.unwrap_err();
                for error in [step, activity] {
                    assert_eq!(
                        (error.failure().data.as_ref(), error.code_name()),
                        (None, Some("paper"))
                    );
                    assert!(
                        error.to_string().starts_with("out of paper (its data has 202"),
                        "{error}"
                    );
                }
                Err::<(), _>(full_of_data())
            }))
            .activity("print", |_: ActivityContext, (): ()| async { Err::<(), _>(full_of_data()) })
    });
    let ended = life.run("t", ()).await;
    let failure = ended.failure.unwrap();
    assert_eq!((failure.data, failure.code.as_deref()), (None, Some("paper")));
    assert!(failure.message.contains("over the limit of 100"), "{}", failure.message);
    let events = life.events(&ended.id).await;
    let retried =
        |event: &steadfast_core::Event| matches!(event, steadfast_core::Event::StepRetrying { .. });
    assert_eq!(events.iter().filter(|event| retried(event)).count(), 1);
    assert!(!format!("{events:?}").contains("xxx"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn an_activity_is_not_failed_from_outside_with_data_over_the_limit() {
    let place = Place::new();
    let tokens = Ledger::default();
    let told = tokens.clone();
    let settings = Settings { max_payload: 100, ..settings() };
    let life = place.start_with(settings, |builder| {
        builder
            .tool(Tool::new("t", |ctx: Context, (): ()| async move {
                ctx.activity::<u32>("later", &()).await
            }))
            .activity("later", move |activity: ActivityContext, (): ()| {
                told.add(activity.token());
                activity.complete_later();
                async { Ok(0) }
            })
    });
    let id = life.begin("t", ()).await;
    when(|| !tokens.lines().is_empty()).await;
    let token = &tokens.lines()[0];
    let refused = life.tasks().fail_activity(token, full_of_data()).await;
    assert!(matches!(refused, Err(CallError::TooLarge { limit: 100, .. })), "{refused:?}");
    life.tasks().complete_activity(token, &7).await.unwrap();
    assert_eq!(output::<u32>(&life.end(&id).await), 7);
}

async fn one_at_a_time(ledger: Ledger, ctx: Context, name: String) -> Result<()> {
    ctx.step("work", || async {
        ledger.add(&name);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        Ok::<_, Error>(())
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn tasks_beyond_the_limit_queue_and_owners_take_turns() {
    let place = Place::new();
    let ledger = Ledger::default();
    let settings = Settings { max_running: 1, ..settings() };
    let life = place.start_with(settings, |b| b.tool(tool("t", &ledger, one_at_a_time)));
    let mut last = Vec::new();
    for n in 1..=4 {
        let id = life.begin("t", format!("ada {n}")).await;
        last.push((life.tasks(), id));
    }
    let bobs = life.engine.tasks(bob());
    for n in 1..=2 {
        let id = bobs.start("t", &format!("bob {n}")).await.unwrap().id;
        last.push((bobs.clone(), id));
    }
    assert_eq!(life.tasks().counts().await.unwrap()[&Status::Queued], 3);
    for (tasks, id) in &last {
        assert_eq!(tasks.wait(id).await.unwrap().status, Status::Completed);
    }
    let order = ledger.lines();
    assert_eq!(order[..1], ["ada 1"]);
    let of = |name: &str| order.iter().position(|line| line == name).unwrap();
    assert!(of("bob 1") <= 2 && of("bob 2") <= 4, "bob does not wait for all of ada: {order:?}");
    assert!(of("ada 2") < of("ada 3") && of("ada 3") < of("ada 4"), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn no_more_tasks_run_at_once_than_the_limit() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let settings = Settings { max_running: 3, ..settings() };
    let life = place.start_with(settings, |builder| {
        builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
            let ledger = noted.clone();
            async move {
                ctx.step("work", || async {
                    let running = ledger.add("begun") - ledger.count("ended");
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    ledger.add("ended");
                    Ok::<_, Error>(running)
                })
                .await
            }
        }))
    });
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(life.begin("t", ()).await);
    }
    let mut most = 0;
    for id in &ids {
        most = most.max(output::<u32>(&life.end(id).await));
    }
    assert_eq!(most, 3);
}

#[tokio::test(start_paused = true)]
async fn texts_for_people_are_cut_and_say_so() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder
            .tool(Tool::new("t", |ctx: Context, (): ()| async move {
                let long = "ä".repeat(100_000);
                ctx.status(long.clone());
                let fail = || async { Err::<(), _>(Error::new(&long).code(&*long)) };
                ctx.step("fail", fail).await
            }))
            .tool(Tool::new("panics", |_: Context, count: usize| async move {
                assert!(count == 0, "{}", "ä".repeat(count));
                Ok(())
            }))
    });
    let info = life.run("t", ()).await;
    let failure = info.failure.expect("it failed");
    let panicked = life.run("panics", 100_000).await.id;
    let panicked = life.engine.operator().get(&panicked).await.unwrap().failure.unwrap();
    let texts = [info.message, Some(failure.message), failure.code, panicked.detail];
    for text in texts.map(|text| text.expect("a text")) {
        assert!(text.len() < 66_000 && text.ends_with("… (cut)"), "{}", text.len());
    }
}
