//! Panics fail one task and nothing else.

use steadfast_engine::{
    ActivityContext, Builder, Context, Error, FailureKind, Result, Status, Tool,
};

use crate::support::{Place, output};

async fn panics(ctx: Context, place: String) -> Result<()> {
    match place.as_str() {
        "at once" => panic!("the secret is {}", 42),
        "later" => {
            ctx.step("fine", || async { Ok::<_, Error>(()) }).await?;
            panic!("the secret is {}", 42)
        }
        "step" => {
            let step = ctx.step("bad", || async {
                tokio::task::yield_now().await;
                panic!("the secret is {}", 42);
                #[allow(unreachable_code)]
                Ok::<_, Error>(())
            });
            step.await
        }
        _ => ctx.activity("bad", &()).await,
    }
}

fn tools(builder: Builder) -> Builder {
    builder
        .tool(Tool::new("panics", panics))
        .tool(Tool::new("fine", |ctx: Context, n: u32| async move {
            ctx.sleep(std::time::Duration::from_secs(60)).await;
            Ok(n)
        }))
        .activity("bad", |_: ActivityContext, (): ()| async {
            tokio::task::yield_now().await;
            panic!("the secret is {}", 42);
            #[allow(unreachable_code)]
            Ok(())
        })
}

#[tokio::test(start_paused = true)]
async fn the_operator_sees_message_and_place_and_the_caller_only_that_it_panicked() {
    let place = Place::new();
    let life = place.start(tools);
    for wher in ["at once", "later", "step", "activity"] {
        let id = life.begin("panics", wher).await;
        let seen = life.end(&id).await;
        assert_eq!(seen.status, Status::Failed, "{wher}");
        let told = seen.failure.unwrap();
        assert_eq!(told.kind, FailureKind::Panicked);
        assert!(told.message.ends_with("panicked"), "{told:?}");
        assert_eq!(told.detail, None, "the text of a panic is not for callers");
        let record = life.engine.operator().get(&id).await.unwrap().failure.unwrap();
        let detail = record.detail.unwrap();
        assert!(detail.contains("the secret is 42"), "{detail}");
        assert!(detail.contains("panics.rs:"), "{detail}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_text_of_a_panic_is_in_the_history_for_the_operator_alone() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("panics", "activity").await;
    life.end(&id).await;
    let order = steadfast_engine::Order::OldestFirst;
    let callers = life.tasks().history(&id, order, None, 0).await.unwrap();
    assert!(!format!("{callers:?}").contains("secret"));
    let operators = life.engine.operator().history(&id, order, None, 0).await.unwrap();
    assert!(format!("{operators:?}").contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn other_tasks_go_on() {
    let place = Place::new();
    let life = place.start(tools);
    let fine = life.begin("fine", 7).await;
    for wher in ["at once", "later", "step", "activity"] {
        life.run("panics", wher).await;
    }
    assert_eq!(output::<u32>(&life.end(&fine).await), 7);
    assert_eq!(output::<u32>(&life.run("fine", 8).await), 8);
}
