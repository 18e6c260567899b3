//! Measures other durable engines on SQLite and on PostgreSQL, each tuned for throughput within what
//! it ships.
//!
//! Durability is left as shipped, neither weaker nor stronger. On SQLite both peers run in WAL mode
//! with `synchronous=NORMAL`, which survives a killed process and not a power cut. That favours
//! them over an engine that runs with `FULL`. On PostgreSQL both leave it to the server.
#![allow(clippy::print_stdout)] // Figures are what it is for.

mod dbos;
mod durare;
mod duroxide;
mod duroxide_pg;
mod load;
mod postgres;
mod rmcp_http;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Parser, ValueEnum};
use load::Load;
use postgres::Place;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Peer {
    Duroxide,
    Durare,
    Dbos,
    DuroxidePg,
    /// All on SQLite, and with a server those on PostgreSQL.
    All,
}

#[derive(Parser)]
#[command(about = "Measures other durable engines, as tasks of three steps a second")]
struct Args {
    /// Whom to measure.
    #[arg(long, value_enum, default_value = "all")]
    peer: Peer,
    /// Serve a trivial tool over HTTP with rmcp, and nothing else.
    #[arg(long)]
    serve_rmcp: bool,
    /// Tasks in flight.
    #[arg(long, default_value_t = 256)]
    at_once: u32,
    /// How long to start tasks for, after a second of warm-up; a slow peer takes longer.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Where the databases of SQLite are; a temporary directory below it is used and removed.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A database on a server of PostgreSQL; each peer uses a schema of its own there, which is
    /// dropped before and after.
    #[arg(
        long,
        value_name = "URL",
        required_if_eq_any([("peer", "dbos"), ("peer", "duroxide-pg")])
    )]
    postgres: Option<String>,
}

impl Args {
    fn wants(&self, peer: Peer) -> bool {
        self.peer == Peer::All || self.peer == peer
    }

    fn scratch(&self) -> Result<tempfile::TempDir> {
        Ok(match &self.dir {
            Some(dir) => tempfile::tempdir_in(dir)?,
            None => tempfile::tempdir()?,
        })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    // Duroxide would otherwise print its warnings to standard output, among the figures.
    tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default())?;

    if args.serve_rmcp {
        return rmcp_http::serve().await;
    }
    let load = Load { at_once: args.at_once, time: Duration::from_secs(args.seconds) };
    let mut figures = BTreeMap::new();
    if args.wants(Peer::Duroxide) {
        eprintln!("duroxide 0.1.32, WAL, synchronous=NORMAL as shipped");
        let dir = args.scratch()?;
        let rate = duroxide::tasks_per_s(&url(dir.path()), load).await?;
        figures.insert("duroxide_tasks_per_s", rate);
    }
    if args.wants(Peer::Durare) {
        eprintln!("durare 0.5.0, WAL, synchronous=NORMAL as shipped");
        let dir = args.scratch()?;
        let rate = durare::tasks_per_s(&url(dir.path()), load).await?;
        figures.insert("durare_tasks_per_s", rate);
    }
    if let Some(url) = &args.postgres {
        if args.wants(Peer::Dbos) {
            eprintln!("dbos 0.5.0, {}", postgres::durability(url).await?);
            let place = Place { url, schema: "peer_dbos" };
            let rate = place.measure(|place| dbos::tasks_per_s(place, load)).await?;
            figures.insert("dbos_tasks_per_s", rate);
        }
        if args.wants(Peer::DuroxidePg) {
            eprintln!("duroxide-pg 0.1.38, {}", postgres::durability(url).await?);
            let place = Place { url, schema: "peer_duroxide" };
            let rate = place.measure(|place| duroxide_pg::tasks_per_s(place, load)).await?;
            figures.insert("duroxide-pg_tasks_per_s", rate);
        }
    }
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

fn url(dir: &Path) -> String {
    format!("sqlite://{}?mode=rwc", dir.join("peer.db").display())
}
