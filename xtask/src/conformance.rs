//! The public conformance suite of MCP, against the fixture server in `harness/conformance`.
//!
//! That the suite ends well proves little: it does so as well when a scenario does not apply, or checks
//! nothing. So what counts is what it wrote down: every scenario has run in one of the runs or is listed
//! with the reason why not, no check failed, warned, or was skipped for another reason, and no fewer
//! passed than the last time somebody looked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{Result, build, built, npm, root};

/// A run of the suite, and how many checks passed when it was last looked at.
struct Run {
    name: &'static str,
    args: &'static [&'static str],
    least: usize,
}

const RUNS: [Run; 3] = [
    Run {
        name: "2025-11-25",
        args: &["--suite", "all", "--spec-version", "2025-11-25"],
        least: 83,
    },
    Run {
        name: "2026-07-28",
        args: &["--suite", "all", "--spec-version", "2026-07-28"],
        least: 152,
    },
    Run { name: "required by 2026-07-28", args: &["--requirements", "2026-07-28"], least: 196 },
];

/// The scenarios of the Tasks extension belong to no suite, and run one by one.
const TASKS: Run = Run { name: "tasks", args: &[], least: 44 };
const TASKS_PREFIX: &str = "tasks-";

/// The suite's own check of everything it sees on the wire against the schema of the revision.
const WIRE: &str = "wire-schema-valid";

/// What does not apply, by scenario, with the reason.
type NotApplicable = BTreeMap<String, String>;

/// Fetches the suite.
pub(crate) fn install() -> Result<PathBuf> {
    npm::install(&root().join("harness/conformance"), "conformance")
}

pub(crate) fn conformance() -> Result<()> {
    let place = install()?;
    build(&["conformance-server"])?;
    let suite = Suite::new(place)?;
    let path = root().join("harness/conformance/not-applicable.json");
    let not_applicable: NotApplicable = read_json(&path)?;

    let scenarios = suite.scenarios()?;
    let mut reports = Vec::new();
    for run in &RUNS {
        reports.push(suite.run(run, &[run.args.to_vec()])?);
    }
    let tasks = scenarios.iter().filter(|name| name.starts_with(TASKS_PREFIX));
    let tasks: Vec<Vec<&str>> = tasks.map(|name| vec!["--scenario", name.as_str()]).collect();
    reports.push(suite.run(&TASKS, &tasks)?);

    show(&reports, &not_applicable);
    let wrong = judge(&reports, &scenarios, &not_applicable);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("conformance:\n  {}", wrong.join("\n  "))),
    }
}

/// The installed suite.
struct Suite {
    node: PathBuf,
    program: PathBuf,
    results: PathBuf,
}

impl Suite {
    fn new(place: PathBuf) -> Result<Suite> {
        let modules = place.join("node_modules");
        let suite = Suite {
            node: modules.join("node/bin/node"),
            program: modules.join("@modelcontextprotocol/conformance/dist/index.js"),
            results: place.join("results"),
        };
        if suite.results.exists() {
            let emptied = fs::remove_dir_all(&suite.results);
            emptied.map_err(|error| format!("the old results can't be removed: {error}"))?;
        }
        Ok(suite)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(&self.program).args(args);
        command
    }

    /// All that it has for servers.
    fn scenarios(&self) -> Result<BTreeSet<String>> {
        let listed = self.command(&["list", "--server"]).output();
        let listed = listed.map_err(|error| format!("the suite can't be run: {error}"))?;
        let text = String::from_utf8_lossy(&listed.stdout);
        let names = text.lines().filter_map(|line| {
            line.trim_start().strip_prefix("- ")?.split_whitespace().next().map(str::to_owned)
        });
        let names: BTreeSet<String> = names.collect();
        match names.is_empty() {
            true => Err(format!("the suite lists no scenarios: {text}")),
            false => Ok(names),
        }
    }

    /// Runs it against a server of its own, once for each list of arguments.
    fn run(&self, run: &'static Run, calls: &[Vec<&str>]) -> Result<Report> {
        println!("xtask: conformance, {}", run.name);
        let server = Server::start()?;
        let results = self.results.join(run.name);
        let mut report = Report { run, ended_badly: false, checks: Vec::new() };
        for args in calls {
            let mut command = self.command(&["server", "--url", &server.url]);
            // What it says is in the results as well.
            command.args(args).arg("--output-dir").arg(&results).stdout(Stdio::null());
            let status = command.stderr(Stdio::null()).status();
            let status = status.map_err(|error| format!("{command:?} can't be run: {error}"))?;
            report.ended_badly |= !status.success();
        }
        report.checks = read_checks(&results)?;
        Ok(report)
    }
}

