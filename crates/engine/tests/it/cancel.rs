//! Cancel stops work.

use std::time::Duration;

use steadfast_engine::{Attempt, Builder, CallError, Context, Error, Result, Retry, Status, Tool};

use crate::support::{HOUR, Ledger, Place, counted, endless, settle, tool};

struct OnDrop(Ledger);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

/// A step that hands its token to work elsewhere, and never ends.
async fn busy(ledger: Ledger, ctx: Context, (): ()) -> Result<()> {
    let _held = OnDrop(ledger.clone());
    ctx.step("busy", |attempt: Attempt| {
        let ledger = ledger.clone();
        async move {
            ledger.add("busy");
            tokio::spawn(async move {
                attempt.cancelled().cancelled().await;
                ledger.add("told");
            });
            std::future::pending::<Result<()>>().await
        }
    })
    .await
}

async fn waits(ledger: Ledger, ctx: Context, what: String) -> Result<()> {
    match what.as_str() {
        "event" => ctx.event("never").await?,
        "sleep" => ctx.sleep(HOUR).await,
        "ask" => {
            ctx.ask::<u32>("?").await?;
        }
        "retry" => {
            let retry = Retry::forever().first_delay(HOUR);
            let step = ctx.step("fails", || async { Err::<(), _>(Error::new("no")) });
            step.retry(retry).await?;
        }
        "halt" => tokio::time::sleep(HOUR).await,
        _ => endless(&ctx, &ledger, "busy").await?,
    }
    counted(&ctx, &ledger, "went on").await?;
    Ok(())
}

fn tools(ledger: &Ledger) -> impl Fn(Builder) -> Builder {
    let ledger = ledger.clone();
    move |builder| builder.tool(tool("busy", &ledger, busy)).tool(tool("waits", &ledger, waits))
}

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_from_the_moment_the_call_returns() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let id = life.begin("busy", ()).await;
    ledger.has("busy").await;
    life.tasks().cancel(&id, Some("enough".into())).await.unwrap();
    let info = life.get(&id).await;
    assert_eq!((info.status, info.reason.as_deref()), (Status::Cancelled, Some("enough")));
    assert!(info.ended.is_some() && info.output.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_running_future_is_dropped_and_its_step_is_told_at_once() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let id = life.begin("busy", ()).await;
    ledger.has("busy").await;
    let before = tokio::time::Instant::now();
    life.tasks().cancel(&id, None).await.unwrap();
    ledger.has("dropped").await;
    ledger.has("told").await;
    assert!(before.elapsed() < Duration::from_millis(20), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_never_becomes_anything_else() {
    let place = Place::new();
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", move |ctx: Context, (): ()| {
            let ledger = noted.clone();
            async move {
                // It ends in the very moment in which it is cancelled.
                ctx.step("race", || async {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    Ok::<_, Error>(ledger.add("ended"))
                })
                .await
            }
        }))
    });
    for micros in (4_000..6_000).step_by(100) {
        let id = life.begin("t", ()).await;
        tokio::time::sleep(Duration::from_micros(micros)).await;
        let accepted = life.tasks().cancel(&id, None).await.is_ok();
        settle().await;
        let status = life.get(&id).await.status;
        assert_eq!(status, if accepted { Status::Cancelled } else { Status::Completed });
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_a_task_waits_for_it_can_be_cancelled_and_stays_so_after_a_restart() {
    let place = Place::new();
    let ledger = Ledger::default();
    let mut ids = Vec::new();
    let first = place.start(tools(&ledger));
    let cases = [
        ("event", Status::Waiting),
        ("sleep", Status::Waiting),
        ("ask", Status::InputRequired),
        ("retry", Status::Retrying),
        ("halt", Status::Stuck),
    ];
    for (what, status) in cases {
        let id = first.begin("waits", what).await;
        first.until(&id, status).await;
        first.parked(&id).await;
        first.tasks().cancel(&id, None).await.unwrap();
        assert_eq!(first.get(&id).await.status, Status::Cancelled, "{what}");
        ids.push(id);
    }
    let later = first.tasks().start("waits", "sleep").delay(HOUR).await.unwrap().id;
    first.tasks().cancel(&later, None).await.unwrap();
    ids.push(later);
    let suspended = first.begin("waits", "sleep").await;
    first.tasks().suspend(&suspended, None).await.unwrap();
    first.tasks().cancel(&suspended, None).await.unwrap();
    ids.push(suspended);
    first.kill().await;
    let second = place.start(tools(&ledger));
    tokio::time::sleep(HOUR * 3).await;
    for id in &ids {
        assert_eq!(second.get(id).await.status, Status::Cancelled);
    }
    assert_eq!(ledger.count("went on"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_ended_can_not_be_cancelled() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    let id = life.begin("waits", "event").await;
    life.tasks().cancel(&id, None).await.unwrap();
    let again = life.tasks().cancel(&id, None).await;
    assert!(
        matches!(again, Err(CallError::Terminal { status: Status::Cancelled, .. })),
        "{again:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_it_last_said_is_still_to_be_seen() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            ctx.status("half way");
            ctx.event::<()>("never").await
        }))
    });
    let id = life.begin("t", ()).await;
    life.parked(&id).await;
    life.tasks().cancel(&id, None).await.unwrap();
    assert_eq!(life.get(&id).await.message.as_deref(), Some("half way"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancel_in_the_moment_in_which_a_task_is_taken_up_is_not_missed() {
    let place = Place::new();
    let ledger = Ledger::default();
    let life = place.start(tools(&ledger));
    for round in 0..300 {
        let id = steadfast_engine::TaskId::new(format!("task-{round}")).unwrap();
        let (tasks, wanted) = (life.tasks(), id.clone());
        let canceller = tokio::spawn(async move {
            while tasks.cancel(&wanted, None).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
        life.tasks().start("busy", &()).id(id.clone()).await.unwrap();
        canceller.await.unwrap();
        assert_eq!(life.get(&id).await.status, Status::Cancelled);
    }
    // Whatever had begun to run was dropped: no future of a cancelled task lives on.
    let over = async {
        while ledger.count("told") < ledger.count("busy") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), over).await.expect("a cancel was missed");
}
