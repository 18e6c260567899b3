//! Looking at what is there.

use std::ops::Bound;

use steadfast_core::{TaskId, Timestamp};

use super::content::{Content, expired};
use crate::{
    Caller, Counts, Filter, HistoryPage, InboxRow, Keyed, ListPage, Order, QuestionRow, Result,
    StateRow, TaskKey, TaskRow,
};

impl Content {
    pub(super) fn get(&self, caller: &Caller, id: &TaskId) -> Result<TaskRow> {
        let key = self.find(caller, id)?;
        Ok(self.task(key)?.row.clone())
    }

    pub(super) fn keyed(&self, caller: &Caller, dedup: String) -> Option<Keyed> {
        let task = self.tasks.get(self.dedup.get(&(caller.principal.clone(), dedup))?)?;
        let freed = task.freed.map(|freed| freed.until(caller.now.into()));
        (!expired(&task.row, caller.now)).then(|| Keyed { id: task.row.id.clone(), freed })
    }

    pub(super) fn row(&self, key: TaskKey) -> Option<TaskRow> {
        self.tasks.get(&key).map(|task| task.row.clone())
    }

    pub(super) fn list(
        &self,
        filter: &Filter,
        order: Order,
        after: Option<TaskKey>,
        limit: usize,
    ) -> ListPage {
        let range = behind(order, after);
        // The narrowest index that the filter allows; all tasks if none.
        let keys: Box<dyn DoubleEndedIterator<Item = &TaskKey>> =
            match (filter.parent, &filter.owner) {
                (Some(parent), _) => Box::new(
                    self.children.get(&parent).into_iter().flat_map(move |k| k.range(range)),
                ),
                (None, Some(_)) => {
                    let keys = self.owners.get(&filter.owner);
                    Box::new(keys.into_iter().flat_map(move |keys| keys.range(range)))
                }
                (None, None) => Box::new(self.tasks.range(range).map(|(key, _)| key)),
            };
        let rows = ordered(keys, order)
            .filter_map(|key| Some(&self.tasks.get(key)?.row))
            .filter(|row| matches(filter, row));
        let (rows, next) = page(rows, limit);
        ListPage {
            tasks: rows.iter().map(|row| TaskRow { end: None, ..(*row).clone() }).collect(),
            next: next.map(|row| row.key),
        }
    }

    pub(super) fn counts(&self, caller: &Caller) -> Counts {
        let mut counts = Counts::new();
        let all = self.counts.iter().filter(|(owner, _)| sees(caller, owner));
        for (status, count) in all.flat_map(|(_, counts)| counts) {
            *counts.entry(*status).or_default() += count;
        }
        let over = self.expiries.iter().take_while(|(expires, _)| *expires <= caller.now);
        for row in over.filter_map(|(_, key)| Some(&self.tasks.get(key)?.row)) {
            if let Some(count) = counts.get_mut(&row.status).filter(|_| sees(caller, &row.owner)) {
                *count -= 1;
            }
        }
        counts.retain(|_, count| *count > 0);
        counts
    }

    pub(super) fn history(
        &self,
        key: TaskKey,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> HistoryPage {
        let history = self.tasks.get(&key).map_or(&[][..], |task| &task.history);
        let len = history.len() as u64;
        let range = match (order, after) {
            (_, None) => 0..len,
            (Order::OldestFirst, Some(after)) => after.saturating_add(1).min(len)..len,
            (Order::NewestFirst, Some(after)) => 0..after.min(len),
        };
        let (numbers, next) = page(ordered(range, order), limit);
        let event =
            |number: u64| Some((number, history.get(usize::try_from(number).ok()?)?.clone()));
        HistoryPage { events: numbers.into_iter().filter_map(event).collect(), next }
    }

    pub(super) fn inbox(&self, key: TaskKey, after: i64) -> Vec<InboxRow> {
        let inbox = self.tasks.get(&key).map(|task| &task.inbox);
        let rows = inbox.map(|inbox| inbox.range((Bound::Excluded(after), Bound::Unbounded)));
        rows.into_iter().flatten().map(|(_, row)| row.clone()).collect()
    }

    pub(super) fn questions(&self, key: TaskKey) -> Vec<QuestionRow> {
        self.tasks.get(&key).map(|task| task.questions.clone()).unwrap_or_default()
    }

    pub(super) fn state(&self, scope: String, key: String) -> StateRow {
        self.states.get(&(scope, key)).cloned().unwrap_or_default()
    }

    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        let task = self.wakes.first().map(|(wake, _)| *wake);
        task.into_iter().chain(self.activities.next_due()).min()
    }
}

fn sees(caller: &Caller, owner: &Option<steadfast_core::Principal>) -> bool {
    caller.principal.is_none() || caller.principal == *owner
}

fn matches(filter: &Filter, row: &TaskRow) -> bool {
    (filter.statuses.is_empty() || filter.statuses.contains(&row.status))
        && filter.tool.as_ref().is_none_or(|tool| *tool == row.tool)
        && filter.tag.as_ref().is_none_or(|(tag, value)| row.tags.get(tag) == Some(value))
        && (filter.owner.is_none() || filter.owner == row.owner)
        && filter.created_from.is_none_or(|from| row.created >= from)
        && filter.created_before.is_none_or(|before| row.created < before)
        && !expired(row, filter.now)
}

/// What lies behind `after` in this order.
fn behind(order: Order, after: Option<TaskKey>) -> (Bound<TaskKey>, Bound<TaskKey>) {
    match (order, after) {
        (_, None) => (Bound::Unbounded, Bound::Unbounded),
        (Order::OldestFirst, Some(after)) => (Bound::Excluded(after), Bound::Unbounded),
        (Order::NewestFirst, Some(after)) => (Bound::Unbounded, Bound::Excluded(after)),
    }
}

fn ordered<'a, T: 'a>(
    rows: impl DoubleEndedIterator<Item = T> + 'a,
    order: Order,
) -> Box<dyn Iterator<Item = T> + 'a> {
    match order {
        Order::OldestFirst => Box::new(rows),
        Order::NewestFirst => Box::new(rows.rev()),
    }
}

/// The first `limit`, and the last of them if there are more.
fn page<T: Copy>(mut rows: impl Iterator<Item = T>, limit: usize) -> (Vec<T>, Option<T>) {
    let page: Vec<T> = rows.by_ref().take(limit).collect();
    let next = rows.next().and_then(|_| page.last().copied());
    (page, next)
}
