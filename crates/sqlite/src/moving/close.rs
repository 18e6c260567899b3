//! Closing a file whose tasks go on elsewhere.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use steadfast_store::moving::{Error, Result};

use super::{failed, processes};
use crate::{
    Options,
    desk::Desks,
    schema::{self, Found},
};

impl Options {
    /// Closes the file, unless it is closed already. Whether it did.
    ///
    /// In this order: it is closed, then desks are looked for. A process that opens it takes a desk first and
    /// looks at the file then, so that one of the two sees the other.
    pub(super) fn close(&self, conn: &mut Connection, desks: &Desks, to: &str) -> Result<bool> {
        let refuse_company = || match desks.alive() {
            0 => Ok(()),
            count => {
                let store = self.path.display().to_string();
                Err(Error::export_in_use(store, processes(count)))
            }
        };
        refuse_company()?;
        self.check_name(conn)?;
        let closed = close(conn, to).map_err(failed)?;
        if let Err(error) = refuse_company() {
            if closed {
                open_again(conn).map_err(failed)?;
            }
            return Err(error);
        }
        Ok(closed)
    }

    /// What closes a file is a table, whose name somebody may have used who is not kept from it.
    fn check_name(&self, conn: &Connection) -> Result<()> {
        if matches!(schema::look(conn).map_err(failed)?, Found::Moved { .. }) {
            return Ok(());
        }
        let sql = "SELECT type FROM sqlite_schema WHERE name = 'moved' COLLATE NOCASE AND type <> 'trigger'";
        let taken = conn.query_row(sql, [], |row| row.get::<_, String>(0)).optional();
        match taken.map_err(failed)? {
            None => Ok(()),
            Some(kind) => Err(Error::Store(format!(
                "{} has a {kind} of yours with the name \"moved\", which is needed to close it: rename it first",
                self.path.display()
            ))),
        }
    }
}

fn close(conn: &mut Connection, to: &str) -> rusqlite::Result<bool> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if matches!(schema::look(&tx)?, Found::Moved { .. }) {
        return Ok(false);
    }
    tx.execute_batch("CREATE TABLE moved (place TEXT NOT NULL, at TEXT NOT NULL)")?;
    let sql = "INSERT INTO moved VALUES (?, strftime('%Y-%m-%d %H:%M:%S UTC', 'now'))";
    tx.execute(sql, [to])?;
    tx.pragma_update(None, "application_id", schema::MOVED)?;
    tx.commit()?;
    Ok(true)
}

/// Takes that back. Whether there was something to take back.
pub(super) fn open_again(conn: &mut Connection) -> rusqlite::Result<bool> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !matches!(schema::look(&tx)?, Found::Moved { .. }) {
        return Ok(false);
    }
    tx.execute_batch("DROP TABLE moved")?;
    tx.pragma_update(None, "application_id", schema::APPLICATION)?;
    tx.commit()?;
    Ok(true)
}
