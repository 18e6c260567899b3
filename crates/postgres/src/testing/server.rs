//! Starting a server, and reaching it.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    find, fresh_name,
    servant::{home, put, run_as_servant},
    watchdog::Watchdog,
};
use crate::Options;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It is not installed.
    #[error(
        "PostgreSQL is not installed: neither the path nor /usr/lib/postgresql has the programs \
         initdb and postgres; install a server, 14 or newer (on Debian and Ubuntu: apt-get install \
         postgresql)"
    )]
    NotInstalled,
    /// It is one that no store opens.
    #[error(
        "PostgreSQL in {} is version {found}; install 14 or newer, or name the directory of one by {}",
        .directory.display(), find::DIRECTORY
    )]
    TooOld {
        /// Where it is.
        directory: PathBuf,
        /// Its version.
        found: String,
    },
    /// There is no PgBouncer.
    #[error(
        "PgBouncer is not installed: neither the path nor /usr/sbin has the program pgbouncer (on \
         Debian and Ubuntu: apt-get install pgbouncer)"
    )]
    NoPooler,
    /// Something went wrong on the way.
    #[error("can't start PostgreSQL: {0}")]
    Failed(String),
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> StartError {
        StartError::Failed(error.to_string())
    }
}

/// How a server is to be.
#[derive(Clone, Debug)]
pub struct Setup {
    fsync: bool,
    settings: Vec<(String, String)>,
    tls: Option<(String, String)>,
    clients: Option<String>,
    below: Option<PathBuf>,
    programs: Option<PathBuf>,
}

impl Default for Setup {
    /// Fast, and for tests only: a power cut loses everything.
    fn default() -> Setup {
        Setup {
            fsync: false,
            settings: Vec::new(),
            tls: None,
            clients: None,
            below: None,
            programs: None,
        }
    }
}

impl Setup {
    /// Whether commits are flushed to the disk, as on a real server.
    #[must_use]
    pub fn fsync(mut self, fsync: bool) -> Setup {
        self.fsync = fsync;
        self
    }

    /// A setting as in `postgresql.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Setup {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Lets it speak TLS, with this certificate and key, as PEM.
    #[must_use]
    pub fn tls(mut self, certificate: &str, key: &str) -> Setup {
        self.tls = Some((certificate.into(), key.into()));
        self
    }

    /// Lets it know clients by certificates of this root, as PEM, where its rules ask for that.
    #[must_use]
    pub fn clients(mut self, root: &str) -> Setup {
        self.clients = Some(root.into());
        self
    }

    /// Where its directory is made, in place of the temporary directory of the system. Whoever runs the
    /// server must be let through to it.
    #[must_use]
    pub fn below(mut self, directory: impl Into<PathBuf>) -> Setup {
        self.below = Some(directory.into());
        self
    }

    /// With the programs of this directory, of whatever version they are.
    #[must_use]
    pub fn programs(mut self, directory: impl Into<PathBuf>) -> Setup {
        self.programs = Some(directory.into());
        self
    }

    /// Makes a database and starts a server for it. Returns when it answers.
    pub fn start(self) -> Result<Server, StartError> {
        let programs = self.programs.clone().map_or_else(find::programs, Ok)?;
        let home = home(HOME, self.below.as_deref())?;
        initdb(&programs, home.path())?;
        if let Some((certificate, key)) = &self.tls {
            put(&home.path().join("tls.crt"), certificate)?;
            put(&home.path().join("tls.key"), key)?;
        }
        if let Some(root) = &self.clients {
            put(&home.path().join("clients.crt"), root)?;
        }
        self.serve(&programs, home)
    }

