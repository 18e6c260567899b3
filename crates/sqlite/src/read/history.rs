//! Pages of a history.

use std::sync::Arc;

use steadfast_store::{HistoryPage, Order, Result, TaskKey};

use super::Readers;
use crate::history::{Passed, Walk, body};

impl Readers {
    pub(crate) async fn history(
        self: &Arc<Self>,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> Result<HistoryPage> {
        let (from, most) = (after.map(|after| i64::try_from(after).unwrap_or(i64::MAX)), limit);
        let mut events = self
            .scan(move |conn| {
                let walk = Walk::new(conn, key.0)?;
                let passed: Vec<Passed> = match order {
                    Order::NewestFirst => walk
                        .skip_while(|event| {
                            let here = event.as_ref().map_or(i64::MIN, |event| event.seq);
                            from.is_some_and(|from| here >= from)
                        })
                        .take(most.saturating_add(1))
                        .collect::<rusqlite::Result<_>>()?,
                    // There is only the way back from the newest: the events that are passed on it
                    // are not read, and the page is what lies at its end.
                    Order::OldestFirst => {
                        let wanted = walk.take_while(|event| {
                            let here = event.as_ref().map_or(i64::MAX, |event| event.seq);
                            from.is_none_or(|from| here > from)
                        });
                        let wanted = wanted.collect::<rusqlite::Result<Vec<Passed>>>()?;
                        wanted.into_iter().rev().take(most.saturating_add(1)).collect()
                    }
                };
                let read = |event: Passed| {
                    let seq = u64::try_from(event.seq).unwrap_or_default();
                    Ok((seq, body(conn, event.n)?))
                };
                passed.into_iter().map(read).collect::<rusqlite::Result<Vec<_>>>()
            })
            .await?;
        let more = events.len() > limit;
        events.truncate(limit);
        let next = events.last().map(|(number, _)| *number).filter(|_| more);
        Ok(HistoryPage { events, next })
    }
}
