//! Listings: tasks, and a task's history, page by page.

use steadfast_core::{Principal, Status, TaskId, Timestamp, decode};
use steadfast_store::{Filter, Order, TaskKey};

use super::{CallError, HistoryEntry, Result, TaskInfo, Tasks, info};

/// The most that one page holds.
const MOST: usize = 1_000;

/// Which tasks to list.
#[derive(Clone, Debug, Default)]
pub struct ListTasks {
    /// Any of these; all if empty.
    pub statuses: Vec<Status>,
    /// Of this tool.
    pub tool: Option<String>,
    /// With this tag and value.
    pub tag: Option<(String, String)>,
    /// Of this principal; only an operator can choose.
    pub owner: Option<Principal>,
    /// Children of this task.
    pub parent: Option<TaskId>,
    /// Accepted at or after.
    pub created_from: Option<Timestamp>,
    /// Accepted before.
    pub created_before: Option<Timestamp>,
    /// In which order.
    pub order: Order,
    /// Where to go on: `next` of the page before.
    pub cursor: Option<String>,
    /// How many at most; 50 if zero, and never over 1,000.
    pub limit: usize,
}

/// A page of tasks.
#[derive(Clone, Debug)]
pub struct TaskList {
    /// The tasks.
    pub tasks: Vec<TaskInfo>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// A page of a history.
#[derive(Clone, Debug)]
pub struct HistoryList {
    /// The events.
    pub entries: Vec<HistoryEntry>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

fn limit(wanted: usize) -> usize {
    if wanted == 0 { 50 } else { wanted.min(MOST) }
}

/// A cursor says which listing it belongs to, so that a strange one is noticed.
fn cursor(kind: &str, position: i64) -> String {
    let check = (position as u64 ^ 0x5f3a).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    format!("{kind}{position:x}.{check:04x}")
}

fn position(kind: &str, text: Option<&str>) -> Result<Option<i64>> {
    let Some(text) = text else { return Ok(None) };
    let bad = || CallError::BadCursor(text.chars().take(80).collect());
    let digits = text.strip_prefix(kind).and_then(|rest| rest.split_once('.')).ok_or_else(bad)?;
    let position = i64::from_str_radix(digits.0, 16).map_err(|_| bad())?;
    if cursor(kind, position) == text { Ok(Some(position)) } else { Err(bad()) }
}

impl Tasks {
    /// Lists tasks, newest first unless told otherwise. Pages are stable: a task is on one page
    /// only, however many come and go meanwhile.
    pub async fn list(&self, list: ListTasks) -> Result<TaskList> {
        let after = position("t", list.cursor.as_deref())?.map(TaskKey);
        let parent = match &list.parent {
            Some(id) => Some(self.row(id).await?.key),
            None => None,
        };
        let filter = Filter {
            statuses: list.statuses,
            tool: list.tool,
            tag: list.tag,
            owner: self.principal.clone().or(list.owner),
            parent,
            created_from: list.created_from,
            created_before: list.created_before,
            now: self.core.world.now(),
        };
        let page = self.core.store.list(filter, list.order, after, limit(list.limit)).await;
        let page = page.map_err(CallError::Store)?;
        let show = |row| {
            let mut info = info::from_row(&self.core, row);
            if self.principal.is_some() {
                info.hide_details();
            }
            info
        };
        Ok(TaskList {
            tasks: page.tasks.into_iter().map(show).collect(),
            next: page.next.map(|key| cursor("t", key.0)),
        })
    }

    /// A task's history, page by page.
    pub async fn history(
        &self,
        id: &TaskId,
        order: Order,
        from: Option<&str>,
        most: usize,
    ) -> Result<HistoryList> {
        let mut page = self.whole_history(id, order, from, most).await?;
        if self.principal.is_some() {
            page.entries.iter_mut().for_each(HistoryEntry::hide_details);
        }
        Ok(page)
    }

    /// The same, with what is for the operator's eyes only.
    pub(super) async fn whole_history(
        &self,
        id: &TaskId,
        order: Order,
        from: Option<&str>,
        most: usize,
    ) -> Result<HistoryList> {
        let bad = || CallError::BadCursor(from.unwrap_or_default().to_owned());
        let after =
            position("h", from)?.map(|p| u64::try_from(p).map_err(|_| bad())).transpose()?;
        let row = self.row(id).await?;
        let page = self.core.store.history(row.key, order, after, limit(most)).await;
        let page = page.map_err(CallError::Store)?;
        let mut entries = Vec::with_capacity(page.events.len());
        for (seq, line) in page.events {
            let record = decode(seq, &line)
                .map_err(|e| CallError::Store(steadfast_store::Error::Corrupt(e.to_string())))?;
            entries.push(HistoryEntry { seq, at: record.at, event: record.event });
        }
        let next = page.next.map(|seq| cursor("h", i64::try_from(seq).unwrap_or(i64::MAX)));
        Ok(HistoryList { entries, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_another_listing_or_of_nobody_is_an_error() {
        let good = cursor("t", 4_711);
        assert_eq!(position("t", Some(&good)).unwrap(), Some(4_711));
        for bad in ["", "t", "t1.0000", "h12.1", "t-1.ffff", "tzz.0000", &good.replace('t', "h")] {
            assert!(matches!(position("t", Some(bad)), Err(CallError::BadCursor(_))), "{bad}");
        }
    }
}
