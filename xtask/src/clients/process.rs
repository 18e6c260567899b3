//! Processes with an end: by themselves, in time, or killed.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::tail;
use crate::Result;

/// A client that takes longer hangs. Most take seconds; mcpdo starts a process for each command.
const LIMIT: Duration = Duration::from_secs(120);

/// A server over HTTP. It is killed when this is dropped.
pub(super) struct Server {
    process: Child,
    pub(super) url: String,
}

impl Server {
    pub(super) fn start(mut command: Command) -> Result<Server> {
        let process = command.stderr(Stdio::piped()).spawn();
        let process = process.map_err(|error| format!("{command:?} can't be run: {error}"))?;
        let mut server = Server { process, url: String::new() };
        let errors = server.process.stderr.take().ok_or("the server has no output")?;
        let mut lines = BufReader::new(errors).lines().map_while(std::result::Result::ok);
        let url = lines.find_map(|line| Some(line.split_once(" listens on ")?.1.to_owned()));
        server.url = url.ok_or("the server did not say where it listens")?;
        // What it says later would fill the pipe.
        thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client at work. It and all that it started in its group are killed when this is dropped.
pub(super) struct Running {
    process: Child,
    lines: Receiver<String>,
    log: PathBuf,
    begun: Instant,
}

impl Running {
    pub(super) fn start(mut command: Command, log: &Path) -> Result<Running> {
        let file = File::create(log);
        let file = file.map_err(|error| format!("{} can't be made: {error}", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).process_group(0);
        let process = command.spawn();
        let process = process.map_err(|error| format!("{command:?} can't be run: {error}"))?;
        let (sender, lines) = channel();
        let mut client = Running { process, lines, log: log.into(), begun: Instant::now() };
        let output = client.process.stdout.take().ok_or("the client has no output")?;
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
            // Nobody may want them any more.
            lines.for_each(|line| drop(sender.send(line)));
        });
        Ok(client)
    }

    fn line(&self) -> std::result::Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(LIMIT.saturating_sub(self.begun.elapsed()))
    }

    fn wrong(&self, what: &str) -> String {
        format!("{what}; it said:\n    {}", tail(&self.log))
    }

    /// What the client says when it has come to its question.
    pub(super) fn asked(&self) -> Result<Value> {
        loop {
            let line = self.line().map_err(|error| match error {
                RecvTimeoutError::Timeout => self.wrong("it did not come to its question"),
                RecvTimeoutError::Disconnected => self.wrong("it ended before its question"),
            })?;
            if let Ok(said @ Value::Object(_)) = serde_json::from_str(&line) {
                return Ok(said);
            }
        }
    }

    /// Tells the client to go on.
    pub(super) fn go_on(&mut self) -> Result<()> {
        let input = self.process.stdin.as_mut().ok_or("the client has no input")?;
        input.write_all(b"\n").map_err(|error| format!("the client can't be told: {error}"))
    }

    /// Whether it has neither ended nor taken too long.
    pub(super) fn is_at_work(&mut self) -> bool {
        self.begun.elapsed() < LIMIT && matches!(self.process.try_wait(), Ok(None))
    }

    /// Until it has ended well.
    pub(super) fn wait(mut self) -> Result<()> {
        loop {
            match self.line() {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Err(self.wrong("it did not end")),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        match self.process.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.wrong(&format!("it ended with {status}"))),
            Err(error) => Err(format!("the client can't be waited for: {error}")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(&format!("-{}", self.process.id()));
        let _ = self.process.wait();
    }
}

/// Kills a process without a warning, or the group of a negative number.
pub(super) fn kill(pid: &str) -> Result<()> {
    // Every shell has it, while the program is in a package that may be missing.
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -9 \"$0\"", pid]).stderr(Stdio::null());
    match shell.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{pid} can't be killed")),
    }
}
