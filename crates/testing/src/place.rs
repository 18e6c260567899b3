//! What outlives a server: its store and its port.

use std::{net::TcpListener, sync::Arc};

use steadfast_sqlite::{Durability, Options};
use steadfast_store::{Disk, Store};

/// Where the store of a server is.
pub(crate) enum Place {
    Memory(Disk),
    Sqlite(tempfile::TempDir),
}

impl Place {
    pub(crate) fn sqlite() -> Place {
        Place::Sqlite(directory())
    }

    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Place::Memory(disk) => Arc::new(disk.open()),
            Place::Sqlite(dir) => {
                // The machine does not die in a test.
                let options = Options::new(dir.path().join("store.db"));
                match options.durability(Durability::ProcessCrashOnly).open() {
                    Ok(store) => Arc::new(store),
                    Err(error) => panic!("the store can't be opened: {error}"),
                }
            }
        }
    }
}

pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary directory: {error}"))
}

/// A port that nobody listens on, below those that the system gives to connections: one of these could
/// take it while the server is down.
pub(crate) fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = (std::process::id() % 400) as u16 * 50;
    let found = (0..20_000)
        .map(|_| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            10_000 + (begin.wrapping_add(next)) % 20_000
        })
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    found.unwrap_or_else(|| panic!("no port is free"))
}
