//! The server that is killed. Each call has a number of its own, and what its steps really do is a line
//! each in a file: which call, whether it was done or undone, which step, which task, which process, when,
//! and in which epoch of the task. Its log says which tasks it takes up.

use std::{
    fs::OpenOptions,
    io::Write,
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use steadfast::prelude::*;
use steadfast_crash::Rng;
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    fmt::{format::Writer, time::FormatTime},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Where the effects are written to.
    #[arg(long)]
    effects: PathBuf,
    /// Which process this is.
    #[arg(long)]
    life: u32,
    /// How long a call in rounds waits for its client to come back.
    #[arg(long, default_value_t = 15)]
    wait_seconds: u64,
    /// Is wrong on purpose, to show that it would be seen: `twice`, `again`, `left`, `wrong`, `silent` or
    /// `unfenced`.
    #[arg(long, hide = true)]
    mutant: Option<String>,
}

struct Place {
    effects: PathBuf,
    life: u32,
    mutant: Option<String>,
}

static PLACE: OnceLock<Place> = OnceLock::new();

/// Whether this process is wrong in this way, which shows in every fourth call.
fn is_wrong(how: &str, number: u64) -> bool {
    let mutant = PLACE.get().and_then(|place| place.mutant.as_deref());
    // Few calls are at it when their process dies: of those none is left out.
    mutant == Some(how) && (how == "again" || number.is_multiple_of(4))
}

/// One write, so that a killed process leaves the line whole or not at all.
fn effect(number: u64, what: &str, step: &str, task: &str, epoch: Option<i64>) -> Result<()> {
    let Some(place) = PLACE.get() else { return Ok(()) };
    let mut file = OpenOptions::new().create(true).append(true).open(&place.effects)?;
    let now = now();
    let epoch = epoch.map_or("-".into(), |epoch| epoch.to_string());
    let line = format!("{number}\t{what}\t{step}\t{task}\t{}\t{now}\t{epoch}\n", place.life);
    file.write_all(line.as_bytes())?;
    Ok(())
}

/// What a step does: something that can be counted, with time before and after it to be killed in,
/// so many times the usual.
async fn act(
    number: u64,
    step: &'static str,
    task: String,
    times: u64,
    attempt: Attempt,
) -> Result<()> {
    let epoch = Some(attempt.epoch());
    let mut dice = Rng::of(number, step.bytes().map(u64::from).sum());
    tokio::time::sleep(Duration::from_millis(times * dice.below(120))).await;
    effect(number, "do", step, &task, epoch)?;
    if step == "b" && is_wrong("twice", number) {
        effect(number, "do", step, &task, epoch)?;
    }
    tokio::time::sleep(Duration::from_millis(times * dice.below(250))).await;
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Done {
    number: u64,
    step: String,
    task: String,
}

/// Takes a step back.
async fn undo(_: ActivityContext, done: Done) -> Result<()> {
    match is_wrong("left", done.number) {
        true => Ok(()),
        false => effect(done.number, "undo", &done.step, &done.task, None),
    }
}

/// A step that can be taken back.
async fn step(ctx: &Context, number: u64, step: &'static str, times: u64) -> Result<()> {
    let task = ctx.task_id().to_string();
    let done = Done { number, step: step.into(), task: task.clone() };
    let run = |attempt: Attempt| act(number, step, task.clone(), times, attempt);
    ctx.step(step, run).undo("undo", &done).await
}

fn answer(tool: &str, number: u64, detail: impl std::fmt::Display) -> String {
    let number = if is_wrong("wrong", number) { number + 1 } else { number };
    format!("{tool} {number} {detail}")
}

/// Three steps with progress, for good.
#[tool]
async fn work(ctx: Context, number: u64) -> Result<String> {
    for (n, step) in ["a", "b", "c"].into_iter().enumerate() {
        let task = ctx.task_id().to_string();
        let ran = AtomicBool::new(false);
        let run = |attempt: Attempt| {
            ran.store(true, Ordering::Relaxed);
            act(number, step, task.clone(), 1, attempt)
        };
        ctx.step(step, run).await?;
        if is_wrong("again", number) && !ran.load(Ordering::Relaxed) {
            // It was recorded, in a process that is gone.
            effect(number, "do", step, &task, None)?;
        }
        ctx.progress((n + 1) as f64, Some(3.0), Some(step));
    }
    Ok(answer("work", number, "done"))
}

/// Three steps, each of which can be taken back.
#[tool]
async fn book(ctx: Context, number: u64, slow: Option<bool>) -> Result<String> {
    // So long that one which should have ended with its connection is seen.
    let times = if slow == Some(true) { 8 } else { 1 };
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        step(&ctx, number, name, times).await?;
        ctx.progress((n + 1) as f64, Some(3.0), Some(name));
    }
    Ok(answer("book", number, "done"))
}

