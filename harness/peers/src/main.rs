mod durare;
mod duroxide;
mod load;

use std::{path::{Path, PathBuf}, time::Duration};

use clap::{Parser, ValueEnum};
use load::Load;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Peer { Duroxide, Durare, All }

#[derive(Parser)]
struct Args {
    #[arg(long, value_enum, default_value = "all")]
    peer: Peer,
    #[arg(long, default_value_t = 256)]
    at_once: usize,
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    #[arg(long)]
    dir: Option<PathBuf>,
}

fn scratch(dir: Option<&Path>) -> std::io::Result<tempfile::TempDir> {
    dir.map_or_else(tempfile::tempdir, tempfile::tempdir_in)
}

#[tokio::main]
async fn main() -> Result<()> {
    if std::env::var("LOG").is_err() { tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default())?; }
    let args = Args::parse();
    let load = Load { at_once: args.at_once, time: Duration::from_secs_f64(args.seconds) };
    let mut figures = serde_json::Map::new();
    if args.peer != Peer::Durare {
        let dir = scratch(args.dir.as_deref())?;
        let r = duroxide::tasks_per_s(&dir.path().join("duroxide.db"), load).await?;
        figures.insert("duroxide_tasks_per_s".into(), r.into());
    }
    if args.peer != Peer::Duroxide {
        let dir = scratch(args.dir.as_deref())?;
        let r = durare::tasks_per_s(&dir.path().join("durare.db"), load).await?;
        figures.insert("durare_tasks_per_s".into(), r.into());
    }
    println!("{}", serde_json::Value::Object(figures));
    Ok(())
}
