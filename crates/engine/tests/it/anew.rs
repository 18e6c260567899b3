//! Tasks that continue as new.

use steadfast_core::Event as Line;
use steadfast_engine::{
    ActivityContext, Builder, Compensation, Context, Error, Event, Result, Scope, Status,
};

use crate::support::{HOUR, Ledger, Place, accept, counted, output, tool, within};

/// Takes one event per run, until it has seen as many as it wants.
async fn one_by_one(ledger: Ledger, ctx: Context, seen: Vec<u32>) -> Result<Vec<u32>> {
    let mut seen = seen;
    if seen.is_empty() {
        counted(&ctx, &ledger, "first run").await?;
        ctx.sleep(HOUR).await;
    }
    seen.push(ctx.event("number").await?);
    if seen.len() < 4 { ctx.continue_as_new(&seen) } else { Ok(seen) }
}

fn tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| builder.tool(tool("t", &ledger, one_by_one))
}

fn number(n: u32) -> Event {
    Event::new("number", &n)
}

#[tokio::test(start_paused = true)]
async fn events_that_were_not_read_are_there_in_the_next_run() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let id = life.begin("t", Vec::<u32>::new()).await;
    ledger.has("first run").await;
    for n in 1..=4 {
        life.tasks().signal(&id, number(n)).await.unwrap();
    }
    assert_eq!(output::<Vec<u32>>(&life.end(&id).await), [1, 2, 3, 4]);
    assert_eq!(ledger.count("first run"), 1);
    assert!(life.events(&id).await.len() < 4, "the history begins anew");
}

#[tokio::test(start_paused = true)]
async fn ids_of_events_stay_applied_once_over_runs_and_restarts() {
    let place = Place::new();
    let ledger = Ledger::default();
    let mut life = place.start(tools(&ledger));
    let id = life.begin("t", Vec::<u32>::new()).await;
    for n in 1..=4 {
        // The last one ends the task, so it is sent once.
        for _ in 0..if n < 4 { 2 } else { 1 } {
            life.tasks().signal(&id, number(n).id(format!("event {n}"))).await.unwrap();
            if n < 4 {
                tokio::time::sleep(HOUR * 2).await;
                life.kill().await;
                life = place.start(tools(&ledger));
            }
        }
    }
    assert_eq!(output::<Vec<u32>>(&life.end(&id).await), [1, 2, 3, 4]);
}

async fn counts_down(ledger: Ledger, ctx: Context, left: u32) -> Result<(u32, Option<u32>)> {
    let state = ctx.state(Scope::Task);
    let runs = state.update("runs", |runs: Option<u32>| runs.unwrap_or(0) + 1).await?;
    ctx.status(format!("{left} left"));
    let key = ctx.activity::<String>("key", &()).await?;
    ledger.add(&key);
    let answer = ctx.ask::<u32>("Go on?").key("go").await?.accepted();
    if left > 0 { ctx.continue_as_new(&(left - 1)) } else { Ok((runs, answer)) }
}

#[tokio::test(start_paused = true)]
async fn state_stays_and_keys_of_questions_and_activities_do_not_repeat() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(|builder| {
        builder
            .tool(tool("t", &ledger, counts_down))
            .activity("key", |activity: ActivityContext, (): ()| async move {
                Ok(activity.key().to_owned())
            })
    });
    let id = life.begin("t", 2).await;
    for key in ["go", "go-2", "go-3"] {
        let tasks = life.tasks();
        let asks = |t: &steadfast_engine::TaskInfo| t.questions.iter().any(|q| q.key == key);
        let asked = within(tasks.wait_for(&id, asks)).await.unwrap();
        assert_eq!(asked.questions.len(), 1);
        life.tasks().answer(&id, key, accept(5)).await.unwrap();
    }
    let info = life.end(&id).await;
    assert_eq!(output::<(u32, u32)>(&info), (3, 5));
    assert_eq!(info.message.as_deref(), Some("0 left"));
    let keys: std::collections::BTreeSet<String> = ledger.lines().into_iter().collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
}

async fn undoes(ledger: Ledger, ctx: Context, left: u32) -> Result<()> {
    ctx.step("do", || async { Ok::<_, Error>(ledger.add(&format!("do {left}"))) })
        .undo("undo", &left)
        .await?;
    if left > 0 {
        return ctx.continue_as_new(&(left - 1));
    }
    Err(Error::new("in the end it failed"))
}

#[tokio::test(start_paused = true)]
async fn undo_functions_of_earlier_runs_run_too() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let life = place.start(|builder| {
        builder.tool(tool("t", &ledger, undoes)).activity(
            "undo",
            move |_: ActivityContext, n: u32| {
                noted.add(&format!("undo {n}"));
                async { Ok(()) }
            },
        )
    });
    let id = life.begin("t", 1).await;
    let done = |t: &steadfast_engine::TaskInfo| t.compensation == Some(Compensation::Done);
    let info = within(life.tasks().wait_for(&id, done)).await.unwrap();
    assert_eq!(info.status, Status::Failed);
    assert_eq!(ledger.lines(), ["do 1", "do 0", "undo 0", "undo 1"]);
}

async fn long(ledger: Ledger, ctx: Context, left: u32) -> Result<u32> {
    counted(&ctx, &ledger, "round").await?;
    if left > 0 { ctx.continue_as_new(&(left - 1)) } else { Ok(left) }
}

#[tokio::test(start_paused = true)]
async fn a_task_of_many_runs_survives_deaths_and_keeps_a_short_history() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, long));
    let first = place.start(tools);
    let id = first.begin("t", 500).await;
    ledger.has("round").await;
    first.kill().await;
    let second = place.start(tools);
    second.end(&id).await;
    let rounds = ledger.count("round");
    assert!((501..=502).contains(&rounds), "one round at most is repeated: {rounds}");
    let events = second.events(&id).await;
    assert!(matches!(events[0], Line::Started { run: 500, .. }), "{events:?}");
    assert_eq!(events.len(), 3);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Number {
    number: u32,
}

/// Asks in every run, and adds up.
async fn ask_again(_: Ledger, ctx: Context, (rounds, sum): (u32, u32)) -> Result<u32> {
    let reply = ctx.ask::<Number>("Which number?").await?;
    let sum = sum + reply.accepted().map_or(0, |answer| answer.number);
    if rounds > 1 { ctx.continue_as_new(&(rounds - 1, sum)) } else { Ok(sum) }
}

#[tokio::test(start_paused = true)]
async fn a_question_of_the_next_run_shows_like_one_of_the_first() {
    let place = Place::new();
    let life = place.start(|b| b.tool(tool("t", &Ledger::default(), ask_again)));
    let id = life.begin("t", (3, 0)).await;
    for number in 1..=3u32 {
        let asked = life.until(&id, Status::InputRequired).await;
        let key = asked.questions[0].key.clone();
        // Parked in between, so that each run begins with what the store shows.
        life.parked(&id).await;
        let answer = accept(serde_json::json!({ "number": number }));
        life.tasks().answer(&id, &key, answer).await.unwrap();
        within(life.tasks().wait_for(&id, |info| {
            info.status.is_terminal() || info.questions.iter().any(|q| q.key != key)
        }))
        .await
        .unwrap();
    }
    assert_eq!(output::<u32>(&life.end(&id).await), 6);
}
