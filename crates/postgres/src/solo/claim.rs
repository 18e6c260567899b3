//! Taking tasks from the ready pile.

use std::collections::{BTreeMap, HashMap};

use steadfast_store::{Change, ClaimTasks, Claimed, InboxRow, TaskKey, Which};

use super::{Done, Fault, Solo, Tx};
use crate::{
    conn::Conn,
    core::Core,
    lane::Card,
    locks,
    news::News,
    row::{self, get, task_columns},
    text,
};

/// Tasks that became due at the same time, as many as have ranks in a moment.
pub(crate) const DUE: &str = "
    WITH due AS (
        SELECT key FROM task WHERE wake IS NOT NULL AND desk IS NULL AND wake <= $1
        ORDER BY wake, key LIMIT 16384 FOR NO KEY UPDATE SKIP LOCKED
    ), ranked AS (
        SELECT t.key, row_number() OVER (ORDER BY t.wake, t.key) AS place
        FROM due JOIN task t ON t.key = due.key
    )
    UPDATE task t SET desk = 0, wake = NULL, rank = ($2::bigint << 16) + ranked.place
    FROM ranked WHERE t.key = ranked.key RETURNING 1";

/// Whether there is something to take: for the tools and versions asked for, or due.
pub(crate) const ANY: &str = "
    SELECT EXISTS (SELECT FROM task WHERE wake IS NOT NULL AND desk IS NULL AND wake <= $4)
        OR EXISTS (
            SELECT FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS a (tool, low, high)
            CROSS JOIN LATERAL (
                SELECT FROM task t WHERE t.desk = 0 AND t.tool = a.tool
                AND (t.version BETWEEN a.low AND a.high) LIMIT 1) AS found)";

/// The tasks whose turn it is, in their order.
///
/// Skips through the index of the pile: from tool to version to owner. Of each owner, beginning
/// behind the one served last, come as many tasks as are asked for; then owners take turns.
pub(crate) const PICK: &str = "
    WITH RECURSIVE asked AS (
        SELECT DISTINCT tool, low, high
        FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS a (tool, low, high)
    ), class (tool, version, high) AS (
        SELECT a.tool, first.version, a.high FROM asked a
        CROSS JOIN LATERAL (
            SELECT t.version FROM task t
            WHERE t.desk = 0 AND t.tool = a.tool AND t.version >= a.low AND t.version <= a.high
            ORDER BY t.version LIMIT 1) AS first
        UNION
        SELECT c.tool, next.version, c.high FROM class c
        CROSS JOIN LATERAL (
            SELECT t.version FROM task t
            WHERE t.desk = 0 AND t.tool = c.tool AND t.version > c.version AND t.version <= c.high
            ORDER BY t.version LIMIT 1) AS next
    ), classes AS (
        SELECT DISTINCT tool, version FROM class
    ), owner (tool, version, owner) AS (
        SELECT c.tool, c.version, first.owner FROM classes c
        CROSS JOIN LATERAL (
            SELECT t.owner FROM task t
            WHERE t.desk = 0 AND t.tool = c.tool AND t.version = c.version
            ORDER BY t.owner LIMIT 1) AS first
        UNION ALL
        SELECT o.tool, o.version, next.owner FROM owner o
        CROSS JOIN LATERAL (
            SELECT t.owner FROM task t
            WHERE t.desk = 0 AND t.tool = o.tool AND t.version = o.version AND t.owner > o.owner
            ORDER BY t.owner LIMIT 1) AS next
    ), head AS (
        SELECT ready.key, ready.owner, ready.rank FROM owner o
        CROSS JOIN LATERAL (
            SELECT t.key, t.owner, t.rank FROM task t
            WHERE t.desk = 0 AND t.tool = o.tool AND t.version = o.version AND t.owner = o.owner
            ORDER BY t.rank LIMIT $5::bigint) AS ready
    ), turn AS (
        SELECT key, owner, row_number() OVER (PARTITION BY owner ORDER BY rank) AS turn FROM head
    )
    SELECT key FROM turn ORDER BY turn, owner <= coalesce($4::text, ''), owner LIMIT $5::bigint";

/// Some may have been changed since they were seen: those that are locked are left to who locked
/// them.
pub(crate) const LOCK: &str = "
    SELECT key, owner FROM task WHERE key = ANY($1::bigint[]) AND desk = 0
    ORDER BY key FOR NO KEY UPDATE SKIP LOCKED";

