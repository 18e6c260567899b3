//! Removing what is over, in parts that are transactions of their own.
//!
//! What has expired can be much: histories of thousands of large events, on a disk that is slow. A part is so small
//! that it is done within the time that an answer may take, so that what was removed stays removed; and it locks
//! nothing but that. All of it is done in a lane of its own: a part that takes long is in nobody's way.

use std::collections::HashMap;

use steadfast_core::{TaskId, Timestamp};
use steadfast_store::{Result, Swept, TaskKey, Which, task_scope};

use super::{Desk, Done, Solo, Tx};
use crate::{
    conn::Conn,
    core::{Core, alive},
    news::News,
    row,
    work::sql::{REMOVAL, SCOPES},
};

/// Of sessions, kept messages and notices, whether there are any.
pub(crate) const ANY: &str = "
    SELECT EXISTS (SELECT FROM session WHERE expires <= $1),
           EXISTS (SELECT FROM kept WHERE until <= $1),
           EXISTS (SELECT FROM notice WHERE until <= $1)";

/// Tasks that have expired, but for those that have ended and have something left to do.
pub(crate) const OVER: &str = "
    SELECT key, id, status >= 7 FROM task
    WHERE expires IS NOT NULL AND expires <= $1
        AND (status < 7 OR desk = -1 OR (desk IS NULL AND wake IS NULL))
    ORDER BY expires, key LIMIT $2::bigint";

/// Those that are to be removed, if nobody else is at them. Who runs one that is overdue is not held up.
pub(crate) const LOCK: &str = "
    SELECT key, id FROM task
    WHERE key = ANY($1::bigint[]) AND status >= 7 AND expires <= $2
        AND (desk = -1 OR (desk IS NULL AND wake IS NULL))
    ORDER BY key FOR UPDATE SKIP LOCKED";

/// Some events of these tasks: 512, or 4 MiB of them. The newest first, so that what is left of a history has
/// no gap.
pub(crate) const EVENTS: &str = "
    WITH last AS (
        SELECT e.task, e.seq, e.size FROM unnest($1::bigint[]) AS u (task)
        CROSS JOIN LATERAL (
            SELECT task, seq, pg_column_size(body) AS size FROM event
            WHERE task = u.task ORDER BY seq DESC LIMIT 512) AS e
        LIMIT 512
    ), summed AS (
        SELECT task, seq, size, sum(size) OVER (ORDER BY task, seq DESC) AS upto FROM last
    ), part AS (
        SELECT task, seq FROM summed WHERE upto - size < 4194304
    )
    DELETE FROM event e USING part WHERE e.task = part.task AND e.seq = part.seq";

/// Those that have more.
pub(crate) const LEFT: &str = "
    SELECT u.task FROM unnest($1::bigint[]) AS u (task)
    CROSS JOIN LATERAL (SELECT FROM event WHERE task = u.task LIMIT 1) AS e";

/// What belongs to a session goes with it.
pub(crate) const SESSIONS: &str = "
    WITH part AS (
        SELECT id FROM session WHERE expires <= $1
        ORDER BY expires, id LIMIT 256 FOR UPDATE SKIP LOCKED
    )
    DELETE FROM session s USING part WHERE s.id = part.id RETURNING 1";
pub(crate) const KEPT: &str = "
    WITH part AS (
        SELECT n FROM kept WHERE until <= $1 ORDER BY until LIMIT 256 FOR UPDATE SKIP LOCKED
    )
    DELETE FROM kept k USING part WHERE k.n = part.n RETURNING 1";
pub(crate) const NOTICES: &str = "
    WITH part AS (
        SELECT n FROM notice WHERE until <= $1 ORDER BY until LIMIT 256 FOR UPDATE SKIP LOCKED
    )
    DELETE FROM notice o USING part WHERE o.n = part.n RETURNING 1";
/// How many of those are removed in one part.
const ROWS: usize = 256;

/// Desks that nobody has to adopt, as they held nothing. Their batches may still be asked for, for a day from now.
pub(crate) const DESKS: &str = concat!(
    "WITH gone AS (
        DELETE FROM desk WHERE n IN (
            SELECT d.n FROM desk d WHERE d.until < clock_timestamp() - interval '1 minute'
                AND NOT ",
    alive!(),
    "
                AND NOT EXISTS (SELECT FROM task t WHERE t.desk = d.n AND t.desk > 0)
                AND NOT EXISTS (SELECT FROM activity a WHERE a.desk = d.n AND a.desk > 0)
            FOR UPDATE SKIP LOCKED)
        RETURNING n
    )
    UPDATE writer w SET since = clock_timestamp() FROM gone WHERE w.desk = gone.n"
);
/// Counts of batches that nobody will ask for any more.
pub(crate) const WRITERS: &str = "
    DELETE FROM writer w WHERE since < clock_timestamp() - interval '1 day'
        AND NOT EXISTS (SELECT FROM desk d WHERE d.n = w.desk)";

/// How many tasks are removed in one part,
const TASKS: usize = 64;
/// and in how many parts, until it is said how far it is.
const PARTS: usize = 64;

