//! Following a task: what it says, as it says it.

use std::sync::Arc;

use steadfast_core::{Event, Note};
use steadfast_engine::{Action, Answer, Context, Follow, Json, Result, Said, Status};
use tokio::sync::Notify;

use crate::support::{Ledger, Place, ada, counted, tool};

/// What is heard until the task asks something or ends: logs as they are, progress as a number.
async fn listen(follow: &mut Follow) -> (Vec<String>, Status) {
    let mut all = Vec::new();
    loop {
        let heard = follow.next().await.unwrap();
        for said in heard.said {
            match said {
                Said::Note { note: Note::Log { text, .. }, .. } => all.push(text),
                Said::Note { note: Note::Progress(progress), .. } => {
                    all.push(format!("{} of the history", progress.done));
                }
                Said::Note { .. } => {}
                Said::Progress(progress) => all.push(progress.done.to_string()),
            }
        }
        if let Some(info) = heard.info
            && (info.status.is_terminal() || !info.questions.is_empty())
        {
            return (all, info.status);
        }
    }
}

async fn talks(ledger: Ledger, ctx: Context, _: ()) -> Result<()> {
    ctx.progress(0.0, None, None);
    ctx.log("info", "hello");
    counted(&ctx, &ledger, "one").await?;
    ctx.progress(1.0, None, None);
    ctx.log("info", "one");
    ctx.step("two", || async {
        ctx.progress(2.0, None, None);
        tokio::task::yield_now().await;
        ctx.log("info", "in two");
        Ok::<_, steadfast_engine::Error>(())
    })
    .await?;
    ctx.log("info", "before the question");
    ctx.ask::<bool>("Go on?").key("go").await?;
    ctx.log("info", "goodbye");
    ctx.progress(3.0, None, None);
    Ok(())
}

const FIRST: [&str; 7] = ["0", "hello", "1", "one", "2", "in two", "before the question"];
const REST: [&str; 2] = ["goodbye", "3"];

/// Many, because it depends on who is first.
#[tokio::test(flavor = "multi_thread")]
async fn all_is_heard_in_order_and_progress_that_is_not_recorded_too() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start(|builder| builder.tool(tool("talks", &ledger, talks)));
    let tasks = life.engine.tasks(ada());
    for _ in 0..300 {
        let start = tasks.start("talks", &()).passing_progress().and_follow();
        let (started, mut follow) = start.await.unwrap();
        assert_eq!(
            listen(&mut follow).await,
            (FIRST.map(String::from).to_vec(), Status::InputRequired)
        );
        let yes = Answer { action: Action::Accept, content: Json::of(&true).ok() };
        tasks.answer(&started.id, "go", yes).await.unwrap();
        assert_eq!(listen(&mut follow).await, (REST.map(String::from).to_vec(), Status::Completed));
        let events = life.events(&started.id).await;
        let progress =
            |event: &&Event| matches!(event, Event::Noted { note: Note::Progress(_), .. });
        assert_eq!(events.iter().filter(progress).count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_later_hears_what_is_recorded_and_whatever_is_new() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start(|builder| builder.tool(tool("talks", &ledger, talks)));
    let tasks = life.engine.tasks(ada());
    let started = tasks.start("talks", &()).await.unwrap();
    life.until(&started.id, Status::InputRequired).await;
    let mut follow = tasks.follow(&started.id, 0).await.unwrap();
    let kept = FIRST.map(|text| match text.parse::<u8>() {
        Ok(number) => format!("{number} of the history"),
        Err(_) => text.into(),
    });
    assert_eq!(listen(&mut follow).await.0, kept);
}

/// Somebody else has heard it all, so that it is here, and need not be read from the store for them.
#[tokio::test(flavor = "multi_thread")]
async fn who_goes_on_from_a_point_hears_all_behind_it_though_another_has_heard_it() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let life = place.start(|builder| builder.tool(tool("talks", &ledger, talks)));
    let tasks = life.engine.tasks(ada());
    let (started, mut first) = tasks.start("talks", &()).and_follow().await.unwrap();
    let all = listen(&mut first).await.0;
    assert_eq!(all.len(), FIRST.len());
    for seen in 0..=1 {
        // There is nothing said in the event before.
        let mut second = tasks.follow(&started.id, seen).await.unwrap();
        assert_eq!(listen(&mut second).await.0, all, "from {seen}");
    }
}

async fn waits(gate: Arc<Notify>, ctx: Context, _: ()) -> Result<()> {
    ctx.log("info", "waiting");
    ctx.step("wait", || async {
        gate.notified().await;
        Ok::<_, steadfast_engine::Error>(())
    })
    .await
}

/// The end is not the runner's doing, and comes right after something that is.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_right_after_something_was_said_is_heard() {
    let place = Place::new();
    let life = place.start(|builder| builder.tool(tool("waits", &Arc::default(), waits)));
    let tasks = life.engine.tasks(ada());
    for n in 0..200 {
        let (started, mut follow) = tasks.start("waits", &()).and_follow().await.unwrap();
        if n % 2 == 0 {
            tokio::task::yield_now().await;
        }
        tasks.cancel(&started.id, None).await.unwrap();
        assert_eq!(listen(&mut follow).await.1, Status::Cancelled);
    }
}

async fn chatters(_: (), ctx: Context, count: u32) -> Result<()> {
    for n in 0..count {
        ctx.log("info", n.to_string());
    }
    ctx.sleep(std::time::Duration::from_millis(1)).await;
    Ok(())
}

/// More than is kept for those who are slow.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_slow_misses_nothing_that_is_recorded() {
    let place = Place::new();
    let life = place.start(|builder| builder.tool(tool("chatters", &(), chatters)));
    let tasks = life.engine.tasks(ada());
    let (started, mut follow) = tasks.start("chatters", &500).and_follow().await.unwrap();
    tasks.wait(&started.id).await.unwrap();
    let all: Vec<String> = (0..500).map(|n: u32| n.to_string()).collect();
    assert_eq!(listen(&mut follow).await, (all, Status::Completed));
}

async fn anew(_: (), ctx: Context, round: u32) -> Result<()> {
    ctx.log("info", format!("round {round}"));
    ctx.sleep(std::time::Duration::from_millis(1)).await;
    if round < 2 { ctx.continue_as_new(&(round + 1)) } else { Ok(()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_begins_anew_is_followed_to_its_end() {
    let place = Place::new();
    let life = place.start(|builder| builder.tool(tool("anew", &(), anew)));
    let tasks = life.engine.tasks(ada());
    for _ in 0..50 {
        let (_, mut follow) = tasks.start("anew", &0).and_follow().await.unwrap();
        let (said, status) = listen(&mut follow).await;
        assert_eq!(status, Status::Completed);
        assert_eq!(said.first().unwrap(), "round 0");
        assert_eq!(said.last().unwrap(), "round 2");
    }
}
