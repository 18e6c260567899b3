//! A server for clients that others wrote: `cargo xtask clients` runs them against it.
//!
//! What its tools really do is a line each in a file, which outlives the process: so it can be counted
//! after a kill.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use clap::Parser;
use serde_json::Number;
use steadfast::prelude::*;

/// Serves the tools that clients are tried with.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Write a line for each effect to the end of this file.
    #[arg(long)]
    effects: PathBuf,
    /// Write the number of this process to this file, for whoever is to kill it: over stdio only the
    /// client knows it otherwise.
    #[arg(long)]
    pid: PathBuf,
}

static EFFECTS: OnceLock<PathBuf> = OnceLock::new();

/// Does something that can be counted.
async fn effect(what: &str, item: &str) -> Result<()> {
    let path = EFFECTS.get().map_or(Path::new("effects"), PathBuf::as_path);
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // In one write, because two processes may have the file.
    file.write_all(format!("{what} {item}\n").as_bytes())?;
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Whether the order may go out
    approve: bool,
    /// Anything the buyer should know
    note: String,
}

#[derive(Serialize, JsonSchema)]
struct Receipt {
    item: String,
    shipped: bool,
    note: String,
}

/// Reserves an item, asks for approval, and ships it.
#[tool]
async fn order(ctx: Context, item: String) -> Result<Structured<Receipt>> {
    ctx.step("reserve", || effect("reserve", &item)).await?;
    let reply = ctx.ask::<Approval>(format!("Ship {item}?")).await?;
    let Some(Approval { approve: true, note }) = reply.accepted() else {
        return Err(Error::new(format!("{item} was not approved")));
    };
    ctx.step("ship", || effect("ship", &item)).await?;
    Ok(Structured(Receipt { item, shipped: true, note }))
}

#[derive(Serialize, JsonSchema)]
struct Parcel {
    item: String,
    numbers: Vec<Number>,
    note: String,
}

/// Packs an item, asks for approval, and sends it. It says how far it is.
#[tool]
async fn carry(ctx: Context, item: String, numbers: Vec<Number>) -> Result<Structured<Parcel>> {
    // After a kill they come out of the history.
    let numbers = ctx.step("pack", || pack(&item, &numbers)).await?;
    ctx.progress(1.0, Some(2.0), Some("packed"));
    ctx.log("info", "packed");
    let reply = ctx.ask::<Approval>(format!("Send {item}?")).await?;
    let Some(Approval { approve: true, note }) = reply.accepted() else {
        return Err(Error::new(format!("{item} was not approved")));
    };
    ctx.step("send", || effect("send", &item)).await?;
    ctx.progress(2.0, Some(2.0), Some("sent"));
    ctx.log("info", "sent");
    Ok(Structured(Parcel { item, numbers, note }))
}

async fn pack(item: &str, numbers: &[Number]) -> Result<Vec<Number>> {
    effect("pack", item).await?;
    Ok(numbers.to_vec())
}

/// Sleeps for a second between two steps.
#[tool]
async fn doze(ctx: Context, item: String) -> Result<String> {
    ctx.step("lie down", || effect("lie-down", &item)).await?;
    ctx.progress(1.0, None, Some("dozing"));
    ctx.sleep(Duration::from_secs(1)).await;
    ctx.step("get up", || effect("get-up", &item)).await?;
    Ok(format!("{item} has slept."))
}

/// Does a step, and waits for an hour.
#[tool]
async fn hold(ctx: Context, item: String) -> Result<String> {
    ctx.step("hold", || effect("hold", &item)).await?;
    ctx.sleep(Duration::from_secs(3_600)).await;
    Ok(format!("{item} was held."))
}

/// Waits for an hour, or until it is cancelled.
#[tool]
async fn slow(ctx: Context) -> Result<String> {
    ctx.sleep(Duration::from_secs(3_600)).await;
    Ok("An hour is over.".into())
}

/// Does one step, and asks nothing.
#[tool]
async fn quick(ctx: Context, item: String) -> Result<String> {
    ctx.step("quick", || effect("quick", &item)).await?;
    Ok(format!("{item} is done."))
}

/// Greets at once. Not durable.
#[tool(read_only)]
async fn plain(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

/// Fails after a step.
#[tool]
async fn fails(ctx: Context, item: String) -> Result<String> {
    ctx.step("fails", || effect("fails", &item)).await?;
    Err(Error::new(format!("{item} can't be done.")))
}

#[tokio::main]
async fn main() -> Result<()> {
    let Args { flags, effects, pid } = Args::parse();
    let _ = EFFECTS.set(effects);
    std::fs::write(pid, std::process::id().to_string())?;
    Server::new("steadfast-clients")
        .version(env!("CARGO_PKG_VERSION"))
        .tool(order)
        .tool(carry)
        .tool(doze)
        .tool(hold)
        .tool(slow)
        .tool(quick)
        .tool(plain)
        .tool(fails)
        .run_with(flags)
        .await
}
