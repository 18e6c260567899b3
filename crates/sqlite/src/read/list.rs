//! Listing and counting tasks.

use std::{collections::BTreeSet, sync::Arc};

use rusqlite::{
    Connection,
    types::{ToSql, Value},
};
use steadfast_core::Status;
use steadfast_store::{Caller, Counts, Filter, ListPage, Order, Result, TaskKey, TaskRow};

use super::Readers;
use crate::row::{self, task_columns};

impl Readers {
    pub(crate) async fn list(
        self: &Arc<Self>,
        filter: Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> Result<ListPage> {
        self.scan(move |conn| {
            let mut keys = keys(conn, &filter, order, after, limit)?;
            let more = keys.len() > limit;
            keys.truncate(limit);
            let next = keys.last().copied().filter(|_| more).map(TaskKey);
            let mut tasks = Vec::with_capacity(keys.len());
            for key in keys {
                tasks.push(brief(conn, key)?);
            }
            Ok(ListPage { tasks, next })
        })
        .await
    }

    pub(crate) async fn counts(self: &Arc<Self>, caller: Caller) -> Result<Counts> {
        self.scan(move |conn| {
            let owner = caller.principal.as_ref().map(|_| row::owner(&caller.principal));
            let (all, one) = ("WHERE ?1 IS NULL", "WHERE owner = ?1");
            let mine = if owner.is_some() { one } else { all };
            let there = format!(
                "SELECT status, count(*) FROM task INDEXED BY task_owner {mine} GROUP BY status"
            );
            let over = format!(
                "SELECT status, count(*) FROM task INDEXED BY task_expires {mine}
                 AND expires IS NOT NULL AND expires <= ?2 GROUP BY status"
            );
            let mut counts = Counts::new();
            for (status, count) in tally(conn, &there, &[&owner])? {
                *counts.entry(status).or_default() += count;
            }
            for (status, count) in tally(conn, &over, &[&owner, &caller.now.0])? {
                let left = counts.entry(status).or_default();
                *left = left.saturating_sub(count);
            }
            counts.retain(|_, count| *count > 0);
            Ok(counts)
        })
        .await
    }
}

fn tally(
    conn: &Connection,
    sql: &str,
    params: &[&dyn ToSql],
) -> rusqlite::Result<Vec<(Status, u64)>> {
    crate::tx::all(conn, sql, params, |r| Ok((row::status(r, 0)?, row::count(r, 1)?)))
}

fn brief(conn: &Connection, key: i64) -> rusqlite::Result<TaskRow> {
    const SQL: &str = concat!("SELECT ", task_columns!(), " FROM task WHERE key = ?");
    conn.prepare_cached(SQL)?.query_row([key], |r| row::task(r, false))
}

/// Up to one key more than `limit`, in order.
///
/// Every index ends in the key, so behind equal values its entries are in the order of the listing:
/// nothing is sorted, and a page costs what it shows. Where several statuses are asked for, each is
/// read by itself and the results are merged.
fn keys(
    conn: &Connection,
    filter: &Filter,
    order: Order,
    after: Option<TaskKey>,
    limit: usize,
) -> rusqlite::Result<Vec<i64>> {
    let most = limit.saturating_add(1);
    let wanted: BTreeSet<Status> = filter.statuses.iter().copied().collect();
    let each: Vec<Option<Status>> = match (filter.parent, &filter.tag, &filter.owner) {
        (None, None, Some(_)) if wanted.is_empty() => Status::ALL.into_iter().map(Some).collect(),
        (None, None, _) if !wanted.is_empty() => wanted.iter().copied().map(Some).collect(),
        _ => vec![None],
    };
    let mut keys = Vec::new();
    for status in each {
        let mut query = Query::new(filter, status);
        if status.is_none() && !wanted.is_empty() {
            let numbers: Vec<String> = wanted.iter().map(|s| (*s as u8).to_string()).collect();
            query.sql += &format!(" AND t.status IN ({})", numbers.join(", "));
        }
        query.end(order, after, most);
        let found = crate::tx::all(conn, &query.sql, query.params(), |r| r.get::<_, i64>(0))?;
        keys.extend(found);
    }
    match order {
        Order::OldestFirst => keys.sort_unstable(),
        Order::NewestFirst => keys.sort_unstable_by(|a, b| b.cmp(a)),
    }
    keys.truncate(most);
    Ok(keys)
}

struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    /// All conditions but the statuses, and the narrowest index that they allow.
    fn new(filter: &Filter, status: Option<Status>) -> Query {
        let from = match (filter.parent, &filter.tag, &filter.owner, status, &filter.tool) {
            (Some(_), ..) => "task t INDEXED BY task_parent",
            // A join in the order it is written: first the tags.
            (_, Some(_), ..) => "tag g CROSS JOIN task t ON t.key = g.task",
            (_, _, Some(_), Some(_), _) => "task t INDEXED BY task_owner",
            (_, _, _, Some(_), _) => "task t INDEXED BY task_status",
            (_, _, _, _, Some(_)) => "task t INDEXED BY task_tool",
            _ => "task t NOT INDEXED",
        };
        let key = if filter.parent.is_none() && filter.tag.is_some() { "g.task" } else { "t.key" };
        let mut query = Query {
            sql: format!(
                "SELECT {key} AS k FROM {from} WHERE (t.expires IS NULL OR t.expires > ?)"
            ),
            values: vec![filter.now.0.into()],
        };
        if let Some(parent) = filter.parent {
            query.and("t.parent IS NOT NULL AND t.parent = ?", parent.0);
        }
        if let Some((name, value)) = &filter.tag {
            if filter.parent.is_some() {
                query.sql += " AND EXISTS (SELECT 1 FROM tag g WHERE g.task = t.key";
            }
            query.and("g.name = ?", name.clone());
            query.and("g.value = ?", value.clone());
            if filter.parent.is_some() {
                query.sql += ")";
            }
        }
        if filter.owner.is_some() {
            query.and("t.owner = ?", row::owner(&filter.owner).to_owned());
        }
        if let Some(status) = status {
            query.and("t.status = ?", i64::from(status as u8));
        }
        if let Some(tool) = &filter.tool {
            query.and("t.tool = ?", tool.clone());
        }
        if let Some(from) = filter.created_from {
            query.and("t.created >= ?", from.0);
        }
        if let Some(before) = filter.created_before {
            query.and("t.created < ?", before.0);
        }
        query
    }

    fn and(&mut self, condition: &str, value: impl Into<Value>) {
        self.sql += " AND ";
        self.sql += condition;
        self.values.push(value.into());
    }

    fn end(&mut self, order: Order, after: Option<TaskKey>, most: usize) {
        let (behind, direction) = match order {
            Order::OldestFirst => ("k > ?", "k ASC"),
            Order::NewestFirst => ("k < ?", "k DESC"),
        };
        if let Some(after) = after {
            self.and(behind, after.0);
        }
        self.sql += &format!(" ORDER BY {direction} LIMIT ?");
        self.values.push(i64::try_from(most).unwrap_or(i64::MAX).into());
    }

    fn params(&self) -> impl rusqlite::Params + '_ {
        rusqlite::params_from_iter(&self.values)
    }
}
