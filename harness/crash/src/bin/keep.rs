//! Makes a database of PostgreSQL with tasks in every state, to be kept for later versions.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use steadfast_crash::{Ledger, kept};
use steadfast_postgres::testing::{self, Setup};

type Error = Box<dyn std::error::Error>;

/// Makes a database of PostgreSQL with tasks in every state, to be kept for later versions.
#[derive(Parser)]
struct Args {
    /// Where those that are kept lie.
    #[arg(long)]
    dir: PathBuf,
    /// Even if there is one of this version: only as long as nobody else has such tables.
    #[arg(long)]
    anew: bool,
}

#[tokio::main]
#[allow(clippy::print_stdout)]
async fn main() -> Result<(), Error> {
    let args = Args::parse();
    let path = args.dir.join(format!("postgres-{}.sql", testing::schema_version()));
    if path.exists() && !args.anew {
        let path = path.display();
        return Err(format!("{path} is kept already; what was released does not change").into());
    }
    let server = Setup::default().start()?;
    let options = server.options().schema("kept").lease(Duration::from_secs(1));
    let store = Arc::new(options.clone().open().await?);
    let engine = kept::make(store.clone(), &Ledger::in_memory()).await?;
    // As a process that dies.
    store.kill();
    drop(engine);
    // Whose machine it was made on is nobody's business.
    testing::sql(&options, "UPDATE desk SET process = 'host 1'").await?;
    std::fs::write(&path, server.dump("kept")?)?;
    println!("{}", path.display());
    Ok(())
}
