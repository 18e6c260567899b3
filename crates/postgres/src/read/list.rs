//! Listing and counting tasks.

use steadfast_core::Status;
use steadfast_store::{Caller, Counts, Filter, ListPage, Order, Result, TaskKey};
use tokio_postgres::types::ToSql;

use super::Readers;
use crate::{
    conn::Param,
    error::undone,
    row::{self, count, task_columns},
    text,
};

/// Of each status, but for those that have expired. Both are read from indexes, and at one moment.
/// Those that have expired are few, as they are removed: they are looked at first, whatever the planner
/// thinks of it, which is what the offset is for.
macro_rules! counts {
    ($mine:literal) => {
        concat!(
            "SELECT status, sum(n)::bigint FROM (
                SELECT status, count(*) AS n FROM task WHERE ",
            $mine,
            " GROUP BY status
                UNION ALL
                SELECT status, -count(*) FROM (
                    SELECT status, owner FROM task WHERE expires IS NOT NULL AND expires <= $2
                    OFFSET 0) AS over WHERE ",
            $mine,
            " GROUP BY status
             ) AS counted GROUP BY status HAVING sum(n) > 0"
        )
    };
}
pub(crate) const COUNT_ALL: &str = counts!("$1::text IS NULL");
pub(crate) const COUNT_MINE: &str = counts!("owner = $1::text");

