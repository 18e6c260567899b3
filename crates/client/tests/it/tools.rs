//! The tools of the server. What they really do is a line each in a file, which outlives the process;
//! and they wait for files that a test makes, so that it is killed where the test wants it.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use steadfast::prelude::*;

static DIR: OnceLock<PathBuf> = OnceLock::new();

fn path(name: &str) -> PathBuf {
    DIR.get().map_or(Path::new("."), PathBuf::as_path).join(name)
}

fn note(what: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path("effects"))?;
    file.write_all(format!("{what}\n").as_bytes())
}

async fn effect(what: &str) -> Result<()> {
    Ok(note(what)?)
}

/// Notes that what it is in was dropped before its end.
struct Unfinished(bool);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.0 {
            // A test that waits for it sees that it is not there.
            let _ = note("stopped");
        }
    }
}

/// An effect, and then a wait until a test has opened the gate of this name.
async fn slow(what: &str) -> Result<()> {
    effect(what).await?;
    let mut unfinished = Unfinished(true);
    while !path(what).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    unfinished.0 = false;
    Ok(())
}

/// Three steps with progress. The second waits for a gate.
#[tool]
async fn work(ctx: Context, number: u64) -> Result<Structured<u64>> {
    ctx.step("first", || effect("first")).await?;
    ctx.progress(1.0, Some(3.0), Some("one"));
    ctx.log("info", "it begins");
    ctx.step("second", || slow("second")).await?;
    ctx.progress(2.0, Some(3.0), Some("two"));
    ctx.step("last", || effect("last")).await?;
    Ok(Structured(number))
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Whether it may be done
    approve: bool,
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

#[derive(Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Green,
    Blue,
}

#[derive(Deserialize, Serialize, JsonSchema, Debug)]
struct Form {
    /// What to call it
    name: String,
    /// How many
    count: u32,
    gift: bool,
    colour: Colour,
    also: Vec<Colour>,
    note: Option<String>,
}

/// Asks for one of each kind of field.
#[tool]
async fn fill_in(ctx: Context) -> Result<String> {
    let answer = ctx.ask::<Form>("Please fill this in.").await?;
    Ok(match answer.accepted() {
        Some(form) => serde_json::to_string(&form).unwrap_or_default(),
        None => "nothing".into(),
    })
}

/// Asks the user to visit a page.
#[tool]
async fn visit(ctx: Context) -> Result<String> {
    let answer = ctx.ask_url("Please sign in.", "https://example.com/sign-in").await?;
    Ok(match answer {
        UrlReply::Accepted => "visited",
        UrlReply::Declined => "declined",
        UrlReply::Cancelled => "dismissed",
    }
    .into())
}

/// Fails after a step.
#[tool]
async fn fail(ctx: Context) -> Result<String> {
    ctx.step("before", || effect("before")).await?;
    Err(Error::new("it can't be done"))
}

/// Greets. A plain tool.
#[tool]
async fn greet(
    /// Who to greet
    name: String,
) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

/// A board that is written on.
#[resource("test://board")]
async fn board() -> Result<String> {
    Ok("written".into())
}

/// Writes on the board.
#[tool]
async fn publish(ctx: Context) -> Result<()> {
    ctx.resource_updated("test://board")
}

/// Has a parameter that goes out as a header as well.
#[tool]
async fn route(#[schemars(extend("x-mcp-header" = "Region"))] region: String) -> Result<String> {
    Ok(format!("to {region}"))
}

pub(crate) fn serve(flags: Flags, dir: PathBuf) -> Result<()> {
    let _ = DIR.set(dir);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(
        Server::new("under-test")
            .tool(work)
            .tool(approve)
            .tool(fill_in)
            .tool(visit)
            .tool(fail)
            .tool(greet)
            .tool(route)
            .tool(publish)
            .resource(board)
            .run_with(flags),
    )
}
