//! What all parts of a run share.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    process::Stdio,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use steadfast_postgres::testing::Server as Database;
use tokio::process::Command;

use crate::{
    book::Book,
    lives::{DRAIN, Lives},
};

/// After this a replica that is not heard of is taken for dead: short, so that there are many who are.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

const SCHEMA: &str = "chaos";

/// A process of the server that takes connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    pub(crate) life: u32,
}

/// What is to be known of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watch {
    /// When it is closed: the call of this number ends with it.
    Ends(u64),
    /// When a request for the call of this number comes to a process, which may be long after it was sent.
    Comes(u64),
}

pub(crate) struct World {
    /// Fixes what clients do, what becomes of connections and when the server dies.
    pub(crate) seed: u64,
    /// Where clients connect to.
    pub(crate) proxy: SocketAddr,
    pub(crate) dir: PathBuf,
    /// The program of the server.
    pub(crate) program: PathBuf,
    pub(crate) mutant: Option<String>,
    pub(crate) book: Book,
    /// With replicas: the database that they share.
    pub(crate) database: Option<Database>,
    /// The processes of the server by their places.
    servers: Mutex<BTreeMap<usize, Serving>>,
    /// Connections that were passed on, each to the next of them.
    passed: AtomicUsize,
    /// The connections of which something is to be known, by their ports.
    watched: Mutex<BTreeMap<u16, Watch>>,
    /// No more faults, and no new calls.
    calm: AtomicBool,
    lives: AtomicU32,
    pub(crate) lives_of: Lives,
    pub(crate) connections: AtomicU64,
    pub(crate) faults: AtomicU64,
    pub(crate) kills: AtomicU64,
    /// Times that the server was told to stop.
    pub(crate) stops: AtomicU64,
    /// Times that a replica stood still for longer than its lease,
    pub(crate) stalls: AtomicU64,
    /// and times that one was cut off from the database.
    pub(crate) cuts: AtomicU64,
    /// What is wrong with no call in particular.
    pub(crate) wrong: Mutex<Vec<String>>,
}

impl World {
    pub(crate) fn new(
        seed: u64,
        proxy: SocketAddr,
        dir: PathBuf,
        program: PathBuf,
        mutant: Option<String>,
        database: Option<Database>,
    ) -> World {
        World {
            seed,
            proxy,
            dir,
            program,
            mutant,
            book: Book::default(),
            database,
            servers: Mutex::default(),
            passed: AtomicUsize::new(0),
            watched: Mutex::default(),
            calm: AtomicBool::new(false),
            lives: AtomicU32::new(0),
            lives_of: Lives::default(),
            connections: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            kills: AtomicU64::new(0),
            stops: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            wrong: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<usize, Serving>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the next connection goes: to one after the other, as a plain proxy does, which knows of those
    /// that are there and nothing of how they are.
    pub(crate) fn next_server(&self) -> Option<Serving> {
        let servers = self.servers();
        let next = self.passed.fetch_add(1, Ordering::Relaxed).checked_rem(servers.len())?;
        servers.values().nth(next).copied()
    }

    pub(crate) fn serve_at(&self, place: usize, serving: Option<Serving>) {
        match serving {
            Some(serving) => self.servers().insert(place, serving),
            None => self.servers().remove(&place),
        };
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<u16, Watch>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wants to know this of the connection from this port.
    pub(crate) fn watch(&self, port: u16, watch: Watch) {
        self.watched().insert(port, watch);
    }

    /// What its client has sent is about to be passed on to this process.
    pub(crate) fn comes(&self, port: u16, life: u32) {
        let watched = self.watched().get(&port).copied();
        if let Some(Watch::Comes(number)) = watched {
            self.book.note(number, format!("comes to life {life}"));
            self.book.change(number, |call| call.came.push(now()));
        }
    }

    /// It is closed on the side of the server, and this process had it.
    pub(crate) fn closed(&self, port: u16, life: Option<u32>) {
        let watched = self.watched().remove(&port);
        if let Some(Watch::Ends(number)) = watched {
            self.book.note(number, "its connection is closed");
            self.book.change(number, |call| (call.closed, call.life) = (Some(now()), life));
        }
    }

    pub(crate) fn wrong(&self, what: String) {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.join("store.db")
    }

    pub(crate) fn effects(&self) -> PathBuf {
        self.dir.join("effects")
    }

    /// Where a process writes its log.
    pub(crate) fn log(&self, life: u32) -> PathBuf {
        self.dir.join(format!("life-{life}.log"))
    }

    /// How the database of the replicas is opened.
    pub(crate) fn database_options(&self) -> Option<steadfast_postgres::Options> {
        let url = self.database.as_ref()?.url();
        Some(steadfast_postgres::Options::new(url).schema(SCHEMA).lease(LEASE))
    }

    /// One more process of the server, which finds the database behind this port, if that is not its own.
    /// It dies with this one.
    pub(crate) fn command(&self, port: Option<u16>) -> (u32, Command) {
        let life = self.lives.fetch_add(1, Ordering::Relaxed) + 1;
        let mut command = Command::new(&self.program);
        match &self.database {
            Some(database) => {
                command.args(["--store", &database.url_by(port.unwrap_or(database.port()))]);
                command.args(["--store-schema", SCHEMA]);
                command.args(["--store-lease-seconds", &LEASE.as_secs().to_string()]);
            }
            // Power cuts are not tried here, and the disk is others' as well.
            None => {
                command.arg("--store").arg(self.store()).arg("--process-crash-only");
            }
        }
        command
            .arg("--effects")
            .arg(self.effects())
            .args(["--life", &life.to_string(), "--drain-seconds", &(DRAIN / 1_000).to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        if let Some(mutant) = &self.mutant {
            // Nobody waits for what is seen sooner.
            command.args(["--mutant", mutant, "--wait-seconds", "4"]);
        }
        (life, command)
    }

    /// How long things may take when all is calm. Nobody waits for what is wrong on purpose.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(if self.mutant.is_some() { 8 } else { 45 })
    }

    /// Whether the clients are wrong on purpose in this way.
    pub(crate) fn has_mutant(&self, name: &str) -> bool {
        self.mutant.as_deref() == Some(name)
    }
}

/// Milliseconds since 1970, as tasks have them.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
