//! The server as a process: this test program once more, in another role. It keeps its port over
//! restarts, as real servers do.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use steadfast::Flags;

/// What says to this program that it is the server, and with which flags, a line each.
pub(crate) const FLAGS: &str = "STEADFAST_TEST_SERVER";
/// The arguments that it needs for that.
pub(crate) const ROLE: [&str; 4] = ["--exact", "server::as_a_process", "--ignored", "--nocapture"];

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    flags: Flags,
    #[arg(long)]
    dir: std::path::PathBuf,
}

/// No test: what the process runs in which the server is.
#[test]
#[ignore = "it is a server, which tests start"]
fn as_a_process() {
    let Ok(flags) = std::env::var(FLAGS) else { return };
    let Args { flags, dir } = Args::parse_from(flags.split('\n'));
    crate::tools::serve(flags, dir).unwrap();
}

pub(crate) struct Server {
    dir: tempfile::TempDir,
    port: u16,
    running: Option<Child>,
    more: Vec<String>,
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::with(&[])
    }

    /// With more flags.
    pub(crate) fn with(flags: &[&str]) -> Server {
        let mut server = Server::down();
        server.more = flags.iter().map(|flag| (*flag).to_owned()).collect();
        server.up();
        server
    }

    /// One that is not up yet.
    pub(crate) fn down() -> Server {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokens"), "ada the-secret-of-ada\n").unwrap();
        Server { dir, port: free_port(), running: None, more: Vec::new() }
    }

    /// From the next start on with this flag as well.
    #[allow(dead_code)]
    pub(crate) fn flag(&mut self, flag: &str) {
        self.more.push(flag.to_owned());
    }

    /// The flags that it is started with.
    pub(crate) fn flags(&self) -> String {
        let dir = self.dir.path().display();
        let mut flags = format!(
            "server\n--listen\n127.0.0.1:{}\n--store\n{dir}/store.db\n--dir\n{dir}",
            self.port
        );
        for flag in &self.more {
            flags += &format!("\n{flag}");
        }
        flags
    }

    pub(crate) fn up(&mut self) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(ROLE)
            .env(FLAGS, self.flags())
            .current_dir(self.dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut heard = String::new();
        let up = lines.by_ref().any(|line| {
            heard += &format!("{line}\n");
            line.contains("http://")
        });
        assert!(up, "{heard}");
        // Whoever writes to a pipe that nobody reads is stopped.
        std::thread::spawn(move || lines.for_each(drop));
        self.running = Some(child);
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        let mut child = self.running.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks it to stop, as a deploy does, and waits until it has.
    #[allow(dead_code)]
    pub(crate) fn stop(&mut self) {
        let mut child = self.running.take().unwrap();
        let told = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(told.success());
        child.wait().unwrap();
    }

    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.up();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    #[allow(dead_code)]
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
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
    #[allow(dead_code)] // Of those who share this file, some wait in one way, some in the other.
    pub(crate) fn until(&self, effect: &str, times: usize) {
        until(&format!("{effect} is done {times} times"), || self.count(effect) >= times);
    }

    /// The same, while others go on.
    #[allow(dead_code)]
    pub(crate) async fn until_async(&self, effect: &str, times: usize) {
        let begun = Instant::now();
        while self.count(effect) < times {
            assert!(begun.elapsed() < Duration::from_secs(30), "{effect}: not {times} times");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.kill();
        }
    }
}

/// Waits for something.
#[allow(dead_code)]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not in 30 seconds: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A port that nobody listens on, below those that the system gives to connections: one of these could
/// take it while the server is down.
pub(crate) fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = (std::process::id() % 400) as u16 * 50;
    (0..20_000)
        .map(|_| 10_000 + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}
