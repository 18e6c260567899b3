//! Limits are enforced with errors that name them.

use steadfast_engine::{
    CallError, Context, Error, Event, FailureKind, Result, Settings, Status, Tool,
};

use crate::support::{Ledger, Place, accept, bob, counted, output, settings, tool};

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
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let long = "ä".repeat(100_000);
            ctx.status(long.clone());
            ctx.step("fail", || async { Err::<(), _>(Error::new(&long)) }).await
        }))
    });
    let info = life.run("t", ()).await;
    let failure = info.failure.expect("it failed").message;
    for text in [info.message.expect("it said something"), failure] {
        assert!(text.len() < 66_000 && text.ends_with("… (cut)"), "{}", text.len());
    }
}
