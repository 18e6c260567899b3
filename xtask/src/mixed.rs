//! Two versions on one database.

use std::{path::PathBuf, process::Command};

use crate::{Result, build, built, postgres, root, run, target};

#[derive(clap::Args)]
pub(crate) struct Mixed {
    /// The other version: a revision of this repository, or a `victim` that was built of it.
    #[arg(long)]
    from: String,
    /// How often to kill.
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Fixes the workload and the kill schedule; by chance if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// How many processes share the database at a time.
    #[arg(long, default_value_t = 4)]
    processes: u32,
}

pub(crate) fn mixed(args: &Mixed) -> Result<()> {
    postgres::install()?;
    let other = other(&args.from)?;
    build(&["supervisor", "victim"])?;
    let dir = std::env::temp_dir().join(format!("steadfast-mixed-{}", std::process::id()));
    let mut supervisor = Command::new(built("debug", "supervisor"));
    supervisor
        .args(["--postgres", "--kills", &args.kills.to_string()])
        .args(["--processes", &args.processes.to_string()])
        .arg("--beside")
        .arg(other)
        .arg("--dir")
        .arg(dir);
    if let Some(seed) = args.seed {
        supervisor.args(["--seed", &seed.to_string()]);
    }
    run(supervisor)
}

/// The victim of the other version: as it is given, or built in a worktree of its own. What is built is
/// left for the next time, beside what is built of this version.
fn other(from: &str) -> Result<PathBuf> {
    let given = PathBuf::from(from);
    if given.is_file() {
        return given.canonicalize().map_err(|error| format!("{from}: {error}"));
    }
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(args).current_dir(root());
        git
    };
    let named = git(&["rev-parse", "--verify", "--quiet", &format!("{from}^{{commit}}")]).output();
    let named = named.map_err(|error| format!("git can't be run: {error}"))?;
    if !named.status.success() {
        return Err(format!("{from} is neither a file nor a revision of this repository"));
    }
    let commit = String::from_utf8_lossy(&named.stdout).trim().to_owned();
    let place = target().join("mixed").join(&commit);
    if !place.is_dir() {
        let mut add = git(&["worktree", "add", "--force", "--detach"]);
        add.arg(&place).arg(&commit);
        run(add)?;
    }
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    let built = place.join("target");
    cargo.args(["build", "--quiet", "--package", "steadfast-crash", "--bin", "victim"]);
    cargo.current_dir(&place).env("CARGO_TARGET_DIR", &built);
    run(cargo)?;
    Ok(built.join("debug").join("victim"))
}
