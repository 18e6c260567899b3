//! Questions to the user.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steadfast_engine::{
    Action, Answer, Builder, CallError, Context, Either, FailureKind, Reply, Result, Settings,
    Status, TaskId, Tool, join, join_all, race,
};

use crate::support::{HOUR, Place, accept, bob, output, settings, tool};

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Approval {
    approved: bool,
}

async fn approve(_: (), ctx: Context, hours: u32) -> Result<String> {
    let question = ctx.ask::<Approval>("Approve?").key("approve").data(&[1, 2]);
    let question = if hours > 0 { question.deadline(HOUR * hours) } else { question };
    match question.await {
        Ok(Reply::Accepted(answer)) => Ok(format!("approved: {}", answer.approved)),
        Ok(Reply::Declined) => Ok("declined".into()),
        Ok(Reply::Cancelled) => Ok("cancelled".into()),
        Err(error) if error.is_timeout() => Ok("too late".into()),
        Err(error) => Err(error),
    }
}

fn tools(builder: Builder) -> Builder {
    builder.tool(tool("approve", &(), approve))
}

fn yes() -> Answer {
    accept(Approval { approved: true })
}

fn not_asked(result: std::result::Result<(), CallError>) {
    assert!(matches!(result, Err(CallError::NotAsked { .. })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_question_shows_its_message_schema_data_and_deadline() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("approve", 2).await;
    let asked = life.until(&id, Status::InputRequired).await;
    let [question] = &asked.questions[..] else { panic!("one question: {asked:?}") };
    assert_eq!((question.key.as_str(), question.message.as_str()), ("approve", "Approve?"));
    assert_eq!(question.data.as_ref().unwrap().text(), "[1,2]");
    assert_eq!(question.deadline, Some(asked.created.plus(HOUR * 2)));
    let schema: serde_json::Value = question.schema.read().unwrap();
    assert_eq!(schema["properties"]["approved"]["type"], "boolean");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_still_there_after_a_restart() {
    let place = Place::new();
    let first = place.start(tools);
    let id = first.begin("approve", 0).await;
    let asked = first.until(&id, Status::InputRequired).await;
    first.kill().await;
    let second = place.start(tools);
    for _ in 0..3 {
        let now = second.get(&id).await;
        assert_eq!((now.status, &now.questions), (Status::InputRequired, &asked.questions));
        crate::support::settle().await;
    }
    second.tasks().answer(&id, "approve", yes()).await.unwrap();
    assert_eq!(output::<String>(&second.end(&id).await), "approved: true");
}

#[tokio::test(start_paused = true)]
async fn declined_and_cancelled_are_told_apart() {
    let place = Place::new();
    let life = place.start(tools);
    for (action, told) in [(Action::Decline, "declined"), (Action::Cancel, "cancelled")] {
        let id = life.begin("approve", 0).await;
        life.until(&id, Status::InputRequired).await;
        life.tasks().answer(&id, "approve", Answer { action, content: None }).await.unwrap();
        assert_eq!(output::<String>(&life.end(&id).await), told);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_is_refused_with_the_reason_and_the_question_stays() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("approve", 0).await;
    life.until(&id, Status::InputRequired).await;
    let empty = Answer { action: Action::Accept, content: None };
    let wrong = accept(serde_json::json!({ "approved": "yes" }));
    for (answer, reason) in
        [(wrong, "/approved"), (accept(serde_json::json!({})), "approved"), (empty, "null")]
    {
        match life.tasks().answer(&id, "approve", answer).await {
            Err(CallError::BadAnswer { key, reason: given }) => {
                assert_eq!(key, "approve");
                assert!(given.contains(reason), "{given}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(life.get(&id).await.questions.len(), 1);
    }
    life.tasks().answer(&id, "approve", yes()).await.unwrap();
    assert_eq!(output::<String>(&life.end(&id).await), "approved: true");
}

#[tokio::test(start_paused = true)]
async fn of_two_answers_the_first_counts_even_if_the_process_dies_right_after_it() {
    let place = Place::new();
    let first = place.start(tools);
    let id = first.begin("approve", 0).await;
    first.parked(&id).await;
    first.tasks().answer(&id, "approve", yes()).await.unwrap();
    not_asked(first.tasks().answer(&id, "approve", accept(Approval { approved: false })).await);
    first.kill().await;
    let second = place.start(tools);
    not_asked(second.tasks().answer(&id, "approve", accept(Approval { approved: false })).await);
    assert_eq!(output::<String>(&second.end(&id).await), "approved: true");
}

#[tokio::test(start_paused = true)]
async fn several_questions_are_open_at_once_and_answered_in_any_order() {
    let place = Place::new();
    let tools = |builder: Builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let (name, age) =
                join(ctx.ask::<String>("Name?").key("name"), ctx.ask::<u8>("Age?").key("age"))
                    .await;
            Ok((name?.accepted(), age?.accepted()))
        }))
    };
    let first = place.start(tools);
    let id = first.begin("t", ()).await;
    let asked = first.until(&id, Status::InputRequired).await;
    let keys: Vec<_> = asked.questions.iter().map(|q| q.key.as_str()).collect();
    assert_eq!(keys, ["name", "age"]);
    first.tasks().answer(&id, "age", accept(36)).await.unwrap();
    first.parked(&id).await;
    assert_eq!(first.get(&id).await.questions.len(), 1);
    first.kill().await;
    let second = place.start(tools);
    assert_eq!(second.until(&id, Status::InputRequired).await.questions[0].key, "name");
    second.tasks().answer(&id, "name", accept("Ada")).await.unwrap();
    assert_eq!(output::<(String, u8)>(&second.end(&id).await), ("Ada".into(), 36));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_used_as_given_first_and_made_unique_when_it_repeats() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let wishes = ["same", "same", "same-2", "same", "", ""];
            let asks = wishes.map(|key| ctx.ask::<u32>("Same message").key(key));
            let answers = join_all(asks).await;
            answers.into_iter().map(|a| Ok(a?.accepted())).collect::<Result<Vec<_>>>()
        }))
    });
    let id = life.begin("t", ()).await;
    let asked = life.until(&id, Status::InputRequired).await;
    let keys: Vec<String> = asked.questions.into_iter().map(|q| q.key).collect();
    assert_eq!((keys[0].as_str(), keys[1].as_str(), keys[4].as_str()), ("same", "same-2", "input"));
    let unique: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(unique.len(), 6, "{keys:?}");
    for (n, key) in keys.iter().enumerate() {
        life.tasks().answer(&id, key, accept(n)).await.unwrap();
    }
    assert_eq!(output::<Vec<u32>>(&life.end(&id).await), [0, 1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_question_past_its_deadline_times_out_and_takes_no_answer() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("approve", 1).await;
    life.until(&id, Status::InputRequired).await;
    assert_eq!(output::<String>(&life.end(&id).await), "too late");
    let refused = life.tasks().answer(&id, "approve", yes()).await;
    assert!(matches!(refused, Err(CallError::Terminal { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_while_nobody_ran_still_counts() {
    let place = Place::new();
    let first = place.start(tools);
    let id = first.begin("approve", 1).await;
    first.parked(&id).await;
    first.kill().await;
    tokio::time::sleep(HOUR * 2).await;
    let front = place.start(|builder| builder);
    not_asked(front.tasks().answer(&id, "approve", yes()).await);
    let second = place.start(tools);
    assert_eq!(output::<String>(&second.end(&id).await), "too late");
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_the_deadline_counts_even_if_the_task_sees_it_after() {
    let place = Place::new();
    let first = place.start(tools);
    let id = first.begin("approve", 1).await;
    first.parked(&id).await;
    first.kill().await;
    let front = place.start(|builder| builder);
    front.tasks().answer(&id, "approve", yes()).await.unwrap();
    tokio::time::sleep(HOUR * 2).await;
    let second = place.start(tools);
    assert_eq!(output::<String>(&second.end(&id).await), "approved: true");
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_the_deadline_is_either_taken_and_counts_or_refused() {
    let place = Place::new();
    let life = place.start(tools);
    for micros in (0..4_000).step_by(250) {
        let id = life.begin("approve", 1).await;
        let asked = life.until(&id, Status::InputRequired).await;
        let deadline = asked.questions[0].deadline.unwrap();
        let left = asked.updated.until(deadline) - Duration::from_millis(2);
        tokio::time::sleep(left + Duration::from_micros(micros)).await;
        let taken = life.tasks().answer(&id, "approve", yes()).await.is_ok();
        let told: String = output(&life.end(&id).await);
        assert_eq!(told, if taken { "approved: true" } else { "too late" }, "{micros}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_loses_a_race_is_taken_back() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let won = race(ctx.ask::<u32>("Hurry!").key("hurry"), ctx.sleep(HOUR)).await;
            ctx.event::<()>("go").await?;
            Ok(matches!(won, Either::Right(())))
        }))
    });
    let id = life.begin("t", ()).await;
    life.until(&id, Status::InputRequired).await;
    let waiting = life.until(&id, Status::Waiting).await;
    assert_eq!(waiting.questions, []);
    not_asked(life.tasks().answer(&id, "hurry", accept(1)).await);
    life.tasks().signal(&id, steadfast_engine::Event::new("go", &())).await.unwrap();
    assert!(output::<bool>(&life.end(&id).await));
}

#[tokio::test(start_paused = true)]
async fn more_open_questions_than_the_limit_are_refused_to_the_author() {
    let place = Place::new();
    let mut settings = Settings { ..settings() };
    settings.task.open_questions = 2;
    let life = place.start_with(settings, |builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            let answers = join_all((0..3).map(|_| ctx.ask::<u32>("?").key("k"))).await;
            let kinds = answers.into_iter().map(|answer| match answer {
                Ok(_) => "answered",
                Err(error) if error.kind() == FailureKind::Limit => "over the limit",
                Err(_) => "another error",
            });
            Ok(kinds.collect::<Vec<_>>())
        }))
    });
    let id = life.begin("t", ()).await;
    life.until(&id, Status::InputRequired).await;
    for key in ["k", "k-2"] {
        life.tasks().answer(&id, key, accept(1)).await.unwrap();
    }
    let told: Vec<String> = output(&life.end(&id).await);
    assert_eq!(told, ["answered", "answered", "over the limit"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_but_its_principal_or_an_operator_can_answer() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("approve", 0).await;
    life.until(&id, Status::InputRequired).await;
    let refused = life.engine.tasks(bob()).answer(&id, "approve", yes()).await;
    assert!(matches!(refused, Err(CallError::Unknown(_))), "{refused:?}");
    let nobody = life.tasks().answer(&TaskId::new("nobody").unwrap(), "approve", yes()).await;
    assert!(matches!(nobody, Err(CallError::Unknown(_))), "{nobody:?}");
    life.engine.operator().answer(&id, "approve", yes()).await.unwrap();
    assert_eq!(output::<String>(&life.end(&id).await), "approved: true");
}
