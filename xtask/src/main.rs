//! Everything a developer runs: `cargo xtask --help`.
#![allow(clippy::print_stdout)] // It talks to a person.

mod clients;
mod conformance;
mod mixed;
mod npm;
mod postgres;
mod python;
mod schemas;
mod system;
mod versions;

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
    thread,
    time::Instant,
};

use clap::{Parser, Subcommand};

type Result<T> = std::result::Result<T, String>;

/// Everything a developer runs.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lints, docs, all tests with what the server says in them held against the official
    /// schemas, those of PostgreSQL on its oldest and newest version, a short crash loop, a short chaos run, the conformance suite, clients of others: what
    /// must pass before a change lands.
    Test,
    /// Measures against floors on this machine, in one run.
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
    /// Kills real processes at random and checks every invariant.
    Crash(Crash),
    /// Kills processes of this version and of an earlier one, side by side on one database of PostgreSQL.
    Mixed(mixed::Mixed),
    /// Keeps a database of PostgreSQL with tasks in every state, for later versions to open.
    KeepSchema {
        /// Even if there is one of this version: only before it is released.
        #[arg(long)]
        anew: bool,
    },
    /// Fifty clients of all kinds call a server over a network that breaks, while it is killed every few
    /// seconds; then every call, answer and effect is accounted for. With --replicas it is several servers on
    /// PostgreSQL, which are killed, stopped and cut off in turn.
    Chaos(Chaos),
    /// Runs the public conformance suite of MCP against a server with all its fixtures.
    Conformance,
    /// Sends the front all kinds of nonsense over HTTP and stdio: it must answer and stay.
    Fuzz(Fuzz),
    /// Holds every message that the server sends in its tests against the official schemas of MCP.
    Schemas,
    /// Runs the tests of the store on the oldest and the newest PostgreSQL that it opens, and some older ones
    /// that it must refuse. They come from npm, for Linux.
    PostgresVersions,
    /// Runs clients that others wrote against a server that is killed in the middle.
    Clients {
        /// Only those whose name contains this.
        #[arg(long)]
        only: Option<String>,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// The engine on SQLite.
    Engine(Measure),
    /// The front over HTTP.
    Http(Measure),
    /// The engine on PostgreSQL, a server of its own.
    Postgres(Measure),
    /// Plain calls of durable tools: their commits, streams, and what they leave behind.
    Streams(Measure),
}

#[derive(clap::Args)]
struct Measure {
    /// Fewer repetitions and smaller stores: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// Build and measure the peers as well. Over HTTP that takes Python and Redis, which are installed if
    /// missing, as root on Debian or Ubuntu.
    #[arg(long)]
    peers: bool,
    /// Write the figures as one flat JSON object: under each name its median, and behind a dot its spread,
    /// its bound and whether it was met.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Only the parts whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Where the stores are, which must be a disk: in a directory below it, that is removed [default: the
    /// temporary directory of the system].
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Crash {
    /// How often to kill.
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Fixes the workload and the kill schedule; by chance if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// How many processes share the store at a time.
    #[arg(long, default_value_t = 1)]
    processes: u32,
    /// On PostgreSQL, a server of its own, in place of a SQLite file.
    #[arg(long)]
    postgres: bool,
}

#[derive(clap::Args)]
struct Chaos {
    /// For how long there are faults.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Fixes what clients do, what becomes of connections and when the server dies; by chance if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Three servers, or so many, share a PostgreSQL server that is started for them, in place of one on a
    /// SQLite file. A plain proxy gives each connection to the next of them, and one after the other is
    /// killed, stopped for longer than its lease, cut off from the database, or told to stop.
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, default_missing_value = "3")]
    replicas: Option<u32>,
}

#[derive(clap::Args)]
struct Fuzz {
    /// How many requests.
    #[arg(long, default_value_t = 1_000_000)]
    cases: u32,
    /// Fixes them; by chance if absent.
    #[arg(long)]
    seed: Option<u32>,
}

