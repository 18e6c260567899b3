//! What all parts of a run share.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    process::Stdio,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::process::Command;

use crate::book::Book;

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
    server: Mutex<Option<SocketAddr>>,
    /// The calls that end with their connection, by its port.
    watched: Mutex<BTreeMap<u16, u64>>,
    /// No more faults, and no new calls.
    calm: AtomicBool,
    lives: AtomicU32,
    /// When each process began to end, of those that were ended.
    ends: Mutex<BTreeMap<u32, i64>>,
    pub(crate) connections: AtomicU64,
    pub(crate) faults: AtomicU64,
    pub(crate) kills: AtomicU64,
    /// Times that the server was told to stop.
    pub(crate) stops: AtomicU64,
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
    ) -> World {
        World {
            seed,
            proxy,
            dir,
            program,
            mutant,
            book: Book::default(),
            server: Mutex::new(None),
            watched: Mutex::default(),
            calm: AtomicBool::new(false),
            lives: AtomicU32::new(0),
            ends: Mutex::default(),
            connections: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            kills: AtomicU64::new(0),
            stops: AtomicU64::new(0),
            wrong: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn server_address(&self) -> Option<SocketAddr> {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn serve_at(&self, address: Option<SocketAddr>) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// Wants to know when the connection from this port is closed on the side of the server.
    pub(crate) fn watch(&self, port: u16, number: u64) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(port, number);
    }

    /// It is.
    pub(crate) fn closed(&self, port: u16) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&port);
        if let Some(number) = watched {
            self.book.note(number, "its connection is closed");
            self.book.change(number, |call| call.closed = Some(now()));
        }
    }

    /// This process is about to be ended: from now on another may go on with what it is at.
    pub(crate) fn ends_now(&self, life: u32) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(life, now());
    }

    pub(crate) fn ends(&self) -> BTreeMap<u32, i64> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

    /// One more process of the server. It dies with this one.
    pub(crate) fn command(&self) -> (u32, Command) {
        let life = self.lives.fetch_add(1, Ordering::Relaxed) + 1;
        let mut command = Command::new(&self.program);
        command
            .arg("--store")
            .arg(self.store())
            .arg("--effects")
            .arg(self.effects())
            .args(["--life", &life.to_string(), "--drain-seconds", "1"])
            // Power cuts are not tried here, and the disk is others' as well.
            .arg("--process-crash-only")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        if let Some(mutant) = &self.mutant {
            // Nobody waits for what is seen sooner.
            command.args(["--mutant", mutant, "--wait-seconds", "4"]);
        }
        (life, command)
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
