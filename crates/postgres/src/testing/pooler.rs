//! A pooler in front of a server: PgBouncer.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use super::{
    servant::{home, put},
    server::{Server, StartError, USER},
    watchdog::Watchdog,
};

/// A running PgBouncer. Dropped it is ended and removed.
pub struct Pooler {
    _watchdog: Watchdog,
    port: u16,
}

impl Pooler {
    /// Starts one in front of a server, with this `pool_mode` and these other settings, a line each.
    pub fn start(server: &Server, mode: &str, settings: &str) -> Result<Pooler, StartError> {
        let program = program().ok_or(StartError::NoPooler)?;
        let home = home("steadfast-pgbouncer-", None)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let (to, dir) = (server.port(), home.path().display());
        let config = format!(
            "[databases]\npostgres = host=127.0.0.1 port={to} user={USER}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\nlogfile = {dir}/pgbouncer.log\n{settings}\n"
        );
        let file = home.path().join("pgbouncer.ini");
        put(&file, &config)?;
        let mut command = Command::new(program);
        command.arg(&file);
        let watchdog = Watchdog::start(home.path(), "KILL", &mut command)?;
        let log = home.path().join("pgbouncer.log");
        // From here on the watchdog removes it.
        let _ = home.keep();
        let pooler = Pooler { _watchdog: watchdog, port };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if begun.elapsed() > Duration::from_secs(20) {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(StartError::Failed(format!("PgBouncer does not answer: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(pooler)
    }

    /// Its port on the loopback address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl std::fmt::Debug for Pooler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pooler").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Of the path, or where Debian keeps it.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    dirs.map(|dir| dir.join("pgbouncer")).find(|program| program.is_file())
}
