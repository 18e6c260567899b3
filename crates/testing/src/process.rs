//! A server as a process.

use std::{
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use steadfast_client::{Client, Connect};

use crate::{
    place::{directory, free_port},
    wait::{clock_is_paused, until},
};

/// A server as a process of its own, which is killed for real, on the same store and the same port in all
/// its lives.
///
/// It is for programs that end in `Server::run` or take its `Flags`: they are started with `--listen` and
/// `--store`, in a directory of their own that goes with this. Variables of the environment that begin
/// with `STEADFAST_` are taken away.
///
/// ```no_run
/// use steadfast::testing::{Effects, TestProcess};
///
/// # async fn example() {
/// // In a test of your package: `TestProcess::cargo_bin(env!("CARGO_BIN_EXE_orders"))`
/// let mut server = TestProcess::cargo_bin("target/debug/orders").arg("--companions");
/// let effects = Effects::file(server.dir().join("effects"));
/// server.up().await;
/// let client = server.client().await;
/// let call = tokio::spawn(client.call("order", serde_json::json!({})).as_task().into_future());
/// effects.wait_for("reserve", 1).await;
/// server.kill_and_restart().await;
/// call.await.unwrap().unwrap();
/// # }
/// ```
#[derive(Debug)]
pub struct TestProcess {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: tempfile::TempDir,
    address: SocketAddr,
    running: Option<Child>,
    log: Arc<Mutex<String>>,
}

impl TestProcess {
    /// A program that cargo has built for the test: `env!("CARGO_BIN_EXE_<name>")`. It is not up yet.
    pub fn cargo_bin(program: impl Into<PathBuf>) -> TestProcess {
        TestProcess {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            dir: directory(),
            address: SocketAddr::from(([127, 0, 0, 1], free_port())),
            running: None,
            log: Arc::default(),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(self, arg: impl AsRef<OsStr>) -> TestProcess {
        self.args([arg])
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> TestProcess {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> TestProcess {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts it, and waits until it listens.
    ///
    /// # Panics
    /// If it is up, can't be started, or ends at once: with what it wrote to its standard error. Also if
    /// the clock is paused: a process does not wait for it.
    pub async fn up(&mut self) {
        assert!(self.running.is_none(), "the process is up already");
        assert!(!clock_is_paused(), "a process needs a clock that runs");
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STEADFAST_") {
                command.env_remove(name);
            }
        }
        command.arg("--listen").arg(self.address.to_string()).arg("--store").arg(self.store());
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("{} can't be started: {error}", self.program.display()),
        };
        let mut reader = child.stderr.take().map(|said| {
            let log = self.log.clone();
            // Whoever writes to a pipe that nobody reads is stopped.
            std::thread::spawn(move || {
                for line in BufReader::new(said).lines().map_while(Result::ok) {
                    *log.lock().unwrap_or_else(PoisonError::into_inner) += &(line + "\n");
                }
            })
        });
        self.running = Some(child);
        let what = format!("{} to listen on {}", self.program.display(), self.address);
        until(what, || {
            if let Some(status) = self.ended() {
                // All that it said.
                reader.take().map(std::thread::JoinHandle::join);
                panic!("{} ended: {status}; it said:\n{}", self.program.display(), self.log());
            }
            TcpStream::connect(self.address).is_ok()
        })
        .await;
    }

    /// Asks it to stop (`SIGTERM`), as a deploy does, and waits until it has.
    ///
    /// # Panics
    /// If it is not up, or goes on.
    #[cfg(unix)]
    pub async fn down(&mut self) {
        let Some(child) = &self.running else { panic!("the process is not up") };
        let process = rustix::process::Pid::from_child(child);
        if let Err(error) = rustix::process::kill_process(process, rustix::process::Signal::TERM) {
            panic!("the process can't be asked to stop: {error}");
        }
        until("the process to stop", || self.ended().is_some()).await;
        self.running = None;
    }

    /// Kills it (`kill -9`).
    ///
    /// # Panics
    /// If it is not up.
    pub async fn kill(&mut self) {
        assert!(self.running.is_some(), "the process is not up");
        self.end();
    }

    fn end(&mut self) {
        if let Some(mut child) = self.running.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops it in good order, if it is up, and starts it.
    #[cfg(unix)]
    pub async fn restart(&mut self) {
        if self.running.is_some() {
            self.down().await;
        }
        self.up().await;
    }

    /// Kills it, and starts it.
    pub async fn kill_and_restart(&mut self) {
        self.kill().await;
        self.up().await;
    }

    /// How it has ended, if it was up and has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.running.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// Its directory, the same in all its lives.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The file of its store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store.db")
    }

    /// What it wrote to its standard error, in all its lives.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where it listens, in all its lives.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a client wants it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Connects a client of 2026-07-28.
    ///
    /// # Panics
    /// If it can't.
    pub async fn client(&self) -> Client {
        let connected = self.connect().await;
        connected
            .unwrap_or_else(|error| panic!("the client can't connect: {error}\n{}", self.log()))
    }

    /// The same with what else can be said of a client: its revision, a token, who answers its questions.
    pub fn connect(&self) -> Connect {
        Client::connect(&self.url())
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        self.end();
    }
}
