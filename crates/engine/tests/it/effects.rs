//! Effect validation: steps, activities and undo functions run twice.

use std::{collections::HashMap, time::Duration};

use steadfast_core::{Event, Note};
use steadfast_engine::{
    ActivityContext, Attempt, Builder, Compensation, Context, Error, Failure, FailureKind, Result,
    Retry, Settings, Status,
};

use crate::support::{HOUR, Ledger, Life, Place, counted, output, settings, settle, tool};

/// With the switch on.
pub(crate) fn validating() -> Settings {
    Settings { validate_effects: true, ..settings() }
}

/// What a task was failed with by the validation.
pub(crate) async fn found(life: &Life, tool: &str, input: impl serde::Serialize) -> Failure {
    let id = life.begin(tool, input).await;
    let told = life.end(&id).await;
    assert_eq!(told.status, Status::Failed, "{told:?}");
    assert_eq!(told.failure.unwrap().detail, None, "values are not for callers");
    let failure = life.engine.operator().get(&id).await.unwrap().failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Unrepeatable, "{failure:?}");
    failure
}

fn says(failure: &Failure, words: &[&str]) {
    for word in words {
        assert!(failure.message.contains(word), "{word:?} is not in {failure}");
    }
}

/// One step that does as it is told.
async fn one_step(ledger: Ledger, ctx: Context, how: String) -> Result<u32> {
    let step = ctx.step("the step", |attempt: Attempt| {
        let (ledger, how, ctx) = (ledger.clone(), how.clone(), ctx.clone());
        async move {
            let times = ledger.add(&format!("{how} {} {}", attempt.number(), attempt.key()));
            ctx.log("info", "at work");
            let second = times == 2;
            let taken = |code: &str| Error::new(format!("taken {times} times")).code(code);
            match how.as_str() {
                "another result" => Ok(times),
                "fails again" if second => Err(taken("taken")),
                "failed at first" if !second => Err(taken("flaky")),
                "fails otherwise" => Err(taken(if second { "taken" } else { "flaky" })),
                "always fails" => Err(taken("taken")),
                "panics again" if second => panic!("only once, at {times}"),
                _ => Ok(7),
            }
        }
    });
    let step = match how.as_str() {
        "at most once" => step.at_most_once().await,
        "reset" => step.reset_on(["never"]).await,
        _ => step.await,
    };
    // Whatever the code makes of an error, the validation has the last word.
    step.or(Ok(0))
}

fn one(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| builder.tool(tool("t", &ledger, one_step))
}

#[tokio::test(start_paused = true)]
async fn a_step_runs_twice_by_one_key_and_is_recorded_once() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), one(&ledger));
    let id = life.begin("t", "well").await;
    assert_eq!(output::<u32>(&life.end(&id).await), 7);
    let line = format!("well 1 {id}:0:0");
    assert_eq!(ledger.lines(), [line.clone(), line]);
    let events = life.events(&id).await;
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    assert_eq!(count(|event| matches!(event, Event::StepCompleted { .. })), 1);
    let said = |event: &Event| matches!(event, Event::Noted { note: Note::Log { .. }, .. });
    assert_eq!(count(said), 1, "what a step says is said once");
}