impl Readers {
    pub(crate) async fn list(
        &self,
        filter: Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> Result<ListPage> {
        let query = Query::new(&filter, order, after, limit);
        let params: Vec<Param<'_>> =
            query.values.iter().map(|value| &**value as Param<'_>).collect();
        let rows = self.scan(&query.sql, &params).await?;
        let more = rows.len() > limit;
        let tasks = rows.iter().take(limit).map(|r| row::task(r, false));
        let tasks = tasks.collect::<Result<Vec<_>>>()?;
        let next = tasks.last().map(|task| task.key).filter(|_| more);
        Ok(ListPage { tasks, next })
    }

    pub(crate) async fn counts(&self, caller: &Caller) -> Result<Counts> {
        let owner = caller.principal.as_ref().map(|_| row::owner(&caller.principal));
        let sql = if owner.is_some() { COUNT_MINE } else { COUNT_ALL };
        let rows = self.scan(sql, &[&owner, &caller.now.0]).await?;
        rows.iter()
            .map(|r| Ok((row::status(r, 0).map_err(|e| undone(&e))?, count(r, 1)?)))
            .collect()
    }
}

/// All tools that have tasks. Skips from one to the next.
const TOOLS: &str = "WITH RECURSIVE tools (tool) AS (
        SELECT (SELECT min(tool) FROM task)
        UNION ALL
        SELECT (SELECT min(t.tool) FROM task t WHERE t.tool > b.tool)
        FROM tools b WHERE b.tool IS NOT NULL
    ) ";

/// A listing in one statement.
///
/// Every index ends in the key, so behind equal values its entries are in the order of the listing.
/// Where there are several values, like statuses, each has a strand of at most a page, and the
/// strands are merged: a page costs what it shows.
pub(crate) struct Query {
    pub(crate) sql: String,
    pub(crate) values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Query {
    pub(crate) fn new(
        filter: &Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> Query {
        let mut query = Query { sql: String::new(), values: Vec::new() };
        let statuses: Vec<i16> = match filter.statuses.is_empty() {
            true => Status::ALL.iter().map(|status| *status as i16).collect(),
            false => filter.statuses.iter().map(|status| *status as i16).collect(),
        };
        let by_status = !filter.statuses.is_empty();
        // Where to look, and which conditions that leaves to be checked.
        let (with, strands, from, found) = if filter.parent.is_some() {
            ("", None, "task t", "t.key")
        } else if filter.tag.is_some() {
            // What is in brackets stands for itself, so that it is looked at tag by tag.
            ("", None, "tag g CROSS JOIN LATERAL", "g.task")
        } else if filter.owner.is_some() || filter.tool.is_some() {
            let all = query.value(statuses.clone());
            let strands = format!("(SELECT DISTINCT unnest({all}::smallint[])) AS s (status)");
            ("", Some(strands), "task t", "t.key")
        } else if by_status {
            let all = query.value(statuses.clone());
            let strands = format!(
                "tools b CROSS JOIN (SELECT DISTINCT unnest({all}::smallint[])) AS s (status)"
            );
            (TOOLS, Some(strands), "task t", "t.key")
        } else {
            ("", None, "task t", "t.key")
        };
        let mut conditions = query.conditions(filter, &statuses, strands.is_some(), by_status);
        let mut from = from.to_owned();
        if found == "g.task" {
            let of_task = conditions.extract_if(.., |condition| !condition.starts_with("g."));
            let of_task = of_task.collect::<Vec<_>>().join(" AND ");
            from +=
                &format!(" (SELECT FROM task t WHERE t.key = g.task AND {of_task} OFFSET 0) AS t");
        }
        if with == TOOLS {
            conditions.push("t.tool = b.tool".into());
        }
        let (behind, direction) = match order {
            Order::OldestFirst => (">", "ASC"),
            Order::NewestFirst => ("<", "DESC"),
        };
        if let Some(after) = after {
            conditions.push(format!("{found} {behind} {}::bigint", query.value(after.0)));
        }
        let most = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
        let most = query.value(most);
        let conditions = conditions.join(" AND ");
        let strand = format!(
            "SELECT {found} AS key FROM {from} WHERE {conditions} \
             ORDER BY {found} {direction} LIMIT {most}::bigint"
        );
        let keys = match strands {
            None => strand,
            Some(strands) => format!(
                "SELECT k.key FROM {strands} CROSS JOIN LATERAL ({strand}) AS k \
                 ORDER BY k.key {direction} LIMIT {most}::bigint"
            ),
        };
        query.sql = format!(
            "{with}SELECT {} FROM ({keys}) AS k JOIN task t ON t.key = k.key \
             ORDER BY k.key {direction}",
            task_columns!()
        );
        query
    }

    /// Puts in a value, and says how it stands in the statement.
    fn value(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    fn conditions(
        &mut self,
        filter: &Filter,
        statuses: &[i16],
        strands: bool,
        by_status: bool,
    ) -> Vec<String> {
        let now = self.value(filter.now.0);
        let mut all = vec![format!("(t.expires IS NULL OR t.expires > {now}::bigint)")];
        match (strands, by_status) {
            (true, _) => all.push("t.status = s.status".into()),
            (false, true) => {
                all.push(format!("t.status = ANY({}::smallint[])", self.value(statuses.to_vec())));
            }
            (false, false) => {}
        }
        if let Some(parent) = filter.parent {
            all.push(format!("t.parent = {}::bigint", self.value(parent.0)));
        }
        if let Some((name, value)) = &filter.tag {
            let name = self.value(text::stored(name).into_owned());
            let value = self.value(text::stored(value).into_owned());
            let tag = format!("g.name = {name}::text AND g.value = {value}::text");
            all.push(match filter.parent {
                None => tag,
                Some(_) => format!("EXISTS (SELECT FROM tag g WHERE g.task = t.key AND {tag})"),
            });
        }
        if filter.owner.is_some() {
            let owner = self.value(row::owner(&filter.owner).to_owned());
            all.push(format!("t.owner = {owner}::text"));
        }
        if let Some(tool) = &filter.tool {
            all.push(format!("t.tool = {}::text", self.value(text::stored(tool).into_owned())));
        }
        if let Some(from) = filter.created_from {
            all.push(format!("t.created >= {}::bigint", self.value(from.0)));
        }
        if let Some(before) = filter.created_before {
            all.push(format!("t.created < {}::bigint", self.value(before.0)));
        }
        all
    }
}
