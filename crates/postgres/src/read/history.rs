//! Pages of a history.

use steadfast_store::{HistoryPage, Order, Result, TaskKey};

use super::Readers;
use crate::{
    conn::Param,
    row::{count, get},
};

pub(crate) const OLDEST_FIRST: &str =
    "SELECT seq, body FROM event WHERE task = $1 AND seq > $2 ORDER BY seq LIMIT $3";
pub(crate) const NEWEST_FIRST: &str =
    "SELECT seq, body FROM event WHERE task = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3";

impl Readers {
    pub(crate) async fn history(
        &self,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> Result<HistoryPage> {
        let after = after.map(|after| i64::try_from(after).unwrap_or(i64::MAX));
        let (sql, behind) = match order {
            Order::OldestFirst => (OLDEST_FIRST, after.unwrap_or(-1)),
            Order::NewestFirst => (NEWEST_FIRST, after.unwrap_or(i64::MAX)),
        };
        let most = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
        let params: [Param<'_>; 3] = [&key.0, &behind, &most];
        let rows = match limit {
            // Many want to know nothing but the first event, or the last.
            ..=1 => self.point(sql, &params).await?,
            _ => self.scan(sql, &params).await?,
        };
        let more = rows.len() > limit;
        let events = rows.iter().take(limit).map(|r| Ok((count(r, 0)?, get(r, 1)?)));
        let events = events.collect::<Result<Vec<(u64, Vec<u8>)>>>()?;
        let next = events.last().map(|(number, _)| *number).filter(|_| more);
        Ok(HistoryPage { events, next })
    }
}
