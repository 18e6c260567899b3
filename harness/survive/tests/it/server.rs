//! The server as a process, on a store that outlives it.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

pub(crate) struct Server {
    dir: tempfile::TempDir,
    flags: Vec<String>,
    running: Option<(Child, SocketAddr)>,
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::with(&[])
    }

    /// For Ada and Bob, who have tokens.
    pub(crate) fn for_two() -> Server {
        Server::with(&["--token-file", "tokens"])
    }

    /// With more flags.
    pub(crate) fn with(flags: &[&str]) -> Server {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokens"), "ada the-secret-of-ada\nbob the-secret-of-bob\n")
            .unwrap();
        let mut server = Server { dir, flags, running: None };
        server.up();
        server
    }

    pub(crate) fn up(&mut self) {
        self.running = Some(self.spawn());
    }

    /// Another process on the same store, with an address of its own.
    pub(crate) fn beside(&self) -> Beside {
        let (child, address) = self.spawn();
        Beside { child, address }
    }

    fn spawn(&self) -> (Child, SocketAddr) {
        let mut child = self
            .command()
            .args(["--listen", "127.0.0.1:0"])
            .args(&self.flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.by_ref().map(Result::unwrap).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            rest.split('/').next()?.parse().ok()
        });
        // Whoever writes to a pipe that nobody reads is stopped.
        std::thread::spawn(move || lines.for_each(drop));
        (child, address.expect("where it listens"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_survive-server"));
        command.arg("--store").arg(self.store()).arg("--dir").arg(self.dir.path());
        command.current_dir(self.dir.path());
        command
    }

    /// Another process on the same store, over its standard streams.
    pub(crate) fn over_stdio(&self) -> Piped {
        let mut child = self
            .command()
            .args(["--stdio", "--drain-seconds", "1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Piped { child, lines }
    }

    /// From the next start on with this flag as well.
    pub(crate) fn deploy(&mut self, flag: &str) {
        self.flags.push(flag.to_owned());
        self.kill_and_restart();
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        let (mut child, _) = self.running.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks it to go, and waits until it has.
    pub(crate) fn terminate(&mut self) {
        let (mut child, _) = self.running.take().unwrap();
        ask_to_go(&mut child);
    }

    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.up();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.as_ref().unwrap().1
    }

    /// Where it keeps its tasks.
    pub(crate) fn store(&self) -> std::path::PathBuf {
        self.dir.path().join("store.db")
    }

    pub(crate) fn open(&self, gate: &str) {
        std::fs::write(self.dir.path().join(gate), "").unwrap();
    }

    /// How often something was done.
    pub(crate) fn count(&self, effect: &str) -> usize {
        let effects = std::fs::read_to_string(self.dir.path().join("effects")).unwrap_or_default();
        effects.lines().filter(|line| *line == effect).count()
    }

    /// Waits until something has been done this often.
    pub(crate) fn until(&self, effect: &str, times: usize) {
        let begun = Instant::now();
        while self.count(effect) < times {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{effect} was not done {times} times"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A process beside the server, which is killed with this.
pub(crate) struct Beside {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// SIGTERM.
fn ask_to_go(child: &mut Child) {
    let status = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(status.success());
    child.wait().unwrap();
}

/// A server over its standard streams.
pub(crate) struct Piped {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Piped {
    pub(crate) fn say(&mut self, message: &Value) {
        let to = self.child.stdin.as_mut().unwrap();
        to.write_all(format!("{message}\n").as_bytes()).unwrap();
        to.flush().unwrap();
    }

    /// The response to this request; what comes before it is left out.
    pub(crate) fn response(&mut self, id: &Value) -> Value {
        self.until_response(id).pop().expect("a response")
    }

    /// All that comes until there is a response to this request, and that.
    pub(crate) fn until_response(&mut self, id: &Value) -> Vec<Value> {
        let mut said = Vec::new();
        loop {
            let line = self.lines.next().expect("a line").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            let is_it = message["id"] == *id && message["method"].is_null();
            said.push(message);
            if is_it {
                return said;
            }
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the process to go, and waits until it has. The client stays: its end of the pipe is open.
    pub(crate) fn terminate(mut self) {
        ask_to_go(&mut self.child);
    }

    /// The client goes: its end of the pipe is closed.
    pub(crate) fn hang_up(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.kill();
        }
    }
}