/// The first of these whose rows, histories and messages are no more than 16 MiB together, or 16,384 events; and
/// the very first in any case. What a task has is counted by its last event before any is looked at.
pub(crate) const FIT: &str = "
    WITH counted AS (
        SELECT u.key, u.place,
            coalesce((SELECT e.seq + 1 FROM event e WHERE e.task = u.key
                      ORDER BY e.seq DESC LIMIT 1), 0) AS events
        FROM unnest($1::bigint[]) WITH ORDINALITY AS u (key, place)
    ), few AS (
        SELECT key, place, sum(events) OVER (ORDER BY place) AS upto FROM counted
    ), weighed AS (
        SELECT few.key, few.place,
            octet_length(t.about) + octet_length(t.view) + coalesce(octet_length(t.outcome), 0)
            + (SELECT coalesce(sum(octet_length(e.body)), 0) FROM event e WHERE e.task = few.key)
            + (SELECT coalesce(sum(octet_length(i.body)), 0) FROM inbox i WHERE i.task = few.key)
            AS bytes
        FROM few JOIN task t ON t.key = few.key WHERE few.place = 1 OR few.upto <= 16384
    ), summed AS (
        SELECT place, sum(bytes) OVER (ORDER BY place) AS upto FROM weighed
    )
    SELECT count(*) FROM summed WHERE place = 1 OR upto <= 16777216";

pub(crate) const TAKE: &str = concat!(
    "UPDATE task t SET desk = $2, epoch = t.epoch + 1,
        version = CASE WHEN t.version < 0 THEN coalesce(newest.version, t.version)
                       ELSE t.version END
     FROM unnest($1::bigint[]) AS u (key)
     JOIN task o ON o.key = u.key
     LEFT JOIN unnest($3::text[], $4::bigint[]) AS newest (tool, version) ON newest.tool = o.tool
     WHERE t.key = u.key RETURNING ",
    task_columns!(),
    ", t.outcome, t.letters, t.tells"
);

pub(crate) const HISTORY: &str =
    "SELECT task, body FROM event WHERE task = ANY($1::bigint[]) ORDER BY task, seq";
pub(crate) const INBOX: &str =
    "SELECT task, seq, op, body FROM inbox WHERE task = ANY($1::bigint[]) ORDER BY task, seq";

pub(crate) struct Claim {
    claim: ClaimTasks,
    tools: Vec<String>,
    low: Vec<i64>,
    high: Vec<i64>,
}

impl Claim {
    pub(crate) fn new(claim: ClaimTasks) -> Claim {
        let (mut tools, mut low, mut high) = (vec![], vec![], vec![]);
        for (tool, from, to) in claim.tools.iter().filter(|(_, low, high)| low <= high) {
            // Those without a version are for everybody who has the tool.
            for (from, to) in
                [(i64::from(*from), i64::from(*to)), (row::NO_VERSION, row::NO_VERSION)]
            {
                tools.push(text::stored(tool).into_owned());
                low.push(from);
                high.push(to);
            }
        }
        Claim { claim, tools, low, high }
    }
}

impl Solo for Claim {
    type Answer = Vec<Claimed>;

