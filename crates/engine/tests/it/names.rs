//! Names, keys and texts are bounded: a name that is too long is refused, a text is cut.

use steadfast_engine::{
    Builder, CallError, Context, Error, Event, FailureKind, Result, Scope, Start, Status, TaskId,
    Tool,
    limits::{NAME, TAGS, TRACE},
};

use crate::support::{HOUR, Ledger, Place, counted, output, settle, tool};

/// As long as a name may be.
fn longest() -> String {
    "n".repeat(NAME)
}

fn too_long() -> String {
    "n".repeat(NAME + 1)
}

fn echo(builder: Builder) -> Builder {
    builder.tool(Tool::new("echo", |_: Context, n: u32| async move { Ok(n) }))
}

#[tokio::test(start_paused = true)]
async fn a_start_with_a_name_over_the_limit_is_refused_and_starts_nothing() {
    let place = Place::new();
    let life = place.start(echo);
    let start = || life.tasks().start("echo", &1);
    let long: [(Start, usize); 5] = [
        (life.tasks().start(too_long(), &1).even_if_unserved(), NAME),
        (start().idempotency_key(too_long()), NAME),
        (start().tag(too_long(), "value"), NAME),
        (start().tag("name", too_long()), NAME),
        (start().trace("t".repeat(TRACE + 1)), TRACE),
    ];
    for (start, most) in long {
        let refused = start.await.unwrap_err();
        assert!(matches!(refused, CallError::TooLong { limit, .. } if limit == most), "{refused}");
    }
    let tagged = |count| (0..count).fold(start(), |start, n| start.tag(n.to_string(), "value"));
    let refused = tagged(TAGS + 1).await;
    assert!(matches!(refused, Err(CallError::TooManyTags { limit: TAGS })), "{refused:?}");
    assert!(life.tasks().counts().await.unwrap().is_empty());

    let largest = tagged(TAGS - 1).tag(longest(), longest()).idempotency_key(longest());
    let id = largest.trace("t".repeat(TRACE)).await.unwrap().id;
    let ended = life.end(&id).await;
    assert_eq!((ended.tags.len(), &ended.tags[&longest()]), (TAGS, &longest()));
}

#[tokio::test(start_paused = true)]
async fn an_event_with_a_name_or_id_over_the_limit_is_refused_and_not_kept() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            ctx.event::<u32>(longest()).await
        }))
    });
    let id = TaskId::new("later").unwrap();
    let start = async || life.tasks().start("t", &()).id(id.clone()).await.unwrap();
    for started in [false, true] {
        for long in [Event::new(too_long(), &1), Event::new(longest(), &1).id(too_long())] {
            let refused = life.tasks().signal(&id, long.even_before_start()).await;
            assert!(matches!(refused, Err(CallError::TooLong { limit: NAME, .. })), "{refused:?}");
        }
        if !started {
            start().await;
        }
    }
    settle().await;
    assert_eq!(life.events(&id).await.len(), 1, "its start");
    life.tasks().signal(&id, Event::new(longest(), &7).id(longest())).await.unwrap();
    assert_eq!(output::<u32>(&life.end(&id).await), 7);
}

/// Asks for everything under a name that is too long.
async fn all_refused(ctx: &Context) -> Vec<Error> {
    let state = ctx.state(Scope::Task);
    let add = |old: Option<u32>| old.unwrap_or(0) + 1;
    let nothing = || async { Ok::<_, Error>(()) };
    let mut refused: Vec<Option<Error>> = vec![
        ctx.ask::<u32>("?").key(too_long()).await.err(),
        ctx.event::<u32>(too_long()).await.err(),
        ctx.send_event(ctx.task_id(), too_long(), &1).await.err(),
        state.get::<u32>(too_long()).await.err(),
        state.set(too_long(), &1).await.err(),
        state.remove(too_long()).await.err(),
        state.update(too_long(), add).await.err(),
        state.wait_until(too_long(), |_: Option<&u32>| true).await.err(),
    ];
    refused.extend([
        ctx.activity::<u32>(too_long(), &1).await.err(),
        ctx.child::<u32>(too_long(), &1).await.err(),
        ctx.child::<u32>(too_long(), &1).detach().await.err(),
        ctx.step(too_long(), nothing).await.err(),
        ctx.step("step", nothing).undo(too_long(), &1).await.err(),
    ]);
    refused.into_iter().map(|error| error.expect("it was not refused")).collect()
}

async fn insists(ledger: Ledger, ctx: Context, (): ()) -> Result<(Vec<String>, Option<u32>)> {
    let first = all_refused(&ctx).await;
    assert!(first.iter().all(|error| error.kind() == FailureKind::Limit && error.is_permanent()));
    counted(&ctx, &ledger, &longest()).await?;
    ctx.sleep(HOUR).await;
    let again = all_refused(&ctx).await;
    assert_eq!(first, again);
    ctx.state(Scope::Task).set(longest(), &7).await?;
    let found = ctx.state(Scope::Task).get(longest()).await?;
    Ok((again.iter().map(ToString::to_string).collect(), found))
}

#[tokio::test(start_paused = true)]
async fn a_name_over_the_limit_is_an_error_for_the_author_and_the_same_in_a_replay() {
    let place = Place::new();
    let ledger = Ledger::default();
    let tools = |builder: Builder| builder.tool(tool("t", &ledger, insists));
    let first = place.start(tools);
    let id = first.begin("t", ()).await;
    first.parked(&id).await;
    assert_eq!(first.events(&id).await.len(), 3, "its start, the step and the timer");
    first.kill().await;
    let second = place.start(tools);
    let (texts, found): (Vec<String>, Option<u32>) = output(&second.end(&id).await);
    assert_eq!(ledger.count(&longest()), 1);
    assert_eq!((texts.len(), found), (13, Some(7)));
    let over = format!("has {} bytes, over the limit of {NAME}", NAME + 1);
    assert!(texts.iter().all(|text| text.ends_with(&over)), "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_cancel_or_suspend_is_cut_and_says_so() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder
            .tool(Tool::new("waits", |ctx: Context, (): ()| async move {
                ctx.event::<()>("never").await
            }))
            .tool(Tool::new("parent", |ctx: Context, (): ()| async move {
                let child = TaskId::new("child")?;
                ctx.child::<()>("waits", &()).id(child).await
            }))
    });
    let cut = |text: Option<String>| {
        let text = text.expect("a reason");
        assert!(text.len() < 66_000 && text.ends_with("… (cut)"), "{}", text.len());
    };
    let parent = life.begin("parent", ()).await;
    let child = TaskId::new("child").unwrap();
    life.parked(&parent).await;
    let long = || Some("ä".repeat(100_000));
    life.tasks().suspend(&child, long()).await.unwrap();
    cut(life.until(&child, Status::Suspended).await.reason);
    life.tasks().cancel(&child, long()).await.unwrap();
    cut(life.end(&child).await.reason);
    cut(life.end(&parent).await.failure.map(|failure| failure.message));
}
