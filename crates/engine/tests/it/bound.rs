//! Tasks that are of no use without the process that they were started for.

use std::{sync::Arc, time::Duration};

use steadfast_engine::{
    ActivityContext, Bond, Builder, Compensation, Context, Error, Result, Settings, Status, TaskId,
    TaskInfo, Tool,
};
use steadfast_store::Store;

use crate::support::{HOUR, Ledger, Life, Place, accept, output, settings, settle, tool, within};

/// Books a room, then sleeps, works or asks.
async fn trip(ledger: Ledger, ctx: Context, then: String) -> Result<()> {
    ctx.step("room", || async { Ok::<_, Error>(ledger.add("room")) }).undo("undo", "room").await?;
    match then.as_str() {
        "sleep" => ctx.sleep(HOUR).await,
        "ask" => {
            ctx.ask::<u32>("?").await?;
        }
        "nothing" => {}
        _ => {
            ctx.step("work", || async {
                ledger.add("work");
                std::future::pending::<Result<()>>().await
            })
            .await?;
        }
    }
    ledger.add("went on");
    Ok(())
}

fn tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| {
        let noted = ledger.clone();
        let undo = move |_: ActivityContext, what: String| {
            noted.add(&format!("undo {what}"));
            async { Ok(()) }
        };
        builder.tool(tool("trip", &ledger, trip)).activity("undo", undo)
    }
}

async fn begin(life: &Life, then: &str) -> TaskId {
    life.tasks().start("trip", then).bound_to_process().await.unwrap().id
}

async fn is_taken_back(life: &Life, id: &TaskId, ledger: &Ledger) {
    let info = life.until(id, Status::Cancelled).await;
    assert_eq!(info.reason.as_deref(), Some("the process that it was started for is gone"));
    ledger.has("undo room").await;
    settle().await;
    assert_eq!(life.get(id).await.compensation, Some(Compensation::Done));
    assert_eq!(ledger.count("undo room"), 1);
    assert_eq!(ledger.count("went on"), 0);
}

#[tokio::test(start_paused = true)]
async fn it_is_cancelled_and_taken_back_when_that_dies() {
    for then in ["sleep", "ask", "work"] {
        let place = Place::new();
        let ledger = Ledger::default();
        let life = place.start(tools(&ledger));
        let id = begin(&life, then).await;
        settle().await;
        assert_eq!(ledger.count("room"), 1);
        life.kill().await;
        let life = place.start(tools(&ledger));
        is_taken_back(&life, &id, &ledger).await;
        assert_eq!(ledger.count("work"), u32::from(then == "work"), "{then}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_cancelled_when_that_shuts_down() {
    for then in ["sleep", "ask", "work"] {
        let place = Place::new();
        let ledger = Ledger::default();
        let other = place.start(tools(&ledger));
        let life = place.start(tools(&ledger));
        let id = begin(&life, then).await;
        settle().await;
        life.engine.shutdown(Duration::from_secs(1)).await;
        drop(life);
        is_taken_back(&other, &id, &ledger).await;
    }
}

/// One that waits for a place goes to whoever has one, and ends all the same with the process that its
/// caller talks to.
#[tokio::test(start_paused = true)]
async fn it_is_cancelled_when_that_dies_while_another_runs_it() {
    let place = Place::new();
    let ledger = Ledger::default();
    let full = Settings { max_running: 1, ..settings() };
    let first = place.start_with(full, tools(&ledger));
    let other = place.start(tools(&ledger));
    first.begin("trip", "work").await;
    ledger.has("work").await;
    let id = begin(&first, "sleep").await;
    settle().await;
    assert_eq!(ledger.count("room"), 2, "the other has it");
    first.kill().await;
    let info = other.until(&id, Status::Cancelled).await;
    assert_eq!(info.reason.as_deref(), Some("the process that it was started for is gone"));
}

/// As after a long pause, on a store where a process lives by a lease: nobody has taken over, and its
/// caller still waits.
#[tokio::test(start_paused = true)]
async fn it_goes_on_when_that_was_only_taken_for_dead() {
    for then in ["sleep", "ask"] {
        let place = Place::new();
        let ledger = Ledger::default();
        let store = Arc::new(place.disk.open_leased());
        let life = place.start_on(store.clone(), store, settings(), tools(&ledger));
        let id = begin(&life, then).await;
        ledger.has("room").await;
        settle().await;
        let old = Store::desk(&*life.store);
        life.store.presume_dead();
        settle().await;
        assert_ne!(Store::desk(&*life.store), old, "it goes on at another desk");
        if then == "ask" {
            let asked = life.until(&id, Status::InputRequired).await;
            life.tasks().answer(&id, &asked.questions[0].key, accept(1)).await.unwrap();
        }
        assert_eq!(life.end(&id).await.status, Status::Completed, "{then}");
        assert_eq!((ledger.count("room"), ledger.count("undo room")), (1, 0), "{then}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_as_usual_while_that_lives() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let other = place.start(tools(&ledger));
    let asleep = begin(&life, "sleep").await;
    let id = begin(&life, "nothing").await;
    assert_eq!(life.end(&id).await.status, Status::Completed);
    assert_eq!(other.end(&asleep).await.status, Status::Completed);
    assert_eq!(ledger.count("undo room"), 0);
}

#[tokio::test(start_paused = true)]
async fn it_outlives_that_once_it_is_freed() {
    for then in ["sleep", "work"] {
        let place = Place::new();
        let ledger = Ledger::default();
        let life = place.start(tools(&ledger));
        let id = begin(&life, then).await;
        ledger.has("room").await;
        life.tasks().free(vec![(id.clone(), Bond::Desk)]).await.unwrap();
        if then == "sleep" {
            // Like any other that waits.
            life.parked(&id).await;
        }
        life.kill().await;
        let life = place.start(tools(&ledger));
        match then {
            "sleep" => assert_eq!(life.end(&id).await.status, Status::Completed),
            _ => {
                settle().await;
                assert_eq!(
                    (ledger.count("work"), life.get(&id).await.status),
                    (2, Status::Running)
                );
            }
        }
        assert_eq!((ledger.count("room"), ledger.count("undo room")), (1, 0));
    }
}

/// It never leaves memory, and is seen to ask all the same.
#[tokio::test(start_paused = true)]
async fn a_question_in_place_of_another_is_seen_at_once() {
    let place = Place::new();
    let asks = |ctx: Context, ()| async move {
        let first = ctx.ask::<u32>("first?").key("first").await?;
        let second = ctx.ask::<u32>("second?").key("second").await?;
        Ok((first.accepted(), second.accepted()))
    };
    let life = place.start(|builder| builder.tool(Tool::new("asks", asks)));
    let id = life.tasks().start("asks", &()).bound_to_process().await.unwrap().id;
    for key in ["first", "second"] {
        let asked = |info: &TaskInfo| info.questions.iter().any(|question| question.key == key);
        let begun = tokio::time::Instant::now();
        within(life.tasks().wait_for(&id, asked)).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1), "{key}: {:?}", begun.elapsed());
        life.tasks().answer(&id, key, accept(1)).await.unwrap();
    }
    assert_eq!(output::<(Option<u32>, Option<u32>)>(&life.end(&id).await), (Some(1), Some(1)));
}
