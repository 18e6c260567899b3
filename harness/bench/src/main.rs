//! Measures Steadfast against floors and peers on the same machine, in the same run.
//!
//! Every figure is a ratio to a floor taken next to it, or a named bound. Each is taken several
//! times, floor and engine in turn, and the spread is shown: machines are noisy.
#![allow(clippy::print_stdout)] // Figures are what it is for.

mod bounded;
mod child;
mod counted;
mod cross;
mod disk;
mod fastmcp;
mod floor;
mod history;
mod http;
mod idle;
mod load;
mod parked;
mod postgres;
mod recover;
mod report;
mod streams;
mod throughput;
mod tools;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use report::Report;
use tokio::runtime::{self, Runtime};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Parser)]
#[command(about = "Measures Steadfast against floors on the same machine, in the same run")]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The engine on SQLite.
    Engine(EngineArgs),
    /// The front over HTTP.
    Http(EngineArgs),
    /// The engine on PostgreSQL.
    Postgres(EngineArgs),
    /// Plain calls of durable tools: their commits, streams, and what they leave behind.
    Streams(EngineArgs),
    /// A process that a measurement starts; not for use by hand.
    #[command(hide = true)]
    Child(child::Args),
}

#[derive(Parser)]
pub(crate) struct EngineArgs {
    /// Fewer repetitions and smaller stores: to see that it works, not to quote.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write the figures as one flat JSON object: under each name its median, and behind a dot its spread
    /// (`.least`, `.most`), its bound (`.at_least`, `.at_most`) and whether it was met (`.met`: 1 or 0).
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// The `peers` program, to measure others in the same run.
    #[arg(long)]
    pub(crate) peers: Option<PathBuf>,
    /// The Python and the script of a FastMCP server, to measure it in the same run.
    #[arg(long, num_args = 2, value_names = ["PYTHON", "SCRIPT"])]
    pub(crate) fastmcp: Option<Vec<PathBuf>>,
    /// Only the parts whose name contains this.
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// Where the stores are; a temporary directory below it is used and removed.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

impl EngineArgs {
    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir> {
        Ok(match &self.dir {
            Some(dir) => tempfile::tempdir_in(dir)?,
            None => tempfile::tempdir()?,
        })
    }

    /// An empty report, once it is known that figures can be taken here.
    fn report(&self) -> Result<Report> {
        let dir = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        let mut report = Report::default();
        report.note(format!("stores: below {}, on {}", dir.display(), disk::check(&dir)?));
        if self.quick {
            report.note("quick: few repetitions and small stores, not to be quoted");
        }
        Ok(report)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| part.contains(only.as_str()))
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: What) -> Result<()> {
    match what {
        What::Child(args) => Runtime::new()?.block_on(child::run(args)),
        What::Engine(args) => Runtime::new()?.block_on(engine(&args)),
        What::Postgres(args) => {
            let mut report = args.report()?;
            Runtime::new()?.block_on(postgres::measure(&args, &mut report))?;
            finish(&args, &report)
        }
        What::Http(args) => {
            let mut report = args.report()?;
            clients()?.block_on(http::measure(&args, &mut report))?;
            finish(&args, &report)
        }
        What::Streams(args) => {
            let mut report = args.report()?;
            if args.wants("commits") {
                Runtime::new()?.block_on(counted::measure(&args, &mut report))?;
            }
            if args.wants("bounded") {
                Runtime::new()?.block_on(bounded::measure(&args, &mut report))?;
            }
            clients()?.block_on(streams::measure(&args, &mut report))?;
            finish(&args, &report)
        }
    }
}

/// Where clients run: they make way for the server.
fn clients() -> Result<Runtime> {
    load::step_back();
    Ok(runtime::Builder::new_current_thread().enable_all().build()?)
}

async fn engine(args: &EngineArgs) -> Result<()> {
    let mut report = args.report()?;
    if args.wants("throughput") {
        throughput::measure(args, &mut report, Duration::ZERO, "").await?;
        // Cloud disks take one to three milliseconds for a flush.
        throughput::measure(args, &mut report, Duration::from_millis(2), "_flush2ms").await?;
    }
    if args.wants("peers")
        && let Some(peers) = &args.peers
    {
        throughput::peers(args, &mut report, peers).await?;
    }
    if args.wants("history") {
        history::measure(args, &mut report).await?;
    }
    if args.wants("recover") {
        recover::measure(args, &mut report).await?;
    }
    if args.wants("cross") {
        cross::measure(args, &mut report).await?;
    }
    if args.wants("idle") {
        idle::measure(args, &mut report).await?;
    }
    if args.wants("parked") {
        parked::measure(args, &mut report).await?;
    }
    finish(args, &report)
}

fn finish(args: &EngineArgs, report: &Report) -> Result<()> {
    report.print();
    if let Some(path) = &args.json {
        std::fs::write(path, report.json()?)?;
    }
    report.judge()
}
