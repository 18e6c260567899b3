//! Removing what is over.

use steadfast_core::Timestamp;
use steadfast_store::{Swept, TaskKey, Which, task_scope};

use super::{Done, Solo, Tx};
use crate::{
    conn::Conn,
    core::{Core, alive},
    news::News,
    row,
    work::sql::{REMOVAL, SCOPES},
};

/// Whether there is anything.
pub(crate) const ANY: &str = "
    SELECT EXISTS (SELECT FROM task WHERE expires IS NOT NULL AND expires <= $1)
        OR EXISTS (SELECT FROM session WHERE expires <= $1)
        OR EXISTS (SELECT FROM kept WHERE until <= $1)
        OR EXISTS (SELECT FROM notice WHERE until <= $1)";

/// Tasks that have expired, but for those that have ended and have something left to do.
pub(crate) const OVER: &str = "
    SELECT key, id, status >= 7 FROM task
    WHERE expires IS NOT NULL AND expires <= $1
        AND (status < 7 OR desk = -1 OR (desk IS NULL AND wake IS NULL))
    ORDER BY expires, key LIMIT $2::bigint FOR UPDATE SKIP LOCKED";

pub(crate) const SESSIONS: &str = "DELETE FROM session WHERE expires <= $1";
pub(crate) const KEPT: &str = "DELETE FROM kept WHERE until <= $1";
pub(crate) const NOTICES: &str = "DELETE FROM notice WHERE until <= $1";

/// Desks that nobody has to adopt, as they held nothing, and counts of batches that nobody will ask
/// for any more.
pub(crate) const DESKS: &str = concat!(
    "DELETE FROM desk WHERE n IN (
        SELECT d.n FROM desk d WHERE d.until < clock_timestamp() - interval '1 minute'
            AND NOT ",
    alive!(),
    "
            AND NOT EXISTS (SELECT FROM task t WHERE t.desk = d.n AND t.desk > 0)
            AND NOT EXISTS (SELECT FROM activity a WHERE a.desk = d.n AND a.desk > 0)
        FOR UPDATE SKIP LOCKED)"
);
pub(crate) const WRITERS: &str = "
    DELETE FROM writer w WHERE since < clock_timestamp() - interval '1 day'
        AND NOT EXISTS (SELECT FROM desk d WHERE d.n = w.desk)";

pub(crate) struct Sweep {
    pub(crate) now: Timestamp,
    pub(crate) limit: usize,
}

impl Solo for Sweep {
    type Answer = Swept;

    async fn idle(&self, conn: &Conn, _: &Core) -> Done<Option<Swept>> {
        conn.query(DESKS, &[]).await?;
        conn.query(WRITERS, &[]).await?;
        let any = match conn.first(ANY, &[&self.now.0]).await? {
            Some(found) => found.try_get(0)?,
            None => false,
        };
        Ok((!any).then(Swept::default))
    }

    async fn run(&self, tx: &Tx<'_>) -> Done<(Swept, News)> {
        for sql in [SESSIONS, KEPT, NOTICES] {
            tx.all(sql, &[&self.now.0]).await?;
        }
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        let found = tx.all(OVER, &[&self.now.0, &limit.saturating_add(1)]).await?;
        let mut swept = Swept { more: found.len() > self.limit, ..Swept::default() };
        let (mut keys, mut scopes): (Vec<i64>, Vec<String>) = (Vec::new(), Vec::new());
        for row in found.iter().take(self.limit) {
            let id = row::id(row, 1)?;
            match row.try_get(2)? {
                true => {
                    keys.push(row.try_get(0)?);
                    scopes.push(task_scope(&id));
                }
                false => swept.overdue.push(id),
            }
        }
        if !keys.is_empty() {
            for sql in REMOVAL {
                tx.all(sql, &[&keys]).await?;
            }
            tx.all(SCOPES, &[&scopes]).await?;
        }
        swept.removed = keys.len() as u64;
        let tasks = Which::These(keys.into_iter().map(TaskKey).collect());
        // Sessions may have been among it, and an activity of what was removed may run somewhere.
        let every_desk = swept.removed > 0;
        Ok((swept, News { asked: true, every_desk, tasks, ..News::written() }))
    }
}