    /// Starts a server for the database in a directory.
    fn serve(&self, programs: &Path, home: tempfile::TempDir) -> Result<Server, StartError> {
        let free = || Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port());
        self.serve_by(programs, home, std::iter::repeat_with(free).take(5))
    }

    /// On the first of these ports that is still free when the server begins: another process may take one
    /// between the look and the start.
    fn serve_by(
        &self,
        programs: &Path,
        home: tempfile::TempDir,
        ports: impl Iterator<Item = std::io::Result<u16>>,
    ) -> Result<Server, StartError> {
        let mut last = None;
        for port in ports {
            let port = port?;
            let mut command = self.command(programs, &home, port);
            let watchdog = Mutex::new(Watchdog::start(home.path(), "QUIT", &mut command)?);
            let programs = programs.to_owned();
            let server = Server { watchdog, port, home: home.path().into(), programs };
            server.until(SILENT, || server.answers() || server.is_shut_out())?;
            if !server.is_shut_out() {
                // From here on the watchdog removes it.
                let _ = home.keep();
                return Ok(server);
            }
            last = Some(server.failed("its port is taken"));
            // The next one needs the database, and a log that begins with it.
            server.say("leave")?;
            std::fs::remove_file(home.path().join("log"))?;
        }
        Err(last.unwrap_or_else(|| StartError::Failed("there is no port for it".into())))
    }

    fn command(&self, programs: &Path, home: &tempfile::TempDir, port: u16) -> Command {
        let mut server = Command::new(programs.join("postgres"));
        server.arg("-D").arg(home.path().join("data"));
        let on = if self.fsync { "on" } else { "off" };
        let socket = home.path().to_string_lossy().into_owned();
        let port = port.to_string();
        let fixed = [
            ("port", port.as_str()),
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", &socket),
            ("max_connections", "300"),
            ("fsync", on),
            ("synchronous_commit", on),
            ("full_page_writes", on),
        ];
        if self.tls.is_some() {
            for (name, file) in [("ssl_cert_file", "tls.crt"), ("ssl_key_file", "tls.key")] {
                server.arg("-c").arg(format!("{name}={}", home.path().join(file).display()));
            }
            server.arg("-c").arg("ssl=on");
        }
        if self.clients.is_some() {
            let file = home.path().join("clients.crt");
            server.arg("-c").arg(format!("ssl_ca_file={}", file.display()));
        }
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in fixed.into_iter().chain(own) {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        server
    }
}

fn initdb(programs: &Path, home: &Path) -> Result<(), StartError> {
    let mut initdb = Command::new(programs.join("initdb"));
    initdb.arg("-D").arg(home.join("data")).current_dir("/");
    initdb.args(["--no-sync", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]);
    run_as_servant(&mut initdb).map(drop)
}

pub(super) const USER: &str = "steadfast";

/// How directories of servers begin.
const HOME: &str = "steadfast-postgres-";

const SILENT: &str = "it does not answer";

/// A running server. Dropped it is ended and removed.
pub struct Server {
    watchdog: Mutex<Watchdog>,
    port: u16,
    home: PathBuf,
    programs: PathBuf,
}