fn main() -> ExitCode {
    let clock = Instant::now();
    let result = match Cli::parse().task {
        Task::Test => test(),
        Task::Bench { what: Bench::Engine(args) } => bench("engine", args),
        Task::Bench { what: Bench::Http(args) } => bench("http", args),
        Task::Bench { what: Bench::Postgres(args) } => {
            postgres::install().and_then(|()| bench("postgres", args))
        }
        Task::Bench { what: Bench::Streams(args) } => bench("streams", args),
        Task::Crash(args) => crash(&args),
        Task::Mixed(args) => mixed::mixed(&args),
        Task::KeepSchema { anew } => keep_schema(anew),
        Task::Chaos(args) => chaos(&args),
        Task::Conformance => conformance::conformance(),
        Task::Fuzz(args) => fuzz(&args),
        Task::Schemas => schemas::schemas(&schemas::THOSE_THAT_TALK),
        Task::PostgresVersions => versions::versions(),
        Task::Clients { only } => clients::clients(only.as_deref()),
    };
    match result {
        Ok(()) => {
            println!("xtask: all well, after {:.0} s", clock.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root, wherever the command was given.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

fn run(mut command: Command) -> Result<()> {
    println!("xtask: {command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?} can't be run: {error}")),
    }
}

fn test() -> Result<()> {
    run(cargo(&["fmt", "--all", "--check"]))?;
    // What others wrote is fetched while the compiler works.
    thread::scope(|scope| {
        let fetched = scope.spawn(|| {
            postgres::install()?;
            postgres::install_pooler()?;
            versions::install()?;
            schemas::install()?;
            conformance::install()?;
            clients::install()
        });
        run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
        let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
        docs.env("RUSTDOCFLAGS", "-D warnings");
        run(docs)?;
        fetched.join().map_err(|_| "what fetches the programs of others panicked")?
    })?;
    schemas::schemas(&["--workspace", "--no-fail-fast"])?;
    thread::scope(|scope| {
        // They wait for servers most of the time.
        let of_all_versions = scope.spawn(versions::versions);
        // The disk's part beside the network's. The same workload each time, so that a failure can be
        // told from a change; `cargo xtask crash` and `cargo xtask chaos` look further.
        let crashed = scope.spawn(|| {
            crash(&Crash { kills: 60, seed: Some(1), processes: 1, postgres: false })?;
            crash(&Crash { kills: 40, seed: Some(2), processes: 2, postgres: false })?;
            crash(&Crash { kills: 40, seed: Some(3), processes: 3, postgres: true })?;
            chaos(&Chaos { minutes: 0.5, seed: Some(1), replicas: None })?;
            chaos(&Chaos { minutes: 0.75, seed: Some(2), replicas: Some(3) })
        });
        conformance::conformance()?;
        clients::clients(None)?;
        of_all_versions.join().map_err(|_| "the tests of other versions panicked")??;
        crashed.join().map_err(|_| "the crash loop panicked")?
    })
}

/// Where all that is built goes.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

/// Where programs of this profile are built.
fn built(profile: &str, name: &str) -> PathBuf {
    target().join(profile).join(name)
}

/// Builds programs of the workspace. With the features of the whole of it, so that all share their
/// dependencies with the tests.
fn build(programs: &[&str]) -> Result<()> {
    let mut build = cargo(&["build", "--quiet", "--workspace"]);
    for program in programs {
        build.args(["--bin", program]);
    }
    run(build)
}

fn crash(args: &Crash) -> Result<()> {
    if args.postgres {
        postgres::install()?;
    }
    build(&["supervisor", "victim"])?;
    // Two loops at once must not share a place.
    let dir = std::env::temp_dir().join(format!("steadfast-crash-{}", std::process::id()));
    let mut supervisor = Command::new(built("debug", "supervisor"));
    supervisor
        .args(["--kills", &args.kills.to_string(), "--processes", &args.processes.to_string()])
        .arg("--dir")
        .arg(dir);
    if args.postgres {
        supervisor.arg("--postgres");
    }
    if let Some(seed) = args.seed {
        supervisor.args(["--seed", &seed.to_string()]);
    }
    run(supervisor)
}

fn keep_schema(anew: bool) -> Result<()> {
    postgres::install()?;
    build(&["keep"])?;
    let mut keep = Command::new(built("debug", "keep"));
    keep.arg("--dir").arg(root().join("harness/crash/kept"));
    if anew {
        keep.arg("--anew");
    }
    run(keep)
}

fn chaos(args: &Chaos) -> Result<()> {
    if args.replicas.is_some() {
        postgres::install()?;
    }
    build(&["chaos", "chaos-server"])?;
    let dir = std::env::temp_dir().join(format!("steadfast-chaos-{}", std::process::id()));
    let mut chaos = Command::new(built("debug", "chaos"));
    let seconds = (args.minutes * 60.0).round().max(1.0) as u64;
    chaos.args(["--seconds", &seconds.to_string()]).arg("--dir").arg(dir);
    if let Some(seed) = args.seed {
        chaos.args(["--seed", &seed.to_string()]);
    }
    if let Some(replicas) = args.replicas {
        chaos.args(["--replicas", &replicas.to_string()]);
    }
    run(chaos)
}

fn fuzz(args: &Fuzz) -> Result<()> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = args.seed.unwrap_or_else(|| since.map_or(1, |since| since.subsec_nanos()));
    println!("xtask: seed {seed}");
    let mut test = cargo(&["test", "--release", "--package", "steadfast-mcp", "--test", "fuzz"]);
    test.env("FUZZ_CASES", args.cases.to_string()).env("FUZZ_SEED", seed.to_string());
    run(test)
}

fn bench(what: &str, args: Measure) -> Result<()> {
    let Measure { quick, peers, json, only, dir } = args;
    run(cargo(&["build", "--release", "--quiet", "--package", "steadfast-bench"]))?;
    let mut bench = Command::new(built("release", "steadfast-bench"));
    bench.arg(what);
    if quick {
        bench.arg("--quick");
    }
    if let Some(json) = json {
        bench.arg("--json").arg(json);
    }
    if let Some(only) = only {
        bench.args(["--only", &only]);
    }
    if let Some(dir) = dir {
        bench.arg("--dir").arg(dir);
    }
    if peers {
        let dir = root().join("harness/peers");
        let mut build = cargo(&["build", "--release", "--quiet"]);
        build.current_dir(&dir).env_remove("CARGO_TARGET_DIR");
        run(build)?;
        bench.arg("--peers").arg(dir.join("target/release/peers"));
        if what == "http" {
            system::have(&["redis-server", "--version"], &["redis-server"])?;
            let python = python::install(&dir.join("fastmcp/requirements.txt"), "fastmcp")?;
            bench.arg("--fastmcp").arg(python).arg(dir.join("fastmcp/server.py"));
        }
    }
    run(bench)
}
