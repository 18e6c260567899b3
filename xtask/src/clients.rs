//! Clients that others wrote, against the server in `harness/clients`, over HTTP and stdio.
//!
//! Each client has a program there that does what `contract.mjs` describes. First it does everything
//! once. Then it begins an order and is told its question: server and client are killed, and a new
//! process of the client finishes the order on a new server with the same store. At last it calls without
//! tasks, and the server is killed in the middle: the client takes up the streams of its calls, and so
//! does another process in its place. What the tools did is counted in a file.

mod process;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::process::{Running, Server, kill};
use crate::{Result, build, built, npm, python, root, target};

const OLD: &str = "2025-11-25";
const NEW: &str = "2026-07-28";

/// An address that is free.
const ANYWHERE: &str = "127.0.0.1:0";

/// A client, in a generation of the protocol.
struct Client {
    name: &'static str,
    generation: &'static str,
    /// Whether it knows tasks of this generation.
    tasks: bool,
    plain: Plain,
    /// What it can't do, and is not asked for.
    lacks: &'static str,
    program: fn(&Installed) -> Vec<OsString>,
}

/// What is tried of a client's calls without tasks when their server is killed.
#[derive(Clone, Copy)]
enum Plain {
    /// Nothing.
    No,
    /// They fail: this generation has no way to take them up.
    Lost,
    /// The process that made them takes them up.
    Stays,
    /// That, and another process does.
    Returns,
}

const CLIENTS: [Client; 11] = [
    Client {
        name: "ext-tasks 0.2.2, client 2.4",
        generation: NEW,
        tasks: true,
        plain: Plain::No,
        lacks: "",
        program: |at| at.node("ext-tasks.mjs"),
    },
    Client {
        name: "ext-tasks 0.2.2, client 2.4",
        generation: OLD,
        tasks: true,
        plain: Plain::No,
        lacks: "",
        program: |at| at.node("ext-tasks.mjs"),
    },
    Client {
        name: "client 2.4 (TypeScript)",
        generation: NEW,
        tasks: false,
        plain: Plain::Lost,
        lacks: "",
        program: |at| at.node("client-2.mjs"),
    },
    Client {
        name: "client 2.4 (TypeScript)",
        generation: OLD,
        tasks: false,
        plain: Plain::Returns,
        lacks: "tasks of its own; numbers of more than 53 bits; saying where it is in a stream that \
                it took up",
        program: |at| at.node("client-2.mjs"),
    },
    Client {
        name: "sdk 1.32 (TypeScript)",
        generation: OLD,
        tasks: true,
        plain: Plain::Returns,
        lacks: "numbers of more than 53 bits; saying where it is in a stream that it took up",
        program: |at| at.node("sdk-1.mjs"),
    },
    Client {
        name: "mcp 1.30 (Python)",
        generation: OLD,
        tasks: true,
        plain: Plain::Returns,
        lacks: "looking at a task while it asks its user; taking up a session, but by its headers",
        program: |at| vec![at.mcp.clone().into(), at.scripts.join("python-mcp.py").into()],
    },
    Client {
        name: "fastmcp 4.1.2",
        generation: NEW,
        tasks: true,
        plain: Plain::Lost,
        lacks: "taking up a task by its id: the handle is made by hand",
        program: |at| vec![at.fastmcp.clone().into(), at.scripts.join("fastmcp-4.py").into()],
    },
    Client {
        name: "rmcp 3.8",
        generation: NEW,
        tasks: true,
        plain: Plain::Lost,
        lacks: "",
        program: |_| vec![built("debug", "rmcp-client").into()],
    },
    Client {
        name: "rmcp 3.8",
        generation: OLD,
        tasks: false,
        plain: Plain::Stays,
        lacks: "tasks of 2025-11-25; taking up a session in another process: its transport begins \
                with initialize, and does not say where its streams are",
        program: |_| vec![built("debug", "rmcp-client").into()],
    },
    Client {
        name: "mcpdo (Inspector 2.12)",
        generation: NEW,
        tasks: true,
        plain: Plain::No,
        lacks: "saying which task a call became: another connection lists it",
        program: |at| at.node("mcpdo.mjs"),
    },
    Client {
        name: "mcpdo (Inspector 2.12)",
        generation: OLD,
        tasks: true,
        plain: Plain::No,
        lacks: "",
        program: |at| at.node("mcpdo.mjs"),
    },
];

/// Fetches the clients.
pub(crate) fn install() -> Result<()> {
    Installed::new().map(drop)
}

