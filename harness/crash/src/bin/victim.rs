//! A process that runs the workload on a store until it is killed, or done.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use steadfast_crash::{
    At, Bent, Ledger, Place,
    booking::{self, Stop},
    driver::{self, Job},
    everything::{self, Finale},
    payments, workload,
};
use steadfast_engine::{Engine, Principal};

type Error = Box<dyn std::error::Error>;

/// Runs the workload on a store until it is killed, or done.
#[derive(Parser)]
struct Args {
    /// The SQLite file, or the address of PostgreSQL.
    #[arg(long)]
    store: String,
    /// The schema in PostgreSQL.
    #[arg(long)]
    schema: Option<String>,
    /// The ledger.
    #[arg(long)]
    ledger: PathBuf,
    /// Which life this is.
    #[arg(long)]
    life: u32,
    /// Fixes what each task does.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many tasks.
    #[arg(long, default_value_t = 100)]
    tasks: u64,
    /// Go to the end and say the counter's value, instead of waiting to be killed.
    #[arg(long)]
    finish: bool,
    /// Instead of the workload, one task with everything in it: complete, fail or cancelled.
    #[arg(long)]
    everything: Option<String>,
    /// Instead of the workload, one task that books payments in transactions; `--die` counts these.
    #[arg(long)]
    booking: bool,
    /// Abort in a transaction, as in `before-sql:book` or `after-sql:settle`.
    #[arg(long)]
    stop: Option<String>,
    /// Abort before or after a commit, as in `before:12`.
    #[arg(long)]
    die: Option<String>,
    /// On PostgreSQL, write whether the lease holds or not: to show that it would be seen.
    #[arg(long)]
    undead: bool,
}

#[tokio::main]
#[allow(clippy::print_stdout)] // What it prints is what the supervisor reads.
async fn main() -> Result<(), Error> {
    let args = Args::parse();
    // Whoever checks what was done wants to know who lost a lease.
    let log =
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN);
    log.with_ansi(false).with_writer(std::io::stderr).init();
    if args.undead {
        steadfast_postgres::mutants::undie();
    }
    let past = if args.ledger.exists() { Ledger::read(&args.ledger)? } else { Vec::new() };
    let ledger = Ledger::in_file(&args.ledger, args.life)?;
    let place = Place { store: args.store.clone(), schema: args.schema.clone() };
    let inner = place.open().await.map_err(|error| error.to_string())?;
    let mut bent = Bent::new(inner.clone());
    if let Some((number, at)) = args.die.as_deref().and_then(death) {
        bent = bent.dying(number, at, || std::process::abort());
        if args.booking {
            bent = bent.at_work();
        }
    }
    let store = Arc::new(bent);
    let builder = Engine::builder(store.clone());
    if args.booking {
        let stop = args.stop.as_deref().and_then(stop);
        let engine = booking::tools(builder, &ledger, &place, stop).start();
        let end = booking::play(&engine.tasks(Principal::new("ada")?)).await?;
        engine.shutdown(Duration::from_secs(5)).await;
        let output = end.output.as_ref().map_or("-", |output| output.text());
        println!("{} {} {output}", store.commits(), end.status);
        return Ok(());
    }
    if let Some(finale) = args.everything.as_deref().and_then(finale) {
        let engine = everything::tools(builder, &ledger).start();
        let tasks = engine.tasks(Principal::new("ada")?);
        let end = everything::play(&tasks, finale).await?;
        let end = tasks
            .wait_for(&end.id, |info| {
                use steadfast_engine::Compensation as C;
                finale == Finale::Complete
                    || matches!(info.compensation, Some(C::Done | C::Failed { .. }))
            })
            .await?;
        engine.shutdown(Duration::from_secs(5)).await;
        let output = end.output.as_ref().map_or("-", |output| output.text());
        println!("{} {} {output}", store.commits(), end.status);
        return Ok(());
    }
    payments::make_tables(&place).await?;
    let builder = payments::tools(workload::tools(builder, &ledger), &ledger, &place);
    let engine = builder.start();
    let tasks = engine.tasks(Principal::new("ada")?);
    let mut job = Job::new(args.seed, args.tasks, 64, &past);
    job.look_again = if args.finish { 100 } else { 2 };
    tokio::join!(
        driver::drive(&tasks, &ledger, &job),
        payments::drive(&tasks, &ledger, args.tasks / 10, &job.ended)
    );
    if !args.finish {
        std::future::pending::<()>().await;
    }
    let row = inner.state("global".into(), "count".into()).await?;
    engine.shutdown(Duration::from_secs(5)).await;
    println!(
        "{}",
        row.value.map_or_else(|| "0".into(), |v| String::from_utf8_lossy(&v).into_owned())
    );
    Ok(())
}

fn death(text: &str) -> Option<(u64, At)> {
    let (side, number) = text.split_once(':')?;
    let at = if side == "before" { At::Before } else { At::After };
    Some((number.parse().ok()?, at))
}

fn stop(text: &str) -> Option<(Stop, String)> {
    let (side, name) = text.split_once(':')?;
    let stop = if side == "before-sql" { Stop::BeforeSql } else { Stop::AfterSql };
    Some((stop, name.into()))
}

fn finale(text: &str) -> Option<Finale> {
    match text {
        "complete" => Some(Finale::Complete),
        "fail" => Some(Finale::Fail),
        "cancelled" => Some(Finale::Cancelled),
        _ => None,
    }
}
