//! Taking activities from the queue.

use steadfast_store::{ActivityRow, ClaimActivities};

use super::{Done, Solo, Tx};
use crate::{
    conn::{Conn, Param},
    core::Core,
    news::News,
    row::{self, activity_columns},
    text,
};

/// Those that are due go back to the queue. With a desk, or somebody outside, a heartbeat is overdue:
/// that is another attempt.
pub(crate) const DUE: &str = "
    WITH due AS (
        SELECT key FROM activity WHERE due IS NOT NULL AND due <= $1
        ORDER BY due, key LIMIT 16384 FOR NO KEY UPDATE SKIP LOCKED
    ), ranked AS (
        SELECT a.key, row_number() OVER (ORDER BY a.due, a.key) AS place
        FROM due JOIN activity a ON a.key = due.key
    )
    UPDATE activity a SET
        epoch = a.epoch + CASE WHEN a.desk = 0 THEN 0 ELSE 1 END,
        attempt = least(a.attempt + CASE WHEN a.desk = 0 THEN 0 ELSE 1 END, 4294967295),
        desk = 0, due = NULL, rank = ($2::bigint << 16) + ranked.place
    FROM ranked WHERE a.key = ranked.key RETURNING 1";

pub(crate) const ANY: &str = "
    SELECT EXISTS (SELECT FROM activity WHERE due IS NOT NULL AND due <= $2)
        OR EXISTS (
            SELECT FROM unnest($1::text[]) AS n (name)
            CROSS JOIN LATERAL (
                SELECT FROM activity a WHERE a.name = n.name AND a.rank IS NOT NULL LIMIT 1) AS found)";

/// Those that were queued first.
pub(crate) const PICK: &str = "
    SELECT head.key FROM unnest($1::text[]) AS n (name)
    CROSS JOIN LATERAL (
        SELECT a.key, a.rank FROM activity a WHERE a.name = n.name AND a.rank IS NOT NULL
        ORDER BY a.rank LIMIT $2::bigint FOR NO KEY UPDATE SKIP LOCKED) AS head
    ORDER BY head.rank LIMIT $2::bigint";

pub(crate) const TAKE: &str = concat!(
    "WITH taken AS (
        UPDATE activity a SET desk = $2, rank = NULL, due = NULL, epoch = a.epoch + 1
        FROM unnest($1::bigint[]) AS u (key) WHERE a.key = u.key RETURNING a.*
     )
     SELECT ",
    activity_columns!(),
    " FROM taken a JOIN task t ON t.key = a.task"
);

pub(crate) struct ClaimWork {
    claim: ClaimActivities,
    names: Vec<String>,
}

impl ClaimWork {
    pub(crate) fn new(claim: ClaimActivities) -> ClaimWork {
        let mut names: Vec<String> =
            claim.names.iter().map(|name| text::stored(name).into_owned()).collect();
        names.sort_unstable();
        names.dedup();
        ClaimWork { claim, names }
    }
}

impl Solo for ClaimWork {
    type Answer = Vec<ActivityRow>;

    async fn idle(&self, conn: &Conn, _: &Core) -> Done<Option<Vec<ActivityRow>>> {
        let params: [Param<'_>; 2] = [&self.names, &self.claim.now.0];
        let any = match conn.first(ANY, &params).await? {
            Some(found) => found.try_get(0)?,
            None => false,
        };
        Ok((!any).then(Vec::new))
    }

    async fn run(&self, tx: &Tx<'_>) -> Done<(Vec<ActivityRow>, News)> {
        let due = !tx.all(DUE, &[&self.claim.now.0, &tx.moment]).await?.is_empty();
        let limit = i64::try_from(self.claim.limit).unwrap_or(i64::MAX);
        let mut keys: Vec<i64> = Vec::new();
        if limit > 0 {
            for row in tx.all(PICK, &[&self.names, &limit]).await? {
                keys.push(row.try_get(0)?);
            }
        }
        if keys.is_empty() {
            return Ok((Vec::new(), News { written: due, work: due, ..News::default() }));
        }
        let mut rows = Vec::with_capacity(keys.len());
        for row in tx.all(TAKE, &[&keys, &tx.desk]).await? {
            rows.push(row::activity(&row)?);
        }
        let place = |row: &ActivityRow| keys.iter().position(|key| *key == row.key);
        rows.sort_by_key(place);
        Ok((rows, News { work: due, ..News::written() }))
    }
}
