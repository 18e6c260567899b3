//! The server as a process, on a store that outlives it.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// Where the tasks of several processes can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Sqlite,
    Postgres,
}

pub(crate) struct Server {
    dir: tempfile::TempDir,
    /// In a database: its schema there, and after how many seconds a process is taken for dead.
    schema: Option<(String, u64)>,
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
        Server::on(Place::Sqlite, 0, flags)
    }

    /// With its tasks at this place; on PostgreSQL, where it is taken for dead after so many seconds.
    pub(crate) fn on(place: Place, lease: u64, flags: &[&str]) -> Server {
        let mut server = Server::prepared(place, lease, flags);
        server.up();
        server
    }

    /// One that is not started yet.
    pub(crate) fn prepared(place: Place, lease: u64, flags: &[&str]) -> Server {
        let schema = (place == Place::Postgres)
            .then(|| (database().options().schema_name().to_owned(), lease));
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokens"), "ada the-secret-of-ada\nbob the-secret-of-bob\n")
            .unwrap();
        Server { dir, schema, flags, running: None }
    }

    /// One that is not started yet, with its tasks in this schema of the database.
    pub(crate) fn prepared_in(schema: &str, flags: &[&str]) -> Server {
        let mut server = Server::prepared(Place::Postgres, 10, flags);
        server.schema = Some((schema.to_owned(), 10));
        server
    }

    /// Starts it, waits until it has given up, and returns what it said.
    pub(crate) fn does_not_start(&self) -> String {
        let mut command = self.command(None);
        command.args(["--listen", "127.0.0.1:0"]).args(&self.flags).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if begun.elapsed() < Duration::from_secs(30) => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                None => {
                    child.kill().unwrap();
                    panic!("it runs");
                }
            }
        };
        assert!(!status.success());
        std::io::read_to_string(child.stderr.take().unwrap()).unwrap()
    }

    pub(crate) fn up(&mut self) {
        self.running = Some(self.spawn(None, &[]));
    }

    /// Starts it so that it finds its database behind this port, with more flags.
    pub(crate) fn up_by(&mut self, port: Option<u16>, flags: &[&str]) {
        self.running = Some(self.spawn(port, flags));
    }

    /// Another process on the same store, with an address of its own.
    pub(crate) fn beside(&self) -> Beside {
        self.beside_with(&[])
    }

    /// The same with more flags.
    pub(crate) fn beside_with(&self, flags: &[&str]) -> Beside {
        let (child, address) = self.spawn(None, flags);
        Beside { child, address }
    }

    /// A process on the same store that serves no clients. Where the server listens it can't.
    pub(crate) fn worker(&self, flags: &[&str]) -> Worker {
        let mut child = self.not_served(flags).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = lines.by_ref().map(Result::unwrap).find(|line| line.contains(" works on "));
        std::thread::spawn(move || lines.for_each(drop));
        Worker { child, says: said.expect("what it works on") }
    }

    /// Why such a process ends at once.
    pub(crate) fn refused_worker(&self, flags: &[&str]) -> String {
        let ended = self.not_served(flags).spawn().unwrap().wait_with_output().unwrap();
        assert!(!ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stderr).unwrap()
    }

    fn not_served(&self, flags: &[&str]) -> Command {
        let mut command = self.command(None);
        command.args(["--worker", "--listen", &self.address().to_string()]).args(flags);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn spawn(&self, port: Option<u16>, flags: &[&str]) -> (Child, SocketAddr) {
        let mut child = self
            .command(port)
            .args(["--listen", "127.0.0.1:0"])
            .args(&self.flags)
            .args(flags)
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

    fn command(&self, port: Option<u16>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_survive-server"));
        match &self.schema {
            None => {
                command.arg("--store").arg(self.store());
            }
            Some((schema, lease)) => {
                let database = database();
                let address = database.url_by(port.unwrap_or(database.port()));
                command.args(["--store", &address, "--store-schema", schema]);
                command.args(["--store-lease-seconds", &lease.to_string()]);
            }
        }
        command.arg("--dir").arg(self.dir.path());
        command.current_dir(self.dir.path());
        command
    }

    /// Another process on the same store, over its standard streams.
    pub(crate) fn over_stdio(&self) -> Piped {
        let mut child = self
            .command(None)
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

    /// Lets it stand still,
    pub(crate) fn stop(&self) {
        signal(&self.running.as_ref().unwrap().0, "STOP");
    }

    /// and go on.
    pub(crate) fn go_on(&self) {
        signal(&self.running.as_ref().unwrap().0, "CONT");
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

    /// What was done, in this order.
    pub(crate) fn effects(&self) -> Vec<String> {
        let effects = std::fs::read_to_string(self.dir.path().join("effects")).unwrap_or_default();
        effects.lines().map(str::to_owned).collect()
    }

    /// How often something was done.
    pub(crate) fn count(&self, effect: &str) -> usize {
        self.effects().iter().filter(|line| *line == effect).count()
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

/// A process that works for the server, which is killed with this.
pub(crate) struct Worker {
    child: Child,
    /// What it said that it works on.
    pub(crate) says: String,
}

impl Worker {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How many sockets it listens on, by the tables of the kernel.
    #[cfg(target_os = "linux")]
    pub(crate) fn listens(&self) -> usize {
        let of_process = format!("/proc/{}", self.id());
        let files = std::fs::read_dir(format!("{of_process}/fd")).unwrap();
        let files = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        let files: Vec<String> = files.map(|to| to.to_string_lossy().into_owned()).collect();
        let tables = ["tcp", "tcp6"].map(|table| format!("{of_process}/net/{table}"));
        let tables = tables.map(|table| std::fs::read_to_string(table).unwrap_or_default());
        let open = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // The state is LISTEN, and one of the files is it.
            words.get(3) == Some(&"0A")
                && words.get(9).is_some_and(|socket| files.contains(&format!("socket:[{socket}]")))
        };
        tables.iter().flat_map(|table| table.lines()).filter(open).count()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The database server of all tests of this process.
pub(crate) fn database() -> &'static steadfast_postgres::testing::Server {
    steadfast_postgres::testing::shared().unwrap()
}

/// Its port.
pub(crate) fn database_port() -> u16 {
    database().port()
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

/// SIGTERM.
fn ask_to_go(child: &mut Child) {
    signal(child, "TERM");
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
