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

/// What an index is entered by: its columns but the last, which is the key, and their values.
type Entry = Vec<(&'static str, String)>;

impl Query {
    pub(crate) fn new(
        filter: &Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> Query {
        let mut query = Query { sql: String::new(), values: Vec::new() };
        let by_status = !filter.statuses.is_empty();
        let mut conditions = query.conditions(filter);
        let mut from = "task t".to_owned();
        // Where to look, and for which values one after the other.
        let (mut with, mut strands, mut found) = ("", None, "t.key");
        let entry: Entry = if let Some(parent) = filter.parent {
            conditions.extend(query.of_tag(filter).map(|(name, value)| {
                format!(
                    "EXISTS (SELECT FROM tag g WHERE g.task = t.key AND g.name = {name} \
                     AND g.value = {value})"
                )
            }));
            conditions.extend(query.others(filter));
            // Or the index, which has no others, is not taken.
            conditions.push("t.parent IS NOT NULL".into());
            vec![("t.parent", format!("{}::bigint", query.value(parent.0)))]
        } else if let Some((name, value)) = query.of_tag(filter) {
            conditions.extend(query.others(filter));
            // What is in brackets stands for itself, so that it is looked at tag by tag.
            let of_task = std::mem::take(&mut conditions).join(" AND ");
            from = format!(
                "tag g CROSS JOIN LATERAL \
                 (SELECT FROM task t WHERE t.key = g.task AND {of_task} OFFSET 0) AS t"
            );
            found = "g.task";
            vec![("g.name", name), ("g.value", value)]
        } else {
            let statuses = if by_status { &filter.statuses[..] } else { &Status::ALL[..] };
            let statuses: Vec<i16> = statuses.iter().map(|status| *status as i16).collect();
            let each = |query: &mut Query| {
                let statuses = query.value(statuses);
                format!("(SELECT DISTINCT unnest({statuses}::smallint[])) AS s (status)")
            };
            let status = || ("t.status", "s.status".to_owned());
            match (query.of_owner(filter), query.of_tool(filter)) {
                (Some(owner), tool) => {
                    conditions.extend(tool.map(|tool| format!("t.tool = {tool}")));
                    strands = Some(each(&mut query));
                    vec![("t.owner", owner), status()]
                }
                (None, Some(tool)) => {
                    strands = Some(each(&mut query));
                    vec![("t.tool", tool), status()]
                }
                (None, None) if by_status => {
                    with = TOOLS;
                    strands = Some(format!("tools b CROSS JOIN {}", each(&mut query)));
                    vec![("t.tool", "b.tool".into()), status()]
                }
                (None, None) => Vec::new(),
            }
        };
        let after = after.map(|after| format!("{}::bigint", query.value(after.0)));
        let (bounds, sorted) = within(&entry, found, order, after.as_deref());
        conditions.extend(bounds);
        let most = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
        let most = query.value(most);
        let conditions = conditions.join(" AND ");
        let strand = format!(
            "SELECT {found} AS key FROM {from} WHERE {conditions} \
             ORDER BY {sorted} LIMIT {most}::bigint"
        );
        let direction = direction(order);
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

    fn text(&mut self, text: &str) -> String {
        format!("{}::text", self.value(text::stored(text).into_owned()))
    }

    fn of_tag(&mut self, filter: &Filter) -> Option<(String, String)> {
        let (name, value) = filter.tag.as_ref()?;
        Some((self.text(name), self.text(value)))
    }

    fn of_owner(&mut self, filter: &Filter) -> Option<String> {
        filter.owner.as_ref()?;
        Some(format!("{}::text", self.value(row::owner(&filter.owner).to_owned())))
    }

    fn of_tool(&mut self, filter: &Filter) -> Option<String> {
        filter.tool.as_ref().map(|tool| self.text(tool))
    }

    /// What else has an index, which is not entered by it.
    fn others(&mut self, filter: &Filter) -> Vec<String> {
        let statuses: Vec<i16> = filter.statuses.iter().map(|status| *status as i16).collect();
        let statuses = (!statuses.is_empty())
            .then(|| format!("t.status = ANY({}::smallint[])", self.value(statuses)));
        let owner = self.of_owner(filter).map(|owner| format!("t.owner = {owner}"));
        let tool = self.of_tool(filter).map(|tool| format!("t.tool = {tool}"));
        [statuses, owner, tool].into_iter().flatten().collect()
    }

    /// Those that no index is entered by.
    fn conditions(&mut self, filter: &Filter) -> Vec<String> {
        let now = self.value(filter.now.0);
        let mut all = vec![format!("(t.expires IS NULL OR t.expires > {now}::bigint)")];
        if let Some(from) = filter.created_from {
            all.push(format!("t.created >= {}::bigint", self.value(from.0)));
        }
        if let Some(before) = filter.created_before {
            all.push(format!("t.created < {}::bigint", self.value(before.0)));
        }
        all
    }
}

fn direction(order: Order) -> &'static str {
    match order {
        Order::OldestFirst => "ASC",
        Order::NewestFirst => "DESC",
    }
}

/// From where to where an index is read, and in which order.
///
/// The last of the values that it is entered by is said together with the key, as one bound of both. Were it
/// said by itself the order would be by the key alone, and the planner may read the index of all keys instead
/// and pass over what does not fit, if it thinks that most tasks do: and then reads all tasks for a status
/// that none has. The values before it are said by themselves: of a bound of several columns PostgreSQL sees
/// only by the first one that it has come to the end, and would go on through all other statuses.
fn within(entry: &Entry, key: &str, order: Order, after: Option<&str>) -> (Vec<String>, String) {
    let (last, before) = match entry.split_last() {
        Some((last, before)) => (Some(last), before),
        None => (None, &[][..]),
    };
    let mut all: Vec<String> =
        before.iter().map(|(column, value)| format!("{column} = {value}")).collect();
    let columns: Vec<&str> = last.iter().map(|(column, _)| *column).chain([key]).collect();
    let bound = |is: &str, key: &str| {
        let values: Vec<&str> = last.iter().map(|(_, value)| value.as_str()).chain([key]).collect();
        format!("({}) {is} ({})", columns.join(", "), values.join(", "))
    };
    let (lowest, highest) = ("0::bigint", "9223372036854775807::bigint");
    all.push(match (order, after) {
        (Order::OldestFirst, Some(after)) => bound(">", after),
        _ => bound(">=", lowest),
    });
    all.push(match (order, after) {
        (Order::NewestFirst, Some(after)) => bound("<", after),
        _ => bound("<=", highest),
    });
    let direction = direction(order);
    let sorted: Vec<String> =
        columns.iter().map(|column| format!("{column} {direction}")).collect();
    (all, sorted.join(", "))
}