pub(crate) fn clients(only: Option<&str>) -> Result<()> {
    let chosen = CLIENTS.iter().filter(|client| only.is_none_or(|part| client.name.contains(part)));
    let chosen: Vec<&Client> = chosen.collect();
    if chosen.is_empty() {
        return Err(format!("there is no client {}", only.unwrap_or_default()));
    }
    let installed = Installed::new()?;
    build(&["clients-server", "rmcp-client"])?;

    println!(
        "\n{:<28} {:<10} {:<6} {:<8} {:<8} {:<8} {:>5}",
        "client", "generation", "over", "whole", "killed", "plain", "s"
    );
    // Two at a time: those of the Inspector take as long as all the others.
    let (inspector, others): (Vec<&Client>, Vec<&Client>) =
        chosen.into_iter().partition(|client| client.name.starts_with("mcpdo"));
    let wrong = thread::scope(|scope| {
        let first = scope.spawn(|| try_all(&inspector, &installed));
        let mut wrong = try_all(&others, &installed)?;
        wrong.extend(first.join().map_err(|_| "a client's runner panicked")??);
        Ok::<_, String>(wrong)
    })?;
    println!(
        "\nplain calls over a kill are taken up by another process as well (passed), or only by the"
    );
    println!("one that made them (stays), or fail, as 2026-07-28 has it (lost)");
    println!("\nnot asked for, because the client can't:");
    for client in CLIENTS.iter().filter(|client| !client.lacks.is_empty()) {
        println!("  {}: {}", client.name, client.lacks);
    }
    println!();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("clients:\n  {}", wrong.join("\n  "))),
    }
}

/// Tries clients one after the other, over each transport; what went wrong.
fn try_all(clients: &[&Client], installed: &Installed) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for client in clients {
        // What is done without tasks is only done over HTTP.
        for &over in if client.tasks { &["http", "stdio"][..] } else { &["http"] } {
            let clock = Instant::now();
            let case = Case::new(client, over, installed)?;
            let outcomes = [case.whole(), case.killed(), case.plain()];
            let shown = outcomes.each_ref().map(|outcome| match outcome {
                Ok(shown) => shown,
                Err(_) => "FAILED",
            });
            println!(
                "{:<28} {:<10} {over:<6} {:<8} {:<8} {:<8} {:>5.1}",
                client.name,
                client.generation,
                shown[0],
                shown[1],
                shown[2],
                clock.elapsed().as_secs_f64()
            );
            let named = |error| format!("{}, {}, {over}: {error}", client.name, client.generation);
            wrong.extend(outcomes.into_iter().filter_map(|outcome| outcome.err().map(named)));
        }
    }
    Ok(wrong)
}

/// Where everything is.
struct Installed {
    node: PathBuf,
    mcp: PathBuf,
    fastmcp: PathBuf,
    /// The scripts, where they find their modules.
    scripts: PathBuf,
}

impl Installed {
    fn new() -> Result<Installed> {
        let from = root().join("harness/clients");
        let scripts = npm::install(&from, "clients")?;
        let failed = |error| format!("{} can't be prepared: {error}", scripts.display());
        for file in fs::read_dir(&from).map_err(failed)? {
            let file = file.map_err(failed)?.path();
            let script = file.extension().is_some_and(|kind| kind == "mjs" || kind == "py");
            if let (true, Some(name)) = (script, file.file_name()) {
                fs::copy(&file, scripts.join(name)).map_err(failed)?;
            }
        }
        Ok(Installed {
            node: scripts.join("node_modules/node/bin/node"),
            mcp: python::install(&from.join("python-mcp.txt"), "clients-python-mcp")?,
            fastmcp: python::install(&from.join("fastmcp-4.txt"), "clients-fastmcp-4")?,
            scripts,
        })
    }

    fn node(&self, script: &str) -> Vec<OsString> {
        vec![self.node.clone().into(), self.scripts.join(script).into()]
    }
}

/// A client over a transport, with a place of its own.
struct Case<'a> {
    client: &'a Client,
    over: &'static str,
    installed: &'a Installed,
    dir: PathBuf,
}

