//! Sessions, and notices to all of them.

use rusqlite::params;
use steadfast_core::Timestamp;
use steadfast_store::SessionRow;

use super::Done;
use crate::tx::Tx;

impl Tx<'_> {
    pub(crate) fn begin_session(&self, session: &SessionRow, most: usize) -> Done<()> {
        let sql = "INSERT INTO session (id, expires, body) VALUES (?, ?, ?)
                   ON CONFLICT DO UPDATE SET expires = excluded.expires, body = excluded.body";
        self.run(sql, params![session.id, session.expires.0, session.body])?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let count = self.first("SELECT count(*) FROM session", [], |r| r.get(0))?.unwrap_or(0);
        if count > most {
            let sql = "DELETE FROM session WHERE id IN
                       (SELECT id FROM session ORDER BY expires, id LIMIT ?)";
            self.run(sql, [count - most])?;
        }
        Ok(())
    }

    pub(crate) fn keep_session(&self, session: &SessionRow, before: &[u8]) -> Done<bool> {
        let sql =
            "UPDATE session SET expires = max(expires, ?), body = ? WHERE id = ? AND body = ?";
        Ok(self.run(sql, params![session.expires.0, session.body, session.id, before])? > 0)
    }

    pub(crate) fn touch_session(&self, id: &str, expires: Timestamp) -> Done<bool> {
        let sql = "UPDATE session SET expires = max(expires, ?) WHERE id = ?";
        Ok(self.run(sql, params![expires.0, id])? > 0)
    }

    pub(crate) fn post(&self, body: &[u8], until: Timestamp, most: usize) -> rusqlite::Result<u64> {
        let sql = "INSERT INTO notice (until, body) VALUES (?, ?) RETURNING n";
        let n = self.first(sql, params![until.0, body], |r| r.get::<_, i64>(0))?.unwrap_or(0);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.run("DELETE FROM notice WHERE n <= ?", [n.saturating_sub(most)])?;
        Ok(u64::try_from(n).unwrap_or(0))
    }

    pub(crate) fn end_session(&self, id: &str) -> Done<bool> {
        Ok(self.run("DELETE FROM session WHERE id = ?", [id])? > 0)
    }
}