impl Server {
    /// Its port on the loopback address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it is reached: everybody who knows the port is its superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_by(self.port)
    }

    /// The same by another port, behind which something forwards to this one.
    #[must_use]
    pub fn url_by(&self, port: u16) -> String {
        format!("postgres://{USER}@127.0.0.1:{port}/postgres?sslmode=disable")
    }

    /// The directory that has its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.home
    }

    /// Options for a store that nobody else uses.
    #[must_use]
    pub fn options(&self) -> Options {
        Options::new(self.url()).schema(fresh_name())
    }

    /// From now on these are the lines of its `pg_hba.conf`.
    pub fn rules(&self, lines: &str) -> Result<(), StartError> {
        std::fs::write(self.home.join("data/pg_hba.conf"), lines)?;
        let reloads = || self.log().matches("reloading configuration files").count();
        let before = reloads();
        self.say("reload")?;
        // It takes no connection between that line and the new rules.
        self.until("it does not read its rules", || reloads() > before)
    }

    /// A copy of it that follows it, and can take its place. From when this returns no commit is
    /// acknowledged that the copy does not have.
    pub async fn standby(&self) -> Result<Server, StartError> {
        let home = home(HOME, self.home.parent())?;
        let copies =
            find::program(&self.programs, "pg_basebackup").ok_or(StartError::NotInstalled)?;
        let mut copy = Command::new(copies);
        copy.arg("-D").arg(home.path().join("data")).current_dir("/");
        copy.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER]);
        copy.args([
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
            "--wal-method=stream",
        ]);
        run_as_servant(&mut copy)?;
        let standby = Setup::default().fsync(true).serve(&self.programs, home)?;
        let failed = |e: crate::OpenError| StartError::Failed(e.to_string());
        for sql in ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"] {
            super::sql(&self.options(), sql).await.map_err(failed)?;
        }
        let synchronous = "DO $$ BEGIN FOR n IN 1..1000 LOOP \
             PERFORM pg_stat_clear_snapshot(); \
             IF EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync') THEN RETURN; \
             END IF; PERFORM pg_sleep(0.02); END LOOP; RAISE 'no standby follows'; END $$";
        super::sql(&self.options(), synchronous).await.map_err(failed)?;
        Ok(standby)
    }

    /// Makes a standby a server of its own, that writes.
    pub async fn promote(&self) -> Result<(), StartError> {
        let failed = |e: crate::OpenError| StartError::Failed(e.to_string());
        super::sql(&self.options(), "SELECT pg_promote()").await.map_err(failed)
    }

    /// Ends it with `kill -9`.
    pub fn kill(&self) -> Result<(), StartError> {
        self.say("kill")
    }

    /// All of a schema as statements that make it again, on a server of any version that we know.
    pub fn dump(&self, schema: &str) -> Result<String, StartError> {
        let dump = find::program(&self.programs, "pg_dump").ok_or(StartError::NotInstalled)?;
        let mut dump = Command::new(dump);
        dump.args(["--dbname", &self.url(), "--schema", schema, "--inserts"]);
        let text = run_as_servant(dump.args(["--no-owner", "--no-privileges"]))?;
        // Settings of the server's own version, words for psql, and remarks.
        let own = ["SET ", "SELECT pg_catalog.set_config", "\\", "--"];
        let lines = text.lines().filter(|line| !own.iter().any(|own| line.starts_with(own)));
        let lines = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>();
        Ok(lines.join("\n") + "\n")
    }

    /// How many connections were made to it, if it was set up to log them (`log_connections`).
    #[must_use]
    pub fn connections(&self) -> usize {
        self.log().matches("connection received").count()
    }

    /// Shuts it down in order of its own, and starts it again. Open connections are lost.
    pub fn restart(&self) -> Result<(), StartError> {
        self.say("restart")?;
        self.wait()
    }

    /// Ends it without a warning, as a crash does, and starts it again.
    pub fn crash(&self) -> Result<(), StartError> {
        self.say("crash")?;
        self.wait()
    }

    /// Shuts it down.
    pub fn stop(&self) -> Result<(), StartError> {
        self.say("stop")
    }

    /// Starts it again after [`stop`](Server::stop).
    pub fn start(&self) -> Result<(), StartError> {
        self.say("start")?;
        self.wait()
    }

    fn say(&self, word: &str) -> Result<(), StartError> {
        Ok(self.watchdog.lock().unwrap_or_else(PoisonError::into_inner).say(word)?)
    }

    /// Waits until it takes connections.
    fn wait(&self) -> Result<(), StartError> {
        self.until(SILENT, || self.answers())
    }

    fn until(&self, otherwise: &str, so: impl Fn() -> bool) -> Result<(), StartError> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            if so() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(self.failed(otherwise))
    }

    fn failed(&self, why: &str) -> StartError {
        let log = self.log();
        let tail: Vec<&str> = log.lines().rev().take(10).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        StartError::Failed(format!("{why}; its log ends with\n{}", tail.join("\n")))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    fn answers(&self) -> bool {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() && self.is_up()
    }

    /// Whether it has ended because somebody else has its port.
    fn is_shut_out(&self) -> bool {
        self.log().contains("could not create any TCP/IP sockets")
    }

    /// The port is open before the server is ready; its own file says when it is.
    fn is_up(&self) -> bool {
        let status = std::fs::read_to_string(self.home.join("data/postmaster.pid"));
        let is_up = |last: &str| ["ready", "standby"].contains(&last.trim());
        status.is_ok_and(|text| text.lines().last().is_some_and(is_up))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("port", &self.port).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_somebody_else_took_is_left_for_another() {
        let (programs, home) = (find::programs().unwrap(), home(HOME, None).unwrap());
        initdb(&programs, home.path()).unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let ports = [&taken, &free].map(|one| Ok(one.local_addr().unwrap().port()));
        drop(free);
        let begun = Instant::now();
        let place = home.path().to_owned();
        let server = Setup::default().serve_by(&programs, home, ports.into_iter()).unwrap();
        assert_ne!(server.port(), taken.local_addr().unwrap().port());
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        drop(server);
        assert!(!place.exists(), "it is removed all the same");
    }
}
