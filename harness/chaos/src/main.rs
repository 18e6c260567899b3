//! Fifty clients of all kinds call a server through a network that breaks, while the server is killed
//! every few seconds. When all is calm again, what clients saw, what the tools really did, what is in the
//! store and who held which task are held against each other.
//!
//! The server is one process on a SQLite file; or several on a database of PostgreSQL, behind a proxy that
//! gives each connection to the next of them, and one after the other is killed, stopped, or cut off from
//! the database.
#![allow(clippy::print_stdout)] // It talks to a person.

mod book;
mod check;
mod clients;
mod gate;
mod lives;
mod process;
mod proxy;
mod replicas;
mod report;
mod store;
mod wire;
mod world;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use tokio::{net::TcpListener, time::sleep};

use check::{Case, Effect};
use lives::TakeUps;
use process::Process;
use replicas::Replica;
use report::Row;
use steadfast_postgres::testing::Setup;
use world::World;

type Error = Box<dyn std::error::Error>;

/// Fifty clients, a network that breaks, and a server that is killed.
#[derive(Parser)]
struct Args {
    /// For how long there are faults.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Fixes what clients do, what becomes of connections and when the server dies; by chance if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// So many processes of the server on a PostgreSQL server that is started for them, in place of one on
    /// a SQLite file.
    #[arg(long)]
    replicas: Option<usize>,
    /// Where to keep store, effects and logs; they are removed if all is well.
    #[arg(long)]
    dir: PathBuf,
    /// Is wrong on purpose, to show that it would be seen.
    #[arg(long, hide = true)]
    mutant: Option<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    let args = Args::parse();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let seed = args.seed.unwrap_or(u64::from(now.subsec_nanos()));
    let servers = match args.replicas {
        Some(count) => format!("{count} replicas on PostgreSQL"),
        None => "one server on SQLite".into(),
    };
    println!("chaos: seed {seed}, {} s, {servers}", args.seconds);
    let _ = std::fs::remove_dir_all(&args.dir);
    std::fs::create_dir_all(&args.dir)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let program = std::env::current_exe()?.with_file_name("chaos-server");
    let database = match args.replicas {
        Some(_) => Some(tokio::task::block_in_place(|| Setup::default().start())?),
        None => None,
    };
    let (proxy, mutant) = (listener.local_addr()?, args.mutant.clone());
    let world = Arc::new(World::new(seed, proxy, args.dir.clone(), program, mutant, database));
    let servers = run(&world, listener, &args).await?;
    let tasks = store::settled(&world).await?;
    drop(servers);
    let wrong = judge(&world, &tasks)?;
    if wrong == 0 {
        println!("chaos: all well");
        std::fs::remove_dir_all(&args.dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    println!("chaos: {wrong} calls or more are wrong, with seed {seed}; see {:?}", args.dir);
    Ok(ExitCode::FAILURE)
}

/// The processes that serve to the end: dropped, they are killed.
enum Servers {
    One(#[allow(dead_code)] Process),
    Several(#[allow(dead_code)] Vec<Replica>),
}

/// Faults for so long, and then calm until every client has seen its last call through.
async fn run(world: &Arc<World>, listener: TcpListener, args: &Args) -> Result<Servers, Error> {
    let long = Duration::from_secs(args.seconds);
    tokio::spawn(proxy::run(world.clone(), listener));
    let (tormented, count) = (world.clone(), args.replicas);
    let servers = tokio::spawn(async move {
        match count {
            None => process::torment(tormented).await.map(Servers::One),
            Some(count) => replicas::torment(tormented, count).await.map(Servers::Several),
        }
    });
    let mut clients = clients::start(world);
    let begun = Instant::now();
    while begun.elapsed() < long {
        sleep(Duration::from_secs(5).min(long - begun.elapsed())).await;
        progress(world, begun);
    }
    world.calm_down();
    let servers = servers.await?.ok_or("the server could not be started")?;
    let all = async { while clients.join_next().await.is_some() {} };
    if tokio::time::timeout(world.patience(), all).await.is_err() {
        world.wrong("some clients wait for ever".into());
        clients.abort_all();
    }
    Ok(servers)
}

fn progress(world: &World, begun: Instant) {
    let (calls, answered) = {
        let calls = world.book.calls();
        (calls.len(), calls.values().filter(|call| !call.answers.is_empty()).count())
    };
    println!(
        "chaos: {:>3} s: {calls} calls, {answered} answered, {} kills, {} stops, {} stalls, {} cuts, \
         {} faults in {} connections",
        begun.elapsed().as_secs(),
        world.kills.load(Ordering::Relaxed),
        world.stops.load(Ordering::Relaxed),
        world.stalls.load(Ordering::Relaxed),
        world.cuts.load(Ordering::Relaxed),
        world.faults.load(Ordering::Relaxed),
        world.connections.load(Ordering::Relaxed),
    );
}

/// Holds all that is known against what may be. How much is wrong.
fn judge(world: &World, tasks: &BTreeMap<u64, Vec<store::Task>>) -> Result<usize, Error> {
    let mut effects: BTreeMap<u64, Vec<Effect>> = BTreeMap::new();
    let lines = std::fs::read_to_string(world.effects()).unwrap_or_default();
    let mut last = 0;
    for line in lines.lines() {
        let mut effect = Effect::read(line).ok_or_else(|| format!("the effect {line:?}"))?;
        // One that was stopped between its look at the clock and its effect came behind those before it.
        effect.at = effect.at.max(last);
        last = effect.at;
        effects.entry(effect.number).or_default().push(effect);
    }
    let mut others = world.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let take_ups = TakeUps::read(&world.dir, &mut others)?;
    let (calls, lives) = (world.book.calls(), &world.lives_of);
    let (mut rows, mut count): (BTreeMap<String, Row>, usize) = Default::default();
    for (number, call) in calls.iter() {
        let tasks = tasks.get(number).map_or(&[][..], Vec::as_slice);
        let effects = effects.get(number).map_or(&[][..], Vec::as_slice);
        let case = Case { number: *number, call, tasks, effects, lives, take_ups: &take_ups };
        rows.entry(call.kind.name()).or_default().add(&case);
        let wrong = case.check();
        if wrong.is_empty() {
            continue;
        }
        count += 1;
        // The first few tell as much as all.
        if count <= 5 {
            println!("WRONG, with seed {}: {}", world.seed, wrong.join("; "));
            report::story(&case);
        }
    }
    let strange = tasks.keys().filter(|number| !calls.contains_key(number));
    others.extend(strange.map(|number| format!("there is a task of the unknown call {number}")));
    let sum = report::table(&rows);
    let (count_of, moves) = (take_ups.count(), take_ups.moves());
    println!("chaos: tasks were taken up {count_of} times, {moves} times after another process");
    if moves == 0 {
        others.push("no task went from one process to another, so nothing was tried".into());
    }
    others.extend(panics(world)?);
    let in_vain = |(name, row): &(&String, &Row)| {
        // Who takes calls back need not wait for an answer.
        row.answered == 0 && !(name.ends_with("cancels") && row.taken_back > 0)
    };
    for (name, _) in rows.iter().filter(in_vain) {
        others.push(format!("no call of {name} was answered, so nothing was tried"));
    }
    if sum.taken_back == 0 || sum.resumes == 0 {
        others.push("nothing was taken back or taken up, so nothing was tried".into());
    }
    for other in &others {
        println!("WRONG, with seed {}: {other}", world.seed);
    }
    Ok(count + others.len())
}

/// Panics in the logs of the server.
fn panics(world: &World) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&world.dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            let panic = text.lines().find(|line| line.contains("panicked"));
            found.extend(panic.map(|line| format!("{path:?}: {line}")));
        }
    }
    Ok(found)
}
