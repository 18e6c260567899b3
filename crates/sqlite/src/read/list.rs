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
                "SELECT shelf, count(*) FROM task INDEXED BY task_owner {mine} GROUP BY shelf"
            );
            let held = format!(
                "SELECT status, count(*) FROM task INDEXED BY task_desk {mine}
                 AND desk > 0 AND status <> shelf GROUP BY status"
            );
            let over = format!(
                "SELECT status, count(*) FROM task INDEXED BY task_expires {mine}
                 AND expires IS NOT NULL AND expires <= ?2 GROUP BY status"
            );
            let mut counts = Counts::new();
            for (status, count) in tally(conn, &there, &[&owner])? {
                *counts.entry(status).or_default() += count;
            }
            for (status, count) in tally(conn, &held, &[&owner])? {
                *counts.entry(status).or_default() += count;
                let shelf = counts.entry(Status::Completed).or_default();
                *shelf = shelf.saturating_sub(count);
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

/// Where the tasks of a listing are found: each is read by itself, and the results are merged.
///
/// Every index ends in the key, so behind equal values its entries are in the order of the listing:
/// nothing is sorted, and a page costs what it shows.
enum Strand {
    Everything,
    Parent(TaskKey),
    Tag,
    Owner {
        shelf: u8,
    },
    Tool {
        tool: String,
        shelf: u8,
    },
    /// Tasks on desks. There are never many.
    Held,
}

fn strands(conn: &Connection, filter: &Filter) -> rusqlite::Result<Vec<Strand>> {
    let wanted: BTreeSet<Status> = filter.statuses.iter().copied().collect();
    if let Some(parent) = filter.parent {
        return Ok(vec![Strand::Parent(parent)]);
    }
    if filter.tag.is_some() {
        return Ok(vec![Strand::Tag]);
    }
    if filter.owner.is_none() && filter.tool.is_none() && wanted.is_empty() {
        return Ok(vec![Strand::Everything]);
    }
    let shelves: Vec<u8> = match wanted.is_empty() {
        true => Status::ALL.into_iter().map(|status| status as u8).collect(),
        false => wanted.iter().map(|status| *status as u8).collect(),
    };
    let mut strands: Vec<Strand> = match (&filter.owner, &filter.tool) {
        (Some(_), _) => shelves.into_iter().map(|shelf| Strand::Owner { shelf }).collect(),
        (None, Some(tool)) => {
            shelves.into_iter().map(|shelf| Strand::Tool { tool: tool.clone(), shelf }).collect()
        }
        (None, None) => {
            let shelf = |tool: String| {
                shelves.iter().map(move |shelf| Strand::Tool { tool: tool.clone(), shelf: *shelf })
            };
            tools(conn)?.into_iter().flat_map(shelf).collect()
        }
    };
    // Those that run on a desk stand among the completed, who may be many.
    if wanted.contains(&Status::Running) && !wanted.contains(&Status::Completed) {
        strands.push(Strand::Held);
    }
    Ok(strands)
}

/// All tools that have tasks. Skips from one to the next.
fn tools(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT min(tool) FROM task INDEXED BY task_tool WHERE tool > ?";
    let mut next = conn.prepare_cached(sql)?;
    let mut tools: Vec<String> = Vec::new();
    loop {
        let last = tools.last().map_or("", String::as_str);
        match next.query_row([last], |r| r.get::<_, Option<String>>(0))? {
            Some(tool) => tools.push(tool),
            None => return Ok(tools),
        }
    }
}

/// Up to one key more than `limit`, in order.
fn keys(
    conn: &Connection,
    filter: &Filter,
    order: Order,
    after: Option<TaskKey>,
    limit: usize,
) -> rusqlite::Result<Vec<i64>> {
    let most = limit.saturating_add(1);
    let mut keys = Vec::new();
    for strand in strands(conn, filter)? {
        let query = Query::new(filter, &strand).end(order, after, most);
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
    /// All conditions of the filter, and where to look.
    fn new(filter: &Filter, strand: &Strand) -> Query {
        let (from, key) = match strand {
            Strand::Everything => ("task t NOT INDEXED", "t.key"),
            Strand::Parent(_) => ("task t INDEXED BY task_parent", "t.key"),
            // A join in the order it is written: first the tags.
            Strand::Tag => ("tag g CROSS JOIN task t ON t.key = g.task", "g.task"),
            Strand::Owner { .. } => ("task t INDEXED BY task_owner", "t.key"),
            Strand::Tool { .. } => ("task t INDEXED BY task_tool", "t.key"),
            Strand::Held => ("task t INDEXED BY task_desk", "t.key"),
        };
        let mut query = Query {
            sql: format!(
                "SELECT {key} AS k FROM {from} WHERE (t.expires IS NULL OR t.expires > ?)"
            ),
            values: vec![filter.now.0.into()],
        };
        match strand {
            Strand::Everything | Strand::Tag => {}
            Strand::Parent(parent) => query.and("t.parent IS NOT NULL AND t.parent = ?", parent.0),
            Strand::Owner { shelf } => query.and("t.shelf = ?", i64::from(*shelf)),
            Strand::Tool { tool, shelf } => {
                query.and("t.tool = ?", tool.clone());
                query.and("t.shelf = ?", i64::from(*shelf));
            }
            Strand::Held => query.sql += " AND t.desk > 0 AND t.shelf <> t.status",
        }
        query.filter(filter, matches!(strand, Strand::Tag));
        query
    }

    fn filter(&mut self, filter: &Filter, joined: bool) {
        if let Some((name, value)) = &filter.tag {
            if !joined {
                self.sql += " AND EXISTS (SELECT 1 FROM tag g WHERE g.task = t.key";
            }
            self.and("g.name = ?", name.clone());
            self.and("g.value = ?", value.clone());
            if !joined {
                self.sql += ")";
            }
        }
        if !filter.statuses.is_empty() {
            let numbers: Vec<_> = filter.statuses.iter().map(|s| (*s as u8).to_string()).collect();
            self.sql += &format!(" AND t.status IN ({})", numbers.join(", "));
        }
        if filter.owner.is_some() {
            self.and("t.owner = ?", row::owner(&filter.owner).to_owned());
        }
        if let Some(tool) = &filter.tool {
            self.and("t.tool = ?", tool.clone());
        }
        if let Some(from) = filter.created_from {
            self.and("t.created >= ?", from.0);
        }
        if let Some(before) = filter.created_before {
            self.and("t.created < ?", before.0);
        }
    }

    fn and(&mut self, condition: &str, value: impl Into<Value>) {
        self.sql += " AND ";
        self.sql += condition;
        self.values.push(value.into());
    }

    fn end(mut self, order: Order, after: Option<TaskKey>, most: usize) -> Query {
        let (behind, direction) = match order {
            Order::OldestFirst => ("k > ?", "k ASC"),
            Order::NewestFirst => ("k < ?", "k DESC"),
        };
        if let Some(after) = after {
            self.and(behind, after.0);
        }
        self.sql += &format!(" ORDER BY {direction} LIMIT ?");
        self.values.push(i64::try_from(most).unwrap_or(i64::MAX).into());
        self
    }

    fn params(&self) -> impl rusqlite::Params + '_ {
        rusqlite::params_from_iter(&self.values)
    }
}