#[derive(Deserialize, JsonSchema)]
struct Choice {
    /// Any number
    value: u64,
}

/// Asks between two steps.
#[tool]
async fn ask(ctx: Context, number: u64) -> Result<String> {
    step(&ctx, number, "a", 1).await?;
    ctx.progress(1.0, Some(2.0), None);
    let reply = ctx.ask::<Choice>(format!("Which number for {number}?")).await?;
    step(&ctx, number, "b", 1).await?;
    ctx.progress(2.0, Some(2.0), None);
    Ok(match reply {
        Reply::Accepted(Choice { value }) => answer("ask", number, value),
        Reply::Declined => answer("ask", number, "declined"),
        Reply::Cancelled => answer("ask", number, "dismissed"),
    })
}

/// Has a step between two that never runs twice. If nobody knows whether it ran, the call says so.
#[tool]
async fn once(ctx: Context, number: u64) -> Result<String> {
    step(&ctx, number, "a", 1).await?;
    let task = ctx.task_id().to_string();
    let done = Done { number, step: "once".into(), task: task.clone() };
    let run = |attempt: Attempt| act(number, "once", task.clone(), 1, attempt);
    let sure = match ctx.step("once", run).undo("undo", &done).at_most_once().await {
        Ok(()) => "sure",
        Err(error) if error.is_unfinished() => "unsure",
        Err(error) => return Err(error),
    };
    step(&ctx, number, "b", 1).await?;
    Ok(answer("once", number, sure))
}

/// Changes a board between two steps, and says so.
#[tool]
async fn tell(ctx: Context, number: u64, board: String) -> Result<String> {
    step(&ctx, number, "a", 1).await?;
    if !is_wrong("silent", number) {
        ctx.resource_updated(format!("chaos://boards/{board}"))?;
    }
    step(&ctx, number, "b", 1).await?;
    Ok(answer("tell", number, "done"))
}

/// A board that is written on.
#[resource("chaos://boards/{name}")]
async fn board(name: String) -> Result<String> {
    Ok(name)
}

/// The two steps of what is no tool.
async fn two_steps(ctx: &Context, kind: &str, number: &str) -> Result<String> {
    let number = number.parse()?;
    step(ctx, number, "a", 1).await?;
    step(ctx, number, "b", 1).await?;
    Ok(answer(kind, number, "done"))
}

/// A prompt of two steps.
#[prompt]
async fn interview(ctx: Context, number: String) -> Result<Vec<PromptMessage>> {
    Ok(vec![PromptMessage::user(two_steps(&ctx, "interview", &number).await?)])
}

/// A resource of two steps.
#[resource("chaos://reports/{number}")]
async fn report(ctx: Context, number: String) -> Result<String> {
    two_steps(&ctx, "report", &number).await
}

/// What is wrong, and which tasks this process takes up.
fn log() {
    let wanted = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("steadfast::lease", LevelFilter::DEBUG);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = lines.with_ansi(false).with_timer(Millis).with_filter(wanted);
    tracing_subscriber::registry().with(lines).init();
}

/// The time as effects have it.
struct Millis;

impl FormatTime for Millis {
    fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
        write!(to, "{}", now())
    }
}

/// Milliseconds since 1970.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

#[tokio::main]
async fn main() -> Result<()> {
    let Args { flags, effects, life, wait_seconds, mutant } = Args::parse();
    log();
    if mutant.as_deref() == Some("unfenced") {
        steadfast::postgres::mutants::unfence();
    }
    let _ = PLACE.set(Place { effects, life, mutant });
    let mut server = Server::new("chaos").tool(work).tool(book).tool(ask).tool(once);
    server = server.tool(tell).prompt(interview).template(report).template(board);
    let settings = server.settings_mut();
    settings.request_state_life = Duration::from_secs(wait_seconds);
    // The clients are one principal, and in a hurry.
    settings.max_polls_per_second = 0;
    settings.poll_interval = Duration::from_millis(100);
    server.activity("undo", undo).run_with(flags).await
}
