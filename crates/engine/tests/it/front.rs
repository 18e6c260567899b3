//! What a front builds on: what is known of a call, marks, following a history, answers as they are,
//! tools that come and go.

use serde_json::json;
use steadfast_core::{Event, Note};
use steadfast_engine::{
    Action, Answer, Builder, Context, HistoryEntry, Json, Result, Status, TaskId,
};

use crate::support::{HOUR, Ledger, Place, ada, counted, output, settle, tool};

async fn caller(_: (), ctx: Context, with_child: bool) -> Result<String> {
    if with_child {
        return ctx.child::<String>("caller", &false).await;
    }
    Ok(ctx.call().map_or("nobody", Json::text).to_owned())
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_call_reaches_the_task_and_its_children() {
    let place = Place::new();
    let life = place.start(|builder| builder.tool(tool("caller", &(), caller)));
    let tasks = life.engine.tasks(ada());
    for with_child in [false, true] {
        let call = json!({ "who": "me" });
        let started = tasks.start("caller", &with_child).call(&call).await.unwrap();
        let ended = tasks.wait(&started.id).await.unwrap();
        assert_eq!(output::<String>(&ended), r#"{"who":"me"}"#);
        assert_eq!(ended.call.unwrap().text(), r#"{"who":"me"}"#);
    }
    let started = tasks.start("caller", &false).await.unwrap();
    assert_eq!(output::<String>(&tasks.wait(&started.id).await.unwrap()), "nobody");
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_call_has_a_limit() {
    let place = Place::new();
    let life = place.start(|builder| builder.tool(tool("caller", &(), caller)));
    let call = "x".repeat(2 << 20);
    let refused = life.engine.tasks(ada()).start("caller", &false).call(&call).await;
    assert!(refused.unwrap_err().to_string().contains("what is said of the call"));
}

async fn marks(ledger: Ledger, ctx: Context, _: ()) -> Result<()> {
    ctx.mark("phase", &1)?;
    ctx.mark("other", "as it was")?;
    counted(&ctx, &ledger, "one").await?;
    ctx.mark("phase", &2)?;
    ctx.event::<()>("go").await
}

#[tokio::test(start_paused = true)]
async fn a_mark_takes_the_place_of_the_one_before_and_is_set_once() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let id = {
        let life = place.start(|builder| builder.tool(tool("marks", &ledger, marks)));
        let id = life.begin("marks", ()).await;
        life.until(&id, Status::Waiting).await;
        id
    };
    let life = place.start(|builder| builder.tool(tool("marks", &ledger, marks)));
    life.engine.tasks(ada()).signal(&id, steadfast_engine::Event::new("go", &())).await.unwrap();
    let ended = life.engine.tasks(ada()).wait(&id).await.unwrap();
    assert_eq!(ended.marks["phase"].text(), "2");
    assert_eq!(ended.marks["other"].text(), r#""as it was""#);
    let events = life.events(&id).await;
    let marks =
        events.iter().filter(|event| matches!(event, Event::Noted { note: Note::Mark { .. }, .. }));
    assert_eq!(marks.count(), 3);
}

async fn talks(ledger: Ledger, ctx: Context, _: ()) -> Result<()> {
    ctx.log("info", "hello");
    counted(&ctx, &ledger, "one").await?;
    ctx.event::<()>("go").await?;
    ctx.log("info", "goodbye");
    Ok(())
}

fn logs(events: &[steadfast_engine::HistoryEntry]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Noted { note: Note::Log { text, .. }, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_history_is_followed_to_its_end_with_nothing_twice_and_nothing_missed() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start(|builder| builder.tool(tool("talks", &ledger, talks)));
    let id = life.begin("talks", ()).await;
    life.until(&id, Status::Waiting).await;
    let tasks = life.engine.tasks(ada());
    let (info, first) = tasks.wait_for_events(&id, 0).await.unwrap();
    assert_eq!((logs(&first), info.status), (vec!["hello"], Status::Waiting));
    let seen = first.last().unwrap().seq + 1;
    let following = tokio::spawn({
        let (tasks, id) = (tasks.clone(), id.clone());
        async move {
            let (mut seen, mut all) = (seen, Vec::new());
            loop {
                let (info, events) = tasks.wait_for_events(&id, seen).await.unwrap();
                seen = events.last().map_or(seen, |last| last.seq + 1);
                all.extend(events);
                if info.status.is_terminal() {
                    return all;
                }
            }
        }
    });
    life.engine.tasks(ada()).signal(&id, steadfast_engine::Event::new("go", &())).await.unwrap();
    let rest = following.await.unwrap();
    assert_eq!(logs(&rest), ["goodbye"]);
    let numbers: Vec<u64> = first.iter().chain(&rest).map(|entry| entry.seq).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    // Of one that has ended there is nothing more, and it says so at once.
    let (info, none) = tasks.wait_for_events(&id, numbers.len() as u64).await.unwrap();
    assert!(info.status == Status::Completed && none.is_empty());
}

async fn says_and_asks(ledger: Ledger, ctx: Context, _: ()) -> Result<bool> {
    counted(&ctx, &ledger, "one").await?;
    ctx.log("info", "before");
    Ok(ctx.ask::<bool>("Yes?").key("yes").await?.accepted().is_some())
}

/// Many, because it depends on who is first.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_before_a_question_is_told_with_it() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start(|builder| builder.tool(tool("asks", &ledger, says_and_asks)));
    let tasks = life.engine.tasks(ada());
    for _ in 0..500 {
        let id = life.begin("asks", ()).await;
        let mut all = Vec::new();
        loop {
            let seen = all.last().map_or(0, |last: &HistoryEntry| last.seq + 1);
            let (info, events) = tasks.wait_for_events(&id, seen).await.unwrap();
            all.extend(events);
            if !info.questions.is_empty() {
                break;
            }
        }
        assert_eq!(logs(&all), ["before"]);
    }
}

async fn again(_: (), ctx: Context, round: u32) -> Result<()> {
    ctx.log("info", format!("round {round}"));
    if round == 0 { ctx.continue_as_new(&1) } else { Ok(()) }
}

#[tokio::test(start_paused = true)]
async fn a_history_that_began_anew_is_new() {
    let place = Place::new();
    let life = place.start(|builder| builder.tool(tool("again", &(), again)));
    let id = life.begin("again", 0).await;
    let tasks = life.engine.tasks(ada());
    tasks.wait(&id).await.unwrap();
    let (_, events) = tasks.wait_for_events(&id, 1_000).await.unwrap();
    assert_eq!(logs(&events), ["round 0", "round 1"]);
}

async fn asks(_: (), ctx: Context, _: ()) -> Result<String> {
    let answer = ctx.ask::<bool>("Yes?").key("yes").answer().await?;
    Ok(format!(
        "{:?} {}",
        answer.action,
        answer.content.map_or("nothing".into(), |c| c.text().to_owned())
    ))
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_given_and_taken_as_it_is() {
    let place = Place::new();
    let life = place.start(|builder| builder.tool(tool("asks", &(), asks)));
    let mut questions = life.engine.news();
    let id = life.begin("asks", ()).await;
    questions.changed().await.unwrap();
    life.until(&id, Status::InputRequired).await;
    let tasks = life.engine.tasks(ada());
    let answer = Answer { action: Action::Decline, content: Json::of("no bool").ok() };
    tasks.answer_unchecked(&id, "yes", answer.clone()).await.unwrap();
    let ended = tasks.wait(&id).await.unwrap();
    assert_eq!(output::<String>(&ended), r#"Decline "no bool""#);
    assert!(tasks.answer_unchecked(&id, "yes", answer).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_tool_can_come_and_go_while_the_engine_runs() {
    let place = Place::new();
    let life = place.start(|builder| builder);
    let tasks = life.engine.tasks(ada());
    assert!(tasks.start("caller", &false).await.is_err());
    let early = tasks.start("caller", &false).even_if_unserved().await.unwrap();
    life.engine.add_tool(tool("caller", &(), caller));
    assert_eq!(tasks.wait(&early.id).await.unwrap().status, Status::Completed);
    let id = life.begin("caller", false).await;
    assert!(tasks.wait(&id).await.unwrap().served_here);
    life.engine.remove_tool("caller");
    assert!(!tasks.get(&id).await.unwrap().served_here);
    assert!(tasks.start("caller", &false).await.is_err());
    let waits = TaskId::new("waits").unwrap();
    tasks.start("caller", &false).id(waits.clone()).even_if_unserved().await.unwrap();
    assert_eq!(tasks.get(&waits).await.unwrap().status, Status::Queued);
}

/// With the commit that it belongs to, and not by a replay.
#[tokio::test(start_paused = true)]
async fn a_notice_is_put_up_once() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| {
        builder.tool(tool("t", &ledger, |ledger: Ledger, ctx: Context, (): ()| async move {
            ctx.notice("first")?;
            counted(&ctx, &ledger, "between").await?;
            ctx.notice("second")?;
            ctx.notice("second")?;
            ctx.sleep(HOUR).await;
            ctx.notice("last")
        }))
    };
    let first = place.start(tools);
    let mut news = first.engine.news();
    let id = first.begin("t", ()).await;
    ledger.has("between").await;
    settle().await;
    assert!(news.has_changed().unwrap());
    news.mark_unchanged();
    first.kill().await;
    let life = place.start(tools);
    life.end(&id).await;
    life.engine.post("from outside").await.unwrap();
    let (notices, last) = life.engine.notices(0, 100).await.unwrap();
    let said: Vec<String> = notices.iter().map(|(_, body)| body.read().unwrap()).collect();
    assert_eq!(said, ["first", "second", "second", "last", "from outside"]);
    assert_eq!(notices.last().unwrap().0, last);
}