#[tokio::test(start_paused = true)]
async fn without_the_switch_everything_runs_once() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start(|builder| working(&ledger)(one(&ledger)(builder)));
    for how in ["another result", "fails again", "panics again"] {
        assert_eq!(life.run("t", how).await.status, Status::Completed);
    }
    assert_eq!(output::<u32>(&life.run("works", "another result").await), 1);
    life.run("works", "undo").await;
    settle().await;
    assert_eq!(ledger.count("undo"), 1);
    assert_eq!(ledger.lines().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_step_with_another_result_fails_the_task_and_is_named() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), one(&ledger));
    let failure = found(&life, "t", "another result").await;
    says(&failure, &["step \"the step\"", "operation #0", "tool \"t\"", "another result"]);
    assert_eq!(failure.detail.as_deref(), Some("1, then 2"));
    assert_eq!(ledger.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_the_second_time_is_reported() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), one(&ledger));
    let failure = found(&life, "t", "fails again").await;
    says(&failure, &["step \"the step\"", "succeeded the first time and failed", "code taken"]);
    let failure = found(&life, "t", "panics again").await;
    says(&failure, &["step \"the step\"", "the step panicked"]);
    assert!(failure.detail.unwrap().contains("only once, at 2"));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_the_first_time_only_or_otherwise_is_reported() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), one(&ledger));
    let failure = found(&life, "t", "failed at first").await;
    says(&failure, &["step \"the step\"", "code flaky", "succeeded the second"]);
    let failure = found(&life, "t", "fails otherwise").await;
    says(&failure, &["step \"the step\"", "code flaky", "code taken"]);
    // The same error twice, in other words: that is the code's own business.
    assert_eq!(output::<u32>(&life.run("t", "always fails").await), 0);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_runs_at_most_once_runs_once() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), one(&ledger));
    for how in ["at most once", "reset"] {
        assert_eq!(output::<u32>(&life.run("t", how).await), 7);
    }
    assert_eq!(ledger.lines().len(), 2);
}

/// Values that may differ, or look as if they did.
async fn varied(ledger: Ledger, ctx: Context, how: String) -> Result<usize> {
    match how.as_str() {
        "varies" => {
            let step = ctx.step("clock", || async { Ok::<_, Error>(ledger.add("clock")) });
            step.result_varies().await?;
        }
        "varies and fails" => {
            let clock = || async {
                if ledger.add("clock") > 1 { Err(Error::new("no more")) } else { Ok(()) }
            };
            ctx.step("clock", clock).result_varies().await?;
        }
        "unordered" => {
            let map = || async {
                Ok::<HashMap<String, u32>, Error>((0..40).map(|n| (n.to_string(), n)).collect())
            };
            return Ok(ctx.step("map", map).await?.len());
        }
        "retried" => {
            let retry = Retry::exponential().attempts(3);
            let step = ctx.step("try", |attempt: Attempt| {
                ledger.add(&format!("try {}", attempt.number()));
                async move { if attempt.number() < 3 { Err(Error::new("not yet")) } else { Ok(()) } }
            });
            step.retry(retry).await?;
        }
        _ => {
            let ledger = &ledger;
            ctx.step("keys", || async move {
                let key = format!("secret-{}", ledger.add("keys"));
                Ok::<_, Error>(serde_json::json!({ "keys": [{ "key": key }] }))
            })
            .await?;
        }
    }
    Ok(0)
}

#[tokio::test(start_paused = true)]
async fn a_result_that_varies_is_not_compared_but_a_failure_is() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), |b| b.tool(tool("t", &ledger, varied)));
    assert_eq!(output::<usize>(&life.run("t", "varies").await), 0);
    assert_eq!(ledger.count("clock"), 2);
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), |b| b.tool(tool("t", &ledger, varied)));
    says(&found(&life, "t", "varies and fails").await, &["step \"clock\"", "no more"]);
}

#[tokio::test(start_paused = true)]
async fn results_are_compared_as_values_and_what_differs_is_a_place_without_the_values() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), |b| b.tool(tool("t", &ledger, varied)));
    assert_eq!(output::<usize>(&life.run("t", "unordered").await), 40);
    let failure = found(&life, "t", "secret").await;
    says(&failure, &["step \"keys\"", "/keys/0/key"]);
    assert!(!failure.message.contains("secret"), "{failure}");
    assert_eq!(failure.detail.as_deref(), Some("\"secret-1\", then \"secret-2\""));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_tried_again_anyway_runs_once() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), |b| b.tool(tool("t", &ledger, varied)));
    life.run("t", "retried").await;
    assert_eq!(ledger.lines(), ["try 1", "try 2", "try 3", "try 3"]);
}

