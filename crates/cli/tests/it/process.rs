//! The program under test.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::server::until;

/// The program, and what it has said.
pub(crate) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap()
    }
}

fn keep(
    stream: impl std::io::Read + Send + 'static,
) -> (Arc<Mutex<String>>, std::thread::JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let keep = text.clone();
    let reader = std::thread::spawn(move || {
        let mut lines = BufReader::new(stream);
        loop {
            // Byte by byte: a prompt is no whole line.
            let read = match lines.fill_buf() {
                Ok([]) | Err(_) => return,
                Ok(bytes) => {
                    keep.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
                    bytes.len()
                }
            };
            lines.consume(read);
        }
    });
    (text, reader)
}

impl Program {
    pub(crate) fn start(words: &[&str]) -> Program {
        Program::with(words, |_| {})
    }

    /// With more to say of the command.
    pub(crate) fn with(words: &[&str], more: impl FnOnce(&mut Command)) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
        command.args(words).env_remove("STEADFAST_TOKEN");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        more(&mut command);
        let mut child = command.spawn().unwrap();
        let (out, one) = keep(child.stdout.take().unwrap());
        let (err, two) = keep(child.stderr.take().unwrap());
        Program { input: child.stdin.take(), child, out, err, readers: vec![one, two] }
    }

    /// Runs one to its end, with nothing to read.
    pub(crate) fn run(words: &[&str]) -> Ended {
        Program::start(words).end()
    }

    /// Writes a line to it.
    pub(crate) fn line(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits until it has written this to standard error.
    pub(crate) fn until_said(&self, text: &str) {
        let begun = Instant::now();
        while !self.err.lock().unwrap().contains(text) {
            let said = self.err.lock().unwrap().clone();
            assert!(begun.elapsed() < Duration::from_secs(30), "not said: {text}\n{said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The lines that it has written to standard output.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.out.lock().unwrap().lines().map(str::to_owned).collect()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([format!("-{name}"), id]).status().unwrap().success());
    }

    /// Waits for its end, after its standard input has ended.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.input.take());
        let mut status = None;
        until("the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        let (out, err) = (self.out.lock().unwrap().clone(), self.err.lock().unwrap().clone());
        Ended { status: status.unwrap(), out, err }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
