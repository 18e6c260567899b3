//! A server to be killed. What its tools really do is a line each in a file, which outlives the process;
//! and they wait for files that a test makes, so that it is killed where the test wants it.

mod asking;

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use clap::Parser;
use steadfast::{
    engine::{System, Timestamp, World},
    prelude::*,
};

use asking::{draft, enter, hurry, invite, push, remark, roots, sample};

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Where the effects are written to, and where a test opens gates.
    #[arg(long)]
    dir: PathBuf,
    /// Offers one more tool, as after a deploy.
    #[arg(long)]
    more: bool,
    /// How long a stream lives, in milliseconds, before its client is sent away.
    #[arg(long)]
    stream_life: Option<u64>,
    /// By how many seconds its clock is wrong.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    clock: i64,
}

static DIR: OnceLock<PathBuf> = OnceLock::new();

fn path(name: &str) -> PathBuf {
    DIR.get().map_or(Path::new("."), PathBuf::as_path).join(name)
}

/// Does something that can be counted.
async fn effect(what: &str) -> Result<()> {
    write(what)
}

fn write(what: &str) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path("effects"))?;
    file.write_all(format!("{what}\n").as_bytes())?;
    Ok(())
}

/// Waits until a test has opened a gate.
async fn gate(name: &str) {
    while !path(name).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An effect that is done long before its step is.
async fn slow(what: &str) -> Result<()> {
    effect(what).await?;
    gate(what).await;
    Ok(())
}

/// A clock that is wrong.
struct Wrong {
    by: i64,
}

impl World for Wrong {
    fn now(&self) -> Timestamp {
        Timestamp(System.now().0 + self.by * 1_000)
    }

    fn random(&self) -> u128 {
        System.random()
    }
}

/// Does something when it is dropped.
struct LetGo;

impl Drop for LetGo {
    fn drop(&mut self) {
        // That it is lost is seen.
        let _ = write("let go");
    }
}

/// A step that never ends by itself, and can be taken back.
#[tool]
async fn hang(ctx: Context) -> Result<()> {
    let step = ctx.step("hang", || async {
        let _guard = LetGo;
        effect("hangs").await?;
        std::future::pending::<Result<()>>().await
    });
    step.undo("unhang", &()).await
}

/// Takes that back, if nobody is at it any more.
async fn unhang(_: ActivityContext, (): ()) -> Result<()> {
    effect("unhung").await
}

/// Sleeps between two steps.
#[tool]
async fn nap(ctx: Context, seconds: u64) -> Result<String> {
    ctx.step("before", || effect("before")).await?;
    ctx.sleep(Duration::from_secs(seconds)).await;
    ctx.step("after", || effect("after")).await?;
    Ok("rested".into())
}

/// Three steps with progress. The second waits for a gate, when its effect is done.
#[tool]
async fn work(ctx: Context, number: u64) -> Result<Structured<u64>> {
    ctx.step("first", || effect("first")).await?;
    ctx.progress(1.0, Some(4.0), Some("one"));
    ctx.log("debug", "a detail");
    ctx.log("info", "the same");
    ctx.log("info", "the same");
    ctx.step("second", || slow("second")).await?;
    ctx.progress(0.5, Some(4.0), Some("less than before"));
    ctx.progress(2.0, Some(4.0), Some("two"));
    ctx.step("last", || effect("last")).await?;
    Ok(Structured(number))
}

/// Has something done that may be done elsewhere.
#[tool]
async fn errand(ctx: Context) -> Result<String> {
    ctx.step("before", || effect("before")).await?;
    ctx.activity("fetch", &()).await
}

/// What is to be done elsewhere.
async fn fetch(_: ActivityContext, (): ()) -> Result<String> {
    slow("fetched").await?;
    Ok(format!("fetched by {}", std::process::id()))
}

/// Books a room, which can be taken back, and then waits for a gate.
#[tool]
async fn book(ctx: Context, guest: String) -> Result<String> {
    ctx.step("room", || effect("room")).undo("cancel_room", &guest).await?;
    ctx.step("second", || slow("second")).await?;
    ctx.step("paid", || effect("paid")).await?;
    Ok(format!("booked for {guest}"))
}

/// Takes a booking back.
async fn cancel_room(_: ActivityContext, _guest: String) -> Result<()> {
    effect("cancel room").await
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Whether it may be done
    approve: bool,
}

/// One step, and no word.
#[tool]
async fn short(ctx: Context, number: u64) -> Result<Structured<u64>> {
    ctx.step("short", || effect("short")).await?;
    Ok(Structured(number))
}

/// Hands itself out as a task, when it has done something that takes long.
#[tool(hands_itself_out)]
async fn prepare(ctx: Context, number: u64) -> Result<Structured<u64>> {
    ctx.step("first", || effect("first")).await?;
    ctx.step("second", || slow("second")).await?;
    ctx.hand_out();
    ctx.step("last", || effect("last")).await?;
    Ok(Structured(number))
}

/// Asks between two steps.
#[tool]
async fn approve(ctx: Context) -> Result<String> {
    ctx.step("before", || effect("before")).await?;
    let answer = ctx.ask::<Approval>("May it be done?").await?;
    ctx.step("after", || effect("after")).await?;
    Ok(match answer {
        Reply::Accepted(Approval { approve: true }) => "done",
        Reply::Accepted(_) => "left",
        Reply::Declined => "declined",
        Reply::Cancelled => "dismissed",
    }
    .into())
}

/// A board that is written on.
#[resource("test://board")]
async fn board() -> Result<String> {
    Ok("written".into())
}

/// A report that takes long to make.
#[resource("test://report")]
async fn report(ctx: Context) -> Result<String> {
    ctx.step("look up", || effect("look up")).await?;
    ctx.step("second", || slow("second")).await?;
    Ok("all is well".into())
}

/// A file that is shown to who may see it.
#[resource("test://files/{name}")]
async fn file(ctx: Context, name: String) -> Result<String> {
    ctx.step("before", || effect("before")).await?;
    let answer = ctx.ask::<Approval>(format!("May you see {name}?")).await?;
    ctx.step("after", || effect("after")).await?;
    match answer {
        Reply::Accepted(Approval { approve: true }) => Ok(format!("the content of {name}")),
        _ => Err(protocol_error(-32002, "resource not found")),
    }
}

/// Writes on the board.
#[tool]
async fn publish(ctx: Context) -> Result<()> {
    ctx.step("write", || effect("write")).await?;
    ctx.resource_updated("test://board")?;
    ctx.step("last", || effect("last")).await
}

/// Says that something has changed.
#[tool]
async fn announce(ctx: Context, uri: String) -> Result<()> {
    ctx.resource_updated(&uri)
}

/// Writes on the board, and waits for a gate before it writes again.
#[tool]
async fn rewrite(ctx: Context) -> Result<()> {
    ctx.step("write", || effect("write")).await?;
    ctx.resource_updated("test://board")?;
    ctx.step("second", || slow("second")).await?;
    ctx.step("write", || effect("write")).await?;
    ctx.resource_updated("test://board")
}

/// Says all that is known of who calls, as JSON.
#[tool]
async fn who(ctx: Context) -> Result<String> {
    let caller = ctx.caller();
    let known = serde_json::json!({
        "principal": caller.principal,
        "revision": caller.revision.map(|revision| revision.name()),
        "client": caller.client_info,
        "capabilities": caller.capabilities,
    });
    Ok(known.to_string())
}

/// How often it was called in this session, and by this principal.
#[tool]
async fn visits(ctx: Context) -> Result<String> {
    let add = |seen: Option<u32>| seen.unwrap_or(0) + 1;
    let here = ctx.state(Scope::Session).update("visits", add).await?;
    let all = ctx.state(Scope::Owner).update("visits", add).await?;
    Ok(format!("{here} of {all}"))
}

/// Comes with a deploy.
#[tool]
async fn new_one() -> Result<()> {
    Ok(())
}

/// A prompt that takes long to write.
#[prompt]
async fn interview(ctx: Context, topic: String) -> Result<Vec<PromptMessage>> {
    ctx.step("look up", || effect("look up")).await?;
    ctx.step("second", || slow("second")).await?;
    Ok(vec![PromptMessage::user(format!("Ask about {topic}."))])
}

#[tokio::main]
async fn main() -> Result<()> {
    let Args { flags, dir, more, stream_life, clock } = Args::parse();
    let _ = DIR.set(dir);
    let mut server = Server::new("survive").tool(work).tool(book).tool(approve).tool(publish);
    server.settings_mut().stream_life = stream_life.map(Duration::from_millis);
    let server = server.tool(announce).tool(rewrite).tool(visits).tool(who);
    let server = server.tool(short).tool(prepare).prompt(interview).resource(board);
    let server = server.resource(report).template(file).prompt(draft);
    let server = server.tool(sample).tool(remark).tool(invite).tool(hurry).tool(enter).tool(push);
    let server = server.tool(roots).on_answer_progress(|said| {
        // That it is lost is seen.
        let _ = write(&format!("{}: {} of {:?}", said.tool, said.progress, said.total));
    });
    let server = if more { server.tool(new_one) } else { server };
    let server = server.tool(hang).tool(nap).activity("unhang", unhang);
    let server = server.tool(errand).activity("fetch", fetch);
    let server = match clock {
        0 => server,
        by => server.engine(move |engine| engine.world(Wrong { by })),
    };
    server.activity("cancel_room", cancel_room).run_with(flags).await
}