/// A task with an activity that does as it is told, and one with an undo function.
fn working(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let (work, undo) = (ledger.clone(), ledger.clone());
        builder
            .tool(tool("works", &(), |(), ctx: Context, how: String| async move {
                if how.starts_with("undo") {
                    let step = ctx.step("done", || async { Ok::<_, Error>(()) });
                    step.undo("undo", &how).await?;
                    return Err(Error::new("changed our minds"));
                }
                ctx.activity::<u32>("work", &how).await
            }))
            .activity("work", move |activity: ActivityContext, how: String| {
                let ledger = work.clone();
                async move {
                    let times = ledger.add(&format!("{how} {}", activity.key()));
                    match how.as_str() {
                        "later" => activity.complete_later(),
                        "varies" => activity.result_varies(),
                        _ => {}
                    }
                    Ok(if how == "well" { 7 } else { times })
                }
            })
            .activity("undo", move |_: ActivityContext, how: String| {
                let times = undo.add("undo");
                let gone = how == "undo once" && times > 1;
                async move { if gone { Err(Error::new("gone").permanent()) } else { Ok(times) } }
            })
    }
}

#[tokio::test(start_paused = true)]
async fn an_activity_runs_twice_by_one_key_and_fails_if_it_differs() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), working(&ledger));
    let id = life.begin("works", "well").await;
    assert_eq!(output::<u32>(&life.end(&id).await), 7);
    assert_eq!(ledger.count(&format!("well {id}:activity:0:0")), 2);
    says(&found(&life, "works", "another").await, &["activity \"work\"", "another result"]);
    assert_eq!(output::<u32>(&life.run("works", "varies").await), 1);
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_somebody_else_completes_runs_once() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start_with(validating(), working(&ledger));
    let id = life.begin("works", "later").await;
    let line = format!("later {id}:activity:0:0");
    ledger.has(&line).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(ledger.count(&line), 1);
    assert_eq!(life.get(&id).await.status, Status::Waiting);
}

#[tokio::test(start_paused = true)]
async fn an_undo_function_runs_twice() {
    for how in ["undo", "undo once"] {
        let (place, ledger) = (Place::new(), Ledger::default());
        let life = place.start_with(validating(), working(&ledger));
        let id = life.begin("works", how).await;
        let over = |info: &steadfast_engine::TaskInfo| {
            !matches!(info.compensation, None | Some(Compensation::Running { .. }))
        };
        let info = life.tasks().wait_for(&id, over).await.unwrap();
        match info.compensation.unwrap() {
            Compensation::Failed { failure } => {
                assert_eq!((how, failure.kind), ("undo once", FailureKind::Unrepeatable));
                says(&failure, &["undo function \"undo\"", "gone"]);
            }
            other => assert_eq!((how, other), ("undo", Compensation::Done)),
        }
        assert_eq!(ledger.count("undo"), 2);
    }
}

/// A step whose first run takes a minute, as does its second.
async fn slow(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    let minute = Duration::from_secs(60);
    ctx.step("slow", || async {
        ledger.add("slow");
        tokio::time::sleep(minute).await;
        Ok::<_, Error>(())
    })
    .retry(Retry::never().timeout(minute * 2))
    .await
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_the_second_run_is_a_crash_like_any_other() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, slow));
    let first = place.start_with(validating(), tools);
    let id = first.begin("t", ()).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(ledger.count("slow"), 2);
    first.kill().await;
    let second = place.start_with(validating(), tools);
    assert_eq!(second.end(&id).await.status, Status::Completed);
    assert_eq!(ledger.count("slow"), 4, "nothing was recorded, so both come again");
}

#[tokio::test(start_paused = true)]
async fn the_switch_may_be_turned_on_and_off_in_the_life_of_a_task() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let tools = |builder: Builder| {
        builder.tool(tool("t", &ledger, |ledger: Ledger, ctx: Context, (): ()| async move {
            counted(&ctx, &ledger, "before").await?;
            ctx.sleep(HOUR).await;
            ctx.step("after", || async {
                ledger.add("after");
                Ok::<_, Error>(())
            })
            .await
        }))
    };
    let first = place.start(tools);
    let id = first.begin("t", ()).await;
    first.parked(&id).await;
    first.kill().await;
    let second = place.start_with(validating(), tools);
    assert_eq!(second.end(&id).await.status, Status::Completed);
    assert_eq!(ledger.lines(), ["before", "after", "after"]);
}