impl Case<'_> {
    fn new<'a>(
        client: &'a Client,
        over: &'static str,
        installed: &'a Installed,
    ) -> Result<Case<'a>> {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = client.name.chars().map(plain).collect();
        let dir =
            target().join("clients/cases").join(format!("{name}-{}-{over}", client.generation));
        let failed = |error| format!("{} can't be made: {error}", dir.display());
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(failed)?;
        }
        fs::create_dir_all(&dir).map_err(failed)?;
        Ok(Case { client, over, installed, dir })
    }

    /// Everything, on one server. It gives a word for the table, as all of these do.
    fn whole(&self) -> Result<&'static str> {
        if !self.client.tasks {
            return Ok("-");
        }
        let (_server, target) = self.server(ANYWHERE)?;
        self.run("whole", &target, None)?.wait()?;
        self.effects(&["fails whole", "quick whole", "reserve whole", "ship whole"])?;
        Ok("passed")
    }

    /// An order, with a kill of both sides while it asks.
    fn killed(&self) -> Result<&'static str> {
        if !self.client.tasks {
            return Ok("-");
        }
        fs::remove_file(self.dir.join("effects")).ok();
        let (server, target) = self.server(ANYWHERE)?;
        let begun = self.run("begin", &target, None)?;
        let asked = begun.asked()?;
        self.effects(&["reserve killed"])?;
        // Over stdio only the server itself knows its number.
        let pid = fs::read_to_string(self.dir.join("pid")).map_err(|error| error.to_string())?;
        kill(&pid)?;
        drop((begun, server));

        let (_server, target) = self.server(ANYWHERE)?;
        self.run("finish", &target, asked["task"].as_str())?.wait()?;
        self.effects(&["reserve killed", "ship killed"])?;
        Ok("passed")
    }

    /// Calls without tasks, with a kill in the middle.
    fn plain(&self) -> Result<&'static str> {
        if self.over != "http" {
            return Ok("-");
        }
        match self.client.plain {
            Plain::No => Ok("-"),
            Plain::Lost => self.lost().map(|()| "lost"),
            Plain::Stays => self.stays().map(|()| "stays"),
            Plain::Returns => {
                self.stays()?;
                self.returns().map(|()| "passed")
            }
        }
    }

    /// Two calls, with a kill of the server while one sleeps and the other asks.
    fn stays(&self) -> Result<()> {
        fs::remove_file(self.dir.join("effects")).ok();
        let (server, target) = self.server(ANYWHERE)?;
        let mut client = self.run("stays", &target, None)?;
        client.asked()?;
        self.effects(&["lie-down stays", "pack stays"])?;
        drop(server);

        // Where the client looks for it.
        let url = target["url"].as_str().unwrap_or_default();
        let address = url.trim_start_matches("http://").split('/').next();
        let _server = self.server(address.unwrap_or_default())?;
        client.go_on()?;
        client.wait()?;
        self.effects(&["get-up stays", "lie-down stays", "pack stays", "send stays"])
    }

    /// A call, with a kill of both sides while it asks.
    fn returns(&self) -> Result<()> {
        fs::remove_file(self.dir.join("effects")).ok();
        let (server, target) = self.server(ANYWHERE)?;
        let left = self.run("leaves", &target, None)?;
        let asked = left.asked()?;
        self.effects(&["pack returns"])?;
        drop((server, left));

        let (_server, target) = self.server(ANYWHERE)?;
        self.run("returns", &target, Some(&asked.to_string()))?.wait()?;
        let quick = ["quick one", "quick three", "quick two"];
        self.effects(&["pack returns", quick[0], quick[1], quick[2], "send returns"])
    }

    /// A call, with a kill of the server.
    fn lost(&self) -> Result<()> {
        fs::remove_file(self.dir.join("effects")).ok();
        let (server, target) = self.server(ANYWHERE)?;
        let mut client = self.run("lost", &target, None)?;
        while client.is_at_work() && self.effects(&["hold lost"]).is_err() {
            thread::sleep(Duration::from_millis(5));
        }
        drop(server);
        client.wait()?;
        self.effects(&["hold lost"])
    }

    /// The server, if it is not for the client to start, and what a client is told of it.
    fn server(&self, listen: &str) -> Result<(Option<Server>, Value)> {
        let file = |name| self.dir.join(name).into_os_string();
        let mut words = vec![built("debug", "clients-server").into_os_string()];
        for name in ["store", "effects", "pid"] {
            words.extend([format!("--{name}").into(), file(name)]);
        }
        let generation = self.client.generation;
        if self.over == "stdio" {
            words.push("--stdio".into());
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            return Ok((None, json!({ "generation": generation, "command": words })));
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["--listen", listen, "--anonymous-list"]);
        let server = Server::start(command)?;
        let target = json!({ "generation": generation, "url": server.url });
        Ok((Some(server), target))
    }

    fn run(&self, phase: &str, target: &Value, taken: Option<&str>) -> Result<Running> {
        let words = (self.client.program)(self.installed);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args([phase, &target.to_string()]).args(taken);
        Running::start(command, &self.dir.join(format!("{phase}.log")))
    }

    /// What the tools did, each exactly once.
    fn effects(&self, wanted: &[&str]) -> Result<()> {
        let text = fs::read_to_string(self.dir.join("effects")).unwrap_or_default();
        let mut found: Vec<&str> = text.lines().collect();
        found.sort_unstable();
        match found == wanted {
            true => Ok(()),
            false => Err(format!("the tools did {found:?} in place of {wanted:?}")),
        }
    }
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n    ")
}
