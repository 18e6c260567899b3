//! One task with every durable operation in it, and its exact count of effects after a crash.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steadfast_core::{Event, Message, Record};
use steadfast_engine::{
    ActivityContext, Answer, Attempt, Builder, Context, Error, Result, Retry, Scope, Settings,
    Tasks, Tool,
};
use steadfast_store::{Order, Store, TaskRow};

use crate::{Entry, Ledger};

/// How the task is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finale {
    /// It completes.
    Complete,
    /// It fails, and its steps are undone.
    Fail,
    /// It is cancelled from outside when it has done all but the last thing.
    Cancelled,
}

/// What it was asked and told.
#[derive(Debug, Deserialize, JsonSchema)]
struct Approval {
    approved: bool,
}

/// Steps that run at least once.
pub const AT_LEAST_ONCE: [&str; 8] = [
    "first",
    "after-retry",
    "after-timer",
    "after-event",
    "after-answer",
    "in-child",
    "activity",
    "last",
];
/// The one that runs at most once.
pub const AT_MOST_ONCE: &str = "at-most-once";

fn line(ledger: &Ledger, step: &str) -> Result<String> {
    ledger.effect("all", step);
    Ok(step.to_owned())
}

async fn everything(ctx: Context, ledger: Ledger, finale: Finale) -> Result<String> {
    ctx.step("first", || async { line(&ledger, "first") }).undo("undo", "first").await?;
    let retry = Retry::exponential().first_delay(Duration::from_millis(20));
    ctx.step("after-retry", |attempt: Attempt| {
        let ledger = ledger.clone();
        async move {
            if attempt.number() == 1 {
                return Err(Error::new("not yet"));
            }
            line(&ledger, "after-retry")
        }
    })
    .retry(retry)
    .await?;
    let once =
        ctx.step(AT_MOST_ONCE, || async { line(&ledger, AT_MOST_ONCE) }).at_most_once().await;
    let cut_off = match once {
        Ok(_) => false,
        Err(error) if error.is_unfinished() => true,
        Err(error) => return Err(error),
    };
    ctx.sleep(Duration::from_millis(120)).await;
    ctx.step("after-timer", || async { line(&ledger, "after-timer") })
        .undo("undo", "after-timer")
        .await?;
    let paid: u32 = ctx.event("paid").await?;
    ctx.step("after-event", || async { line(&ledger, "after-event") }).await?;
    let reply = ctx.ask::<Approval>("Go on?").key("approval").await?;
    let approved = reply.accepted().is_some_and(|a| a.approved);
    ctx.step("after-answer", || async { line(&ledger, "after-answer") }).await?;
    let child: String = ctx.child("child", &()).await?;
    let activity: String = ctx.activity("activity", &()).await?;
    let counted: u32 =
        ctx.state(Scope::Global).update("runs", |runs: Option<u32>| runs.unwrap_or(0) + 1).await?;
    ctx.step("last", || async { line(&ledger, "last") }).await?;
    match finale {
        Finale::Complete => Ok(format!("{cut_off} {paid} {approved} {child} {activity} {counted}")),
        Finale::Fail => Err(Error::new("on purpose")),
        Finale::Cancelled => ctx.event("never").await,
    }
}

/// Registers the tools.
pub fn tools(builder: Builder, ledger: &Ledger) -> Builder {
    let (one, two, three, four) = (ledger.clone(), ledger.clone(), ledger.clone(), ledger.clone());
    builder
        .settings(Settings {
            // Parks during the timer, and while it waits for people.
            park_after: Duration::from_millis(40),
            ..Settings::default()
        })
        .tool(Tool::new("everything", move |ctx: Context, finale: Finale| {
            everything(ctx, one.clone(), finale)
        }))
        .tool(Tool::new("child", move |ctx: Context, (): ()| {
            let ledger = two.clone();
            async move { ctx.step("in-child", || async { line(&ledger, "in-child") }).await }
        }))
        .activity("activity", move |_: ActivityContext, (): ()| {
            let ledger = three.clone();
            async move { line(&ledger, "activity") }
        })
        .activity("undo", move |_: ActivityContext, what: String| {
            let ledger = four.clone();
            async move { line(&ledger, &format!("undo {what}")) }
        })
}