/// Removes what is over, as far as that goes in one call.
pub(crate) async fn sweep(desk: &Desk, core: &Core, now: Timestamp, limit: usize) -> Result<Swept> {
    let over = desk.call(core, Look { now, limit }).await?;
    let mut swept = Swept { more: over.tasks.len() > limit, ..Swept::default() };
    let mut ended = Vec::new();
    for (key, id, has_ended) in over.tasks.into_iter().take(limit) {
        match has_ended {
            true => ended.push(key),
            false => swept.overdue.push(id),
        }
    }
    match remove(desk, core, now, &over.rest, &ended, &mut swept).await {
        Ok(()) => Ok(swept),
        Err(error) if swept.overdue.is_empty() => Err(error),
        Err(error) => {
            // What can't be removed must not keep others from their end.
            tracing::warn!(%error, "can't remove what has expired; trying again");
            Ok(Swept { more: false, ..swept })
        }
    }
}

async fn remove(
    desk: &Desk,
    core: &Core,
    now: Timestamp,
    rest: &[&'static str],
    ended: &[i64],
    swept: &mut Swept,
) -> Result<()> {
    for sql in rest {
        swept.more |= desk.call(core, Rest { sql, now }).await?;
    }
    let mut parts = 0;
    for keys in ended.chunks(TASKS) {
        let mut keys = keys.to_vec();
        while !keys.is_empty() {
            if parts == PARTS {
                swept.more = true;
                return Ok(());
            }
            parts += 1;
            let done = desk.call(core, Ended { keys, now }).await?;
            swept.removed += done.removed;
            keys = done.left;
        }
    }
    Ok(())
}

/// What there is to do.
#[derive(Default)]
struct Over {
    /// Statements that remove something.
    rest: Vec<&'static str>,
    /// By key and id, with whether it has ended.
    tasks: Vec<(i64, TaskId, bool)>,
}

/// Looks for it, and holds nobody up.
struct Look {
    now: Timestamp,
    limit: usize,
}

impl Solo for Look {
    type Answer = Over;

    async fn idle(&self, conn: &Conn, _: &Core) -> Done<Option<Over>> {
        conn.query(DESKS, &[]).await?;
        conn.query(WRITERS, &[]).await?;
        let mut over = Over::default();
        if let Some(any) = conn.first(ANY, &[&self.now.0]).await? {
            for (at, sql) in [SESSIONS, KEPT, NOTICES].into_iter().enumerate() {
                if any.try_get(at)? {
                    over.rest.push(sql);
                }
            }
        }
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX).saturating_add(1);
        for row in conn.query(OVER, &[&self.now.0, &limit]).await? {
            over.tasks.push((row.try_get(0)?, row::id(&row, 1)?, row.try_get(2)?));
        }
        Ok(Some(over))
    }

    /// It never comes to that.
    async fn run(&self, _: &Tx<'_>) -> Done<(Over, News)> {
        Ok((Over::default(), News::default()))
    }
}

/// Removes some sessions, kept messages or notices. The answer is whether there may be more.
struct Rest {
    sql: &'static str,
    now: Timestamp,
}

impl Solo for Rest {
    type Answer = bool;

    async fn run(&self, tx: &Tx<'_>) -> Done<(bool, News)> {
        let count = tx.all(self.sql, &[&self.now.0]).await?.len();
        // Who has a stream of a session wants to know.
        let news = News { written: count > 0, asked: count > 0, ..News::default() };
        Ok((count >= ROWS, news))
    }
}

/// Removes tasks, or a part of what is theirs. They have expired, so nobody is shown what is left.
struct Ended {
    keys: Vec<i64>,
    now: Timestamp,
}

#[derive(Default)]
struct Part {
    removed: u64,
    left: Vec<i64>,
}

impl Solo for Ended {
    type Answer = Part;

    async fn run(&self, tx: &Tx<'_>) -> Done<(Part, News)> {
        let mut scopes = HashMap::new();
        for row in tx.all(LOCK, &[&self.keys, &self.now.0]).await? {
            scopes.insert(row.try_get::<_, i64>(0)?, task_scope(&row::id(&row, 1)?));
        }
        if scopes.is_empty() {
            return Ok((Part::default(), News::default()));
        }
        // Those that expired first come first.
        let keys: Vec<i64> =
            self.keys.iter().copied().filter(|key| scopes.contains_key(key)).collect();
        tx.all(EVENTS, &[&keys]).await?;
        let mut left = Vec::new();
        for row in tx.all(LEFT, &[&keys]).await? {
            left.push(row.try_get::<_, i64>(0)?);
        }
        let gone: Vec<i64> = keys.into_iter().filter(|key| !left.contains(key)).collect();
        if gone.is_empty() {
            return Ok((Part { removed: 0, left }, News::written()));
        }
        for sql in REMOVAL {
            tx.all(sql, &[&gone]).await?;
        }
        let scopes: Vec<&String> = gone.iter().filter_map(|key| scopes.get(key)).collect();
        tx.all(SCOPES, &[&scopes]).await?;
        let done = Part { removed: gone.len() as u64, left };
        let tasks = Which::These(gone.into_iter().map(TaskKey).collect());
        // An activity of what was removed may run somewhere.
        Ok((done, News { asked: true, every_desk: true, tasks, ..News::written() }))
    }
}
