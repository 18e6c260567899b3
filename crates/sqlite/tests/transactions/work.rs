//! Work that is handed to a store without an engine, and a judge that notes what it hears.

use std::sync::{Arc, Mutex};

use steadfast_core::OpId;
use steadfast_sqlite::{InSqlite, Options, Store, Transaction, in_sqlite, rusqlite::Connection};
use steadfast_store::{
    Error, Join, Judge, Lease, Overruled, Parcel, Prepared, Result, Store as _, Turn, Turned, Work,
};

use crate::common::turn;

/// What a closure comes to.
pub(crate) type Said = std::result::Result<i64, String>;

/// The operation that all work belongs to.
pub(crate) const OP: OpId = OpId(7);

/// What was heard of closures, in order.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Judge<Said> for Notes {
    fn run(&mut self, code: Box<dyn FnOnce() -> Said + '_>) -> Option<Vec<u8>> {
        match code() {
            Ok(id) => {
                self.add(format!("ok {id}"));
                Some(format!("booked {id}").into_bytes())
            }
            Err(text) => {
                self.add(format!("failed: {text}"));
                None
            }
        }
    }

    fn overrule(&mut self, why: Overruled) {
        self.add(format!("{why:?}"));
    }
}

/// A file with a table of the author's.
pub(crate) struct Bank {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) notes: Notes,
}

const TABLES: &str = "
    CREATE TABLE payment (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL UNIQUE);
    CREATE TABLE account (id INTEGER PRIMARY KEY);
    CREATE TABLE entry (account INTEGER REFERENCES account DEFERRABLE INITIALLY DEFERRED);";

impl Bank {
    pub(crate) fn open() -> Bank {
        let dir = tempfile::tempdir().unwrap();
        let store = Options::new(dir.path().join("tasks.db")).open().unwrap();
        let bank = Bank { dir, store, notes: Notes::default() };
        bank.file().execute_batch(TABLES).unwrap();
        bank
    }

    /// Another connection to the file, as a program of the author's has it.
    pub(crate) fn file(&self) -> Connection {
        Connection::open(self.dir.path().join("tasks.db")).unwrap()
    }

    pub(crate) fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.file().query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    /// Makes a closure ready to be committed.
    pub(crate) async fn parcel<F>(&self, mut work: InSqlite<F>) -> Parcel
    where
        F: FnMut(&Transaction<'_>) -> Said + Send + 'static,
    {
        match work.prepare(&self.store, Box::new(self.notes.clone())).await {
            Prepared::Ready(parcel) => parcel,
            _ => panic!("it is for this store"),
        }
    }

    /// Commits a closure with a turn.
    pub(crate) async fn commit<F>(
        &self,
        lease: Lease,
        first: u64,
        work: InSqlite<F>,
    ) -> Result<Turned>
    where
        F: FnMut(&Transaction<'_>) -> Said + Send + 'static,
    {
        let parcel = self.parcel(work).await;
        let turn = Turn { events: Vec::new(), ..turn(lease, first, b"") };
        self.store.turn_with(turn, Join { op: OP, parcel }).await
    }

    /// What comes of one statement as a transaction, as a task that gets no further.
    pub(crate) async fn run(&self, lease: Lease, sql: &'static str) -> Vec<String> {
        let run = in_sqlite(move |tx: &Transaction<'_>| {
            tx.execute_batch(sql).map(|()| 0).map_err(|e| e.to_string())
        });
        let answer = self.commit(lease, 1, run).await;
        assert!(matches!(answer, Err(Error::Refused(_))), "{sql}: {answer:?}");
        self.notes.take()
    }
}

pub(crate) fn pays(cents: i64) -> InSqlite<impl FnMut(&Transaction<'_>) -> Said + Send + 'static> {
    in_sqlite(move |tx: &Transaction<'_>| pay(tx, cents))
}

pub(crate) fn pay(tx: &Transaction<'_>, cents: i64) -> Said {
    let sql = "INSERT INTO payment (cents) VALUES (?)";
    tx.execute(sql, [cents]).map_err(|e| e.to_string())?;
    Ok(tx.last_insert_rowid())
}
