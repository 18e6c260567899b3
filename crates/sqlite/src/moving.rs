//! Giving out all that is in a file, and taking in what comes from another store.

mod close;
mod read;
mod write;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use steadfast_store::moving::{Error, Purpose, Reader, Result, Sink, Tally};

use crate::{
    OpenError, Options,
    desk::Desks,
    schema::{self, Found},
};

/// What goes wrong between us and SQLite, in the words of a move.
fn failed(error: rusqlite::Error) -> Error {
    Error::Store(error.to_string())
}

fn unopened(error: OpenError) -> Error {
    Error::Store(error.to_string())
}

fn processes(count: usize) -> String {
    match count {
        1 => "a process".into(),
        many => format!("{many} processes"),
    }
}

impl Options {
    /// The version of the schema that [`export`](Options::export) reads, for the header of a file.
    pub const SCHEMA: i64 = schema::VERSION;

    /// Gives all that is in the file to `out`, as it was at one moment. Blocks for as long as that takes.
    ///
    /// With [`Purpose::Move`] it is refused while a process has the file open, and the file is closed before
    /// anything is read: no process can open it any more until [`reopen`](Options::reopen). It is open again
    /// if this fails; if this process dies meanwhile it stays closed, and can be exported again.
    pub fn export(&self, purpose: &Purpose, out: &mut Sink<'_>) -> Result<()> {
        let desks = Desks::beside(&self.path);
        let mut conn = self.connect_old(&desks)?;
        let closed = match purpose {
            Purpose::Move(to) => self.close(&mut conn, &desks, to)?,
            Purpose::Backup => false,
        };
        let done = self.give_out(&conn, &desks, out);
        if done.is_err() && closed {
            // Otherwise the next one who opens it says how that is done.
            let _ = close::open_again(&mut conn);
        }
        done
    }

    fn give_out(&self, conn: &Connection, desks: &Desks, out: &mut Sink<'_>) -> Result<()> {
        let view = conn.unchecked_transaction().map_err(failed)?;
        read::all(&view, desks, out)
    }

    /// The tables in the file that are not the store's: an export does not have them.
    pub fn foreign_tables(&self) -> Result<Vec<String>> {
        let conn = self.connect_old(&Desks::beside(&self.path))?;
        schema::foreign_tables(&conn).map_err(failed)
    }

    /// A connection to a file that must be there, and have the schema of today. Also to one that is closed.
    fn connect_old(&self, desks: &Desks) -> Result<Connection> {
        if !self.path.is_file() {
            let path = self.path.display();
            return Err(Error::Store(format!("there is no file {path} to export")));
        }
        let mut conn = self.connect(OpenFlags::empty()).map_err(|e| unopened(self.failed(&e)))?;
        let found = schema::look(&conn).map_err(|e| unopened(self.failed(&e)))?;
        let version = match found {
            Found::Moved { .. } => conn
                .query_row("PRAGMA user_version", [], |row| row.get(0))
                .map_err(|e| unopened(self.failed(&e)))?,
            Found::Empty => 0,
            Found::Ours(version) => version,
            Found::Foreign => schema::VERSION,
        };
        let closed = matches!(found, Found::Moved { .. });
        let path = self.path.display();
        if !closed {
            self.accept(Ok(found)).map_err(unopened)?;
        }
        self.check(&conn).map_err(unopened)?;
        match version {
            schema::VERSION => {}
            0 => return Err(Error::Store(format!("there is nothing in {path} to export"))),
            _ if closed || desks.alive() > 0 => {
                let text = format!(
                    "{path} has schema version {version}, and this program has {}: open it once with a \
                     server of this version, then export it",
                    schema::VERSION
                );
                return Err(Error::Store(text));
            }
            _ => self.admit(&mut conn).map_err(unopened)?,
        }
        Ok(conn)
    }

    /// Takes in all that a file holds, reads it back, and compares: all of it is there then, or nothing.
    ///
    /// The store must be empty; its file is made if there is none. It is one transaction: whatever goes wrong,
    /// and if this process dies, nothing is left of it. Blocks for as long as that takes.
    pub fn import(&self, from: &mut Reader) -> Result<Tally> {
        self.check_place().map_err(unopened)?;
        let new = !self.path.exists();
        let done = self.take_in(from);
        if done.is_err() && new {
            for end in ["", "-wal", "-shm"] {
                let mut path = self.path.as_os_str().to_owned();
                path.push(end);
                let _ = std::fs::remove_file(path);
            }
        }
        done
    }

    fn take_in(&self, from: &mut Reader) -> Result<Tally> {
        let mut conn =
            self.connect(OpenFlags::SQLITE_OPEN_CREATE).map_err(|e| unopened(self.failed(&e)))?;
        self.admit(&mut conn).map_err(unopened)?;
        let store = self.path.display().to_string();
        let desks = Desks::beside(&self.path);
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        match desks.alive() {
            0 => {}
            count => return Err(Error::import_in_use(store, processes(count))),
        }
        if let Some(table) = write::occupied(&tx).map_err(failed)? {
            return Err(Error::NotEmpty { store, table: table.into() });
        }
        write::all(&tx, from)?;
        read::all(&tx, &desks, &mut |record| from.came_back(&record))?;
        let tally = from.compare()?;
        tx.commit().map_err(failed)?;
        // Into the one file, so that nothing but it need be copied. If that fails it is done later.
        let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        Ok(tally)
    }

    /// Lets servers open a file again that was exported to be moved. Whether it was closed.
    pub fn reopen(&self) -> Result<bool> {
        if !self.path.is_file() {
            return Err(Error::Store(format!("there is no file {}", self.path.display())));
        }
        let mut conn = self.connect(OpenFlags::empty()).map_err(|e| unopened(self.failed(&e)))?;
        match schema::look(&conn).map_err(|e| unopened(self.failed(&e)))? {
            Found::Moved { .. } => close::open_again(&mut conn).map_err(failed),
            found => self.accept(Ok(found)).map_err(unopened).map(|()| false),
        }
    }
}