    async fn idle(&self, conn: &Conn, _: &Core) -> Done<Option<Vec<Claimed>>> {
        let params: [crate::conn::Param<'_>; 4] =
            [&self.tools, &self.low, &self.high, &self.claim.now.0];
        let any = match conn.first(ANY, &params).await? {
            Some(found) => found.try_get(0)?,
            None => false,
        };
        Ok((!any).then(Vec::new))
    }

    async fn run(&self, tx: &Tx<'_>) -> Done<(Vec<Claimed>, News)> {
        let due = !tx.all(DUE, &[&self.claim.now.0, &tx.moment]).await?.is_empty();
        let (keys, left) = self.pick(tx).await?;
        if keys.is_empty() {
            return Ok((Vec::new(), News { written: due, work: due, ..News::default() }));
        }
        let tasks = Which::These(keys.iter().copied().map(TaskKey).collect());
        // What is due is there for all, and so is what was left; what is taken concerns nobody else but who looks
        // at it.
        let news = News { work: due || left, tasks, ..News::written() };
        let taken = self.take(tx, keys).await?;
        if left {
            // Said before it is committed, so that it is said also if the answer to that is lost.
            tx.core.changed.tell(Change { work: true, ..Change::nothing() });
        }
        Ok((taken, news))
    }
}

impl Claim {
    /// The tasks to take, in their order, locked; and whether some were left because these are enough for one
    /// answer.
    async fn pick(&self, tx: &Tx<'_>) -> Done<(Vec<i64>, bool)> {
        let limit = i64::try_from(self.claim.limit).unwrap_or(i64::MAX);
        if limit == 0 || self.tools.is_empty() {
            return Ok((Vec::new(), false));
        }
        // One at a time, so that two don't go for the same ones; but nobody waits for long, as who is
        // at it may have been stopped.
        let one = [&tx.core.locks.class as crate::conn::Param<'_>, &locks::CLAIM];
        for _ in 0..20 {
            match tx.first(locks::TRY, &one).await? {
                Some(got) if !got.try_get::<_, bool>(0)? => {
                    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
                }
                _ => break,
            }
        }
        let served = tx.core.served();
        let rows = tx.all(PICK, &[&self.tools, &self.low, &self.high, &served, &limit]).await?;
        let mut picked: Vec<i64> = Vec::with_capacity(rows.len());
        for row in &rows {
            picked.push(row.try_get(0)?);
        }
        let mut locked: HashMap<i64, String> = HashMap::new();
        for row in tx.all(LOCK, &[&picked]).await? {
            locked.insert(row.try_get(0)?, row.try_get(1)?);
        }
        picked.retain(|key| locked.contains_key(key));
        let all = picked.len();
        if all > 1
            && let Some(row) = tx.first(FIT, &[&picked]).await?
        {
            picked.truncate(usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(all).max(1));
        }
        let left = picked.len() < all;
        if let Some(owner) = picked.last().and_then(|last| locked.remove(last)) {
            tx.core.set_served(owner);
        }
        Ok((picked, left))
    }

    async fn take(&self, tx: &Tx<'_>, keys: Vec<i64>) -> Done<Vec<Claimed>> {
        let names: Vec<&String> = self.claim.tools.iter().map(|(tool, ..)| tool).collect();
        let newest: BTreeMap<&String, i64> = names
            .into_iter()
            .filter_map(|tool| Some((tool, i64::from(self.claim.newest(tool)?))))
            .collect();
        let tools: Vec<_> = newest.keys().map(|tool| text::stored(tool)).collect();
        let versions: Vec<i64> = newest.values().copied().collect();
        let mut claimed = HashMap::new();
        let mut cards = HashMap::new();
        let mut letters = Vec::new();
        for row in tx.all(TAKE, &[&keys, &tx.desk, &tools, &versions]).await? {
            let task = row::task(&row, true)?;
            if get::<i64>(&row, row::TASK_COLUMNS + 1)? > 0 {
                letters.push(task.key.0);
            }
            let tells: bool = get(&row, row::TASK_COLUMNS + 2)?;
            let parent = task.parent.filter(|_| tells).map(|(parent, _)| parent.0);
            let (desk, epoch, next) = (tx.desk, task.epoch, Some(0));
            cards.insert(task.key.0, Card { desk, epoch, next, parent, row: None });
            let (history, inbox) = (Vec::new(), Vec::new());
            claimed.insert(task.key.0, Claimed { row: task, history, inbox });
        }
        for row in tx.all(HISTORY, &[&keys]).await? {
            let key = get::<i64>(&row, 0)?;
            if let (Some(task), Some(card)) = (claimed.get_mut(&key), cards.get_mut(&key)) {
                task.history.push(get(&row, 1)?);
                card.next = card.next.map(|next| next + 1);
            }
        }
        if !letters.is_empty() {
            for row in tx.all(INBOX, &[&letters]).await? {
                if let Some(task) = claimed.get_mut(&get::<i64>(&row, 0)?) {
                    let op = get::<Option<i64>>(&row, 2)?;
                    let op = op.map(|_| row::op(&row, 2)).transpose().map_err(Fault::Sql)?;
                    task.inbox.push(InboxRow { seq: get(&row, 1)?, op, body: get(&row, 3)? });
                }
            }
        }
        // They hold for the new epoch alone, and so do no harm if this is not committed.
        tx.core.cards.keep(cards.into_iter().map(|(key, card)| (key, Some(card))));
        Ok(keys.iter().filter_map(|key| claimed.remove(key)).collect())
    }
}