/// Plays the world: starts the task, sends the event, answers the question, cancels. Says each again
/// after a crash, since it can't know what arrived.
pub async fn play(
    tasks: &Tasks,
    finale: Finale,
) -> std::result::Result<steadfast_engine::TaskInfo, steadfast_engine::CallError> {
    use steadfast_engine::{CallError, Event, Status, TaskId};
    let id = TaskId::new("all")?;
    match tasks.start("everything", &finale).id(id.clone()).await {
        Ok(_) | Err(CallError::Exists(_)) => {}
        Err(error) => return Err(error),
    }
    match tasks.signal(&id, Event::new("paid", &7u32).id("payment-1")).await {
        Ok(()) | Err(CallError::Terminal { .. }) => {}
        Err(error) => return Err(error),
    }
    loop {
        let seen = tasks
            .wait_for(&id, |info| {
                let waits = finale == Finale::Cancelled && info.status == Status::Waiting;
                info.status.is_terminal() || info.status == Status::InputRequired || waits
            })
            .await?;
        if seen.status.is_terminal() {
            return Ok(seen);
        }
        if seen.status == Status::InputRequired {
            let yes = Answer {
                action: steadfast_engine::Action::Accept,
                content: steadfast_engine::Json::of(&serde_json::json!({"approved": true})).ok(),
            };
            match tasks.answer(&id, "approval", yes).await {
                Ok(()) | Err(CallError::NotAsked { .. }) => {}
                Err(error) => return Err(error),
            }
            tasks.wait_for(&id, |info| info.status != Status::InputRequired).await?;
            continue;
        }
        // Waiting: for the timer, for the child or the activity, or at its end.
        let history = tasks.history(&id, Order::NewestFirst, None, 1_000).await?;
        let last = |e: &steadfast_engine::HistoryEntry| matches!(&e.event, steadfast_core::Event::StepCompleted { name, .. } if name == "last");
        if history.entries.iter().any(last) {
            match tasks.cancel(&id, Some("on purpose".into())).await {
                Ok(()) | Err(CallError::Terminal { .. }) => {}
                Err(error) => return Err(error),
            }
        } else {
            tasks.wait_for_change(&id, &seen).await?;
        }
    }
}

/// Which effects are recorded in the store, so that they must never happen again.
pub async fn recorded(store: &dyn Store) -> steadfast_store::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let page =
        store.list(steadfast_store::Filter::default(), Order::OldestFirst, None, 100).await?;
    let mut operations = BTreeMap::new();
    for TaskRow { key, .. } in page.tasks {
        for (seq, body) in store.history(key, Order::OldestFirst, None, 10_000).await?.events {
            let Ok(Record { event, .. }) = steadfast_core::decode(seq, &body) else { continue };
            match event {
                Event::StepCompleted { name, .. } | Event::StepFailed { name, .. } => {
                    names.insert(name);
                }
                Event::StepStarted { name, .. } => {
                    names.insert(format!("start of {name}"));
                }
                Event::ActivityScheduled { op, name, .. } => {
                    operations.insert(op, name);
                }
                Event::ActivityCompleted { op, .. } => {
                    names.extend(operations.get(&op).cloned());
                }
                Event::Undone { .. } => {
                    let done = names.iter().filter(|n| n.starts_with("undo ")).count();
                    let what = ["undo after-timer", "undo first"][done.min(1)];
                    names.insert(what.into());
                }
                _ => {}
            }
        }
        for row in store.inbox(key, 0).await? {
            if let Ok(Message::ActivityEnded { .. }) = serde_json::from_slice(&row.body) {
                names.insert("activity".into());
            }
        }
    }
    Ok(names)
}

/// Counts effects by step.
#[must_use]
pub fn effects(entries: &[Entry]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.what == "effect") {
        *counts.entry(entry.detail.clone()).or_insert(0) += 1;
    }
    counts
}

/// What the final counts must be, exactly, given the counts and the records at the crash.
#[must_use]
pub fn expected(
    before: &BTreeMap<String, u32>,
    recorded: &BTreeSet<String>,
    finale: Finale,
) -> BTreeMap<String, u32> {
    let undone = ["undo first", "undo after-timer"];
    let mut expected = BTreeMap::new();
    for step in AT_LEAST_ONCE {
        let seen = before.get(step).copied().unwrap_or(0);
        expected.insert(step.to_owned(), seen + u32::from(!recorded.contains(step)));
    }
    // At most once: after its recorded start, what was seen before the crash is all there will be.
    let seen = before.get(AT_MOST_ONCE).copied().unwrap_or(0);
    let started = recorded.contains(&format!("start of {AT_MOST_ONCE}"));
    let all = if started { seen } else { 1 };
    if all > 0 {
        expected.insert(AT_MOST_ONCE.to_owned(), all);
    }
    if finale != Finale::Complete {
        for undo in undone {
            let seen = before.get(undo).copied().unwrap_or(0);
            expected.insert(undo.to_owned(), seen + u32::from(!recorded.contains(undo)));
        }
    }
    expected
}
