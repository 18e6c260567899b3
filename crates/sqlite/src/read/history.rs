//! Pages of a history.

use std::sync::Arc;

use steadfast_store::{HistoryPage, Order, Result, TaskKey};

use super::Readers;
use crate::{row, tx::all};

impl Readers {
    pub(crate) async fn history(
        self: &Arc<Self>,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> Result<HistoryPage> {
        // Spans that lie wholly on the wrong side of where the page begins are not looked into.
        let forward = "SELECT e.seq, e.body FROM span s JOIN event e
             ON e.segment = s.segment AND e.task = s.task
             WHERE s.task = ?1 AND e.seq > ?2 AND s.first >= ifnull(
                 (SELECT max(first) FROM span WHERE task = ?1 AND first <= ?2 + 1), 0)
             ORDER BY s.first, e.seq LIMIT ?3";
        let back = "SELECT e.seq, e.body FROM span s JOIN event e
             ON e.segment = s.segment AND e.task = s.task
             WHERE s.task = ?1 AND e.seq < ?2 AND s.first < ?2
             ORDER BY s.first DESC, e.seq DESC LIMIT ?3";
        let number = |after: u64| i64::try_from(after).unwrap_or(i64::MAX - 1);
        let (sql, from) = match order {
            Order::OldestFirst => (forward, after.map_or(-1, number)),
            Order::NewestFirst => (back, after.map_or(i64::MAX, number)),
        };
        let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut events = self
            .scan(move |conn| {
                all(conn, sql, [key.0, from, most], |r| Ok((row::count(r, 0)?, r.get(1)?)))
            })
            .await?;
        let more = events.len() > limit;
        events.truncate(limit);
        let next = events.last().map(|(number, _)| *number).filter(|_| more);
        Ok(HistoryPage { events, next })
    }
}