/// The fixture server. It is killed when this is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Result<Server> {
        let mut command = Command::new(built("debug", "conformance-server"));
        let process = command.stdout(Stdio::piped()).spawn();
        let process = process.map_err(|error| format!("{command:?} can't be run: {error}"))?;
        let mut server = Server { process, url: String::new() };
        let output = server.process.stdout.take().ok_or("the server has no output")?;
        let read = BufReader::new(output).read_line(&mut server.url);
        server.url.truncate(server.url.trim_end().len());
        match read {
            Ok(_) if server.url.starts_with("http://") => Ok(server),
            _ => Err(format!("the server said {:?} in place of its address", server.url)),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What came out of a run.
struct Report {
    run: &'static Run,
    ended_badly: bool,
    checks: Vec<Check>,
}

struct Check {
    scenario: String,
    id: String,
    status: String,
    message: String,
}

impl Report {
    fn with<'a>(&'a self, status: &'a str) -> impl Iterator<Item = &'a Check> {
        self.checks.iter().filter(move |check| check.status == status)
    }
}

/// All checks below a directory, which has one of its own for each scenario.
fn read_checks(results: &Path) -> Result<Vec<Check>> {
    let unreadable = |error| format!("{} can't be read: {error}", results.display());
    let mut checks = Vec::new();
    for entry in fs::read_dir(results).map_err(unreadable)? {
        let dir = entry.map_err(unreadable)?.path();
        let scenario = scenario_of(&dir).ok_or_else(|| format!("what is {}?", dir.display()))?;
        let found: Vec<Value> = read_json(&dir.join("checks.json"))?;
        checks.extend(found.iter().map(|check| {
            let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            let (id, status) = (text("id"), text("status"));
            Check { scenario: scenario.clone(), id, status, message: text("errorMessage") }
        }));
    }
    Ok(checks)
}

/// The scenario of a directory that is named `server-<scenario>-<time>`.
fn scenario_of(dir: &Path) -> Option<String> {
    let name = dir.file_name()?.to_str()?.strip_prefix("server-")?;
    let time = "-2026-07-28T00-00-00-000Z".len();
    Some(name.get(..name.len().checked_sub(time)?)?.to_owned())
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let wrong = |error: String| format!("{} can't be read: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

fn show(reports: &[Report], not_applicable: &NotApplicable) {
    println!(
        "\n{:<24} {:>9} {:>7} {:>7} {:>8} {:>8}",
        "run", "scenarios", "passed", "failed", "warnings", "skipped"
    );
    for report in reports {
        let scenarios: BTreeSet<&str> =
            report.checks.iter().map(|check| check.scenario.as_str()).collect();
        let count = |status| report.with(status).count();
        println!(
            "{:<24} {:>9} {:>7} {:>7} {:>8} {:>8}",
            report.run.name,
            scenarios.len(),
            count("SUCCESS"),
            count("FAILURE"),
            count("WARNING"),
            count("SKIPPED"),
        );
    }
    println!("\nnot applicable:");
    for (scenario, reason) in not_applicable {
        println!("  {scenario}: {reason}");
    }
    println!();
}

/// Everything that is not as it should be.
fn judge(
    reports: &[Report],
    scenarios: &BTreeSet<String>,
    not_applicable: &NotApplicable,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut passed = BTreeSet::new();
    for report in reports {
        let name = report.run.name;
        passed.extend(report.with("SUCCESS").map(|check| check.scenario.as_str()));
        for check in &report.checks {
            let Check { scenario, id, status, message } = check;
            match status.as_str() {
                "SUCCESS" | "INFO" => {}
                "SKIPPED" if not_applicable.contains_key(scenario) => {}
                _ => wrong.push(format!("{name}: {scenario}: {id}: {status} {message}")),
            }
        }
        let count = report.with("SUCCESS").count();
        if count < report.run.least {
            wrong.push(format!("{name}: only {count} checks passed of {}", report.run.least));
        }
        if !report.with("SUCCESS").any(|check| check.id == WIRE) {
            wrong.push(format!("{name}: nobody looked at the wire ({WIRE})"));
        }
        if report.ended_badly {
            wrong.push(format!("{name}: the suite ended with an error"));
        }
    }
    for scenario in scenarios {
        match (passed.contains(scenario.as_str()), not_applicable.contains_key(scenario)) {
            (false, false) => wrong.push(format!("{scenario}: nothing of it passed")),
            (true, true) => wrong.push(format!("{scenario}: it applies, although listed as not")),
            _ => {}
        }
    }
    let unknown = not_applicable.keys().filter(|name| !scenarios.contains(*name));
    wrong.extend(unknown.map(|name| format!("{name}: listed as not applicable, and not there")));
    wrong
}
