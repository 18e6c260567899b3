//! Kills the workload at random, many times, and then checks every invariant.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use steadfast_crash::{
    Ledger, Place, Rng,
    check::{self, Expect, LostLeases},
    payments,
};

type Error = Box<dyn std::error::Error>;

/// Kills the workload at random, many times, and then checks every invariant.
#[derive(Parser)]
struct Args {
    /// How often to kill.
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Fixes the workload and the kill schedule; by chance if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// New tasks for each life.
    #[arg(long, default_value_t = 30)]
    tasks_per_life: u64,
    /// How many processes share the store at a time.
    #[arg(long, default_value_t = 1)]
    processes: usize,
    /// On a PostgreSQL server that is started for it, in place of a SQLite file.
    #[arg(long)]
    postgres: bool,
    /// The victim of another version, which every other process is then.
    #[arg(long)]
    beside: Option<PathBuf>,
    /// Where to keep store, ledger and logs; they are removed if all is well.
    #[arg(long)]
    dir: PathBuf,
}

struct Run {
    args: Args,
    seed: u64,
    life: u32,
    victim: PathBuf,
    place: Place,
}

impl Run {
    fn spawn(&mut self, finish: bool, tasks: u64) -> Result<Child, Error> {
        self.life += 1;
        let dir = &self.args.dir;
        let log = std::fs::File::create(dir.join(format!("life-{}.log", self.life)))?;
        // The last one is of this version: what it finds is what is checked.
        let other = self.args.beside.as_ref().filter(|_| !finish && self.life.is_multiple_of(2));
        let mut command = Command::new(other.unwrap_or(&self.victim));
        command
            .args(self.place.flags())
            .arg("--ledger")
            .arg(dir.join("ledger"))
            .args(["--life", &self.life.to_string(), "--seed", &self.seed.to_string()])
            .args(["--tasks", &tasks.to_string()])
            .stderr(log)
            .stdout(if finish { Stdio::piped() } else { Stdio::null() });
        if finish {
            command.arg("--finish");
        }
        Ok(command.spawn()?)
    }

    /// Kills one process after the other; says how many died of something else.
    #[allow(clippy::print_stdout)]
    fn kill_many(&mut self) -> Result<Vec<String>, Error> {
        let mut rng = Rng::of(self.seed, 7);
        let mut alive: Vec<Child> = Vec::new();
        let mut wrong = Vec::new();
        for kill in 1..=self.args.kills {
            let tasks = u64::from(kill) * self.args.tasks_per_life;
            while alive.len() < self.args.processes {
                alive.push(self.spawn(false, tasks)?);
            }
            std::thread::sleep(Duration::from_millis(20 + rng.below(230)));
            let index = rng.below(alive.len() as u64) as usize;
            let mut victim = alive.swap_remove(index);
            if let Some(status) = victim.try_wait()? {
                wrong.push(format!("life {} ended by itself: {status}", self.life));
            }
            victim.kill()?;
            victim.wait()?;
            if kill % 50 == 0 {
                println!("{kill} kills");
            }
        }
        for mut left in alive {
            left.kill()?;
            left.wait()?;
        }
        Ok(wrong)
    }

    /// The lives that say that they lost a lease. Another version may not say so, and is taken at its worst.
    fn lost_leases(&self) -> Result<LostLeases, Error> {
        if !self.args.postgres {
            return Ok(LostLeases::Never);
        }
        let mut lost = BTreeSet::new();
        for life in 1..=self.life {
            let log = std::fs::read_to_string(self.args.dir.join(format!("life-{life}.log")))?;
            let other = self.args.beside.is_some() && life.is_multiple_of(2);
            if other || log.contains("was taken for dead") {
                lost.insert(life);
            }
        }
        Ok(LostLeases::In(lost))
    }
}

fn tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

#[allow(clippy::print_stdout)]
fn main() -> Result<ExitCode, Error> {
    let args = Args::parse();
    let clock = Instant::now();
    std::fs::create_dir_all(&args.dir)?;
    let entropy = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
    let seed = args.seed.unwrap_or(entropy as u64);
    let on = if args.postgres { "PostgreSQL" } else { "SQLite" };
    println!("seed {seed}, {} kills, {} process(es) at a time on {on}", args.kills, args.processes);
    let victim = std::env::current_exe()?.with_file_name("victim");
    let tasks = u64::from(args.kills) * args.tasks_per_life;
    // Until the end of it all.
    let server = match args.postgres {
        true => Some(steadfast_postgres::testing::Setup::default().start()?),
        false => None,
    };
    let place = match &server {
        Some(server) => Place { store: server.url(), schema: Some("crash".into()) },
        None => Place::file(&args.dir.join("store.db")),
    };
    let mut run = Run { args, seed, life: 0, victim, place };
    let mut wrong = run.kill_many()?;
    let mut last = run.spawn(true, tasks)?;
    let deadline = Instant::now() + Duration::from_secs(300);
    let status = loop {
        if let Some(status) = last.try_wait()? {
            break Some(status);
        }
        if Instant::now() > deadline {
            last.kill()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let output = String::from_utf8_lossy(&last.wait_with_output()?.stdout).into_owned();
    if !status.is_some_and(|status| status.success()) {
        let log = tail(&run.args.dir.join(format!("life-{}.log", run.life)));
        wrong.push(format!("the last life did not finish ({status:?}): {log}"));
    }
    let entries = Ledger::read(&run.args.dir.join("ledger"))?;
    let counter = output.trim().parse().unwrap_or(u64::MAX);
    let lost_leases = run.lost_leases()?;
    wrong.extend(check::check(&entries, Expect { seed, tasks, counter, lost_leases }));
    let paid = payments::check(&run.place, &entries, tasks / 10);
    wrong.extend(tokio::runtime::Runtime::new()?.block_on(paid)?);
    let effects = entries.iter().filter(|entry| entry.what == "effect").count();
    println!(
        "{tasks} tasks, {effects} effects, {} lives in {:.1} s",
        run.life,
        clock.elapsed().as_secs_f64()
    );
    if wrong.is_empty() {
        std::fs::remove_dir_all(&run.args.dir)?;
        println!("every invariant holds");
        return Ok(ExitCode::SUCCESS);
    }
    for line in wrong.iter().take(20) {
        println!("WRONG: {line}");
    }
    println!("{} in all; store, ledger and logs are in {}", wrong.len(), run.args.dir.display());
    let mut on = if run.args.postgres { " --postgres" } else { "" }.to_owned();
    if let Some(beside) = &run.args.beside {
        on += &format!(" --beside {}", beside.display());
    }
    println!("again with: --seed {seed} --kills {}{on}", run.args.kills);
    Ok(ExitCode::FAILURE)
}
