//! What lies on which desk.

use std::collections::BTreeSet;

use rusqlite::Connection;
use steadfast_store::{ActivityLease, Held, Lease, Result, TaskKey};

use super::Readers;
use crate::{row, tx::all};

impl Readers {
    /// Every task on a desk.
    pub(crate) fn held(&self, desk: i64) -> Result<Vec<Held>> {
        let sql = "SELECT key, epoch, status, (SELECT max(seq) FROM inbox WHERE task = key)
                   FROM task INDEXED BY task_desk WHERE desk = ? AND desk > 0";
        let mut held = self.point(|conn| {
            all(conn, sql, [desk], |r| {
                let lease = Lease { key: TaskKey(r.get(0)?), epoch: r.get(1)? };
                Ok(Held { lease, status: row::status(r, 2)?, mail: r.get(3)? })
            })
        })?;
        held.sort_unstable_by_key(|held| held.lease.key);
        Ok(held)
    }

    pub(crate) fn held_activities(&self, desk: i64) -> Result<Vec<ActivityLease>> {
        let sql = "SELECT key, epoch FROM activity WHERE desk = ? AND desk > 0 ORDER BY key";
        let lease = |r: &rusqlite::Row<'_>| Ok(ActivityLease { key: r.get(0)?, epoch: r.get(1)? });
        self.point(|conn| all(conn, sql, [desk], lease))
    }
}

/// Desks that hold something. Skips from one to the next.
pub(crate) fn busy(conn: &Connection) -> rusqlite::Result<BTreeSet<i64>> {
    let mut busy = BTreeSet::new();
    for sql in [
        "SELECT min(desk) FROM task INDEXED BY task_desk WHERE desk > 0 AND desk > ?",
        "SELECT min(desk) FROM activity WHERE desk > 0 AND desk > ?",
    ] {
        let mut statement = conn.prepare_cached(sql)?;
        let mut last = 0;
        while let Some(desk) = statement.query_row([last], |r| r.get::<_, Option<i64>>(0))? {
            busy.insert(desk);
            last = desk;
        }
    }
    Ok(busy)
}
