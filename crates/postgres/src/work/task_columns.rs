//! The tasks that a batch changed or began, column by column.

use std::borrow::Cow;

use super::Task;
use crate::{row, text, version::Version};

/// A column of the rows that a statement writes.
pub(super) type Column<T> = Vec<T>;

#[derive(Default)]
pub(super) struct Updates<'w> {
    pub(super) key: Column<i64>,
    pub(super) status: Column<i16>,
    pub(super) updated: Column<Option<i64>>,
    pub(super) ended: Column<Option<i64>>,
    pub(super) expires: Column<Option<i64>>,
    pub(super) wake: Column<Option<i64>>,
    pub(super) desk: Column<Option<i64>>,
    pub(super) bound: Column<Option<i64>>,
    pub(super) rank: Column<i64>,
    pub(super) epoch: Column<i64>,
    pub(super) deaths: Column<i64>,
    pub(super) letters: Column<i64>,
    pub(super) traces: Column<i16>,
    pub(super) tells: Column<bool>,
    pub(super) dedup: Column<Option<Cow<'w, str>>>,
    pub(super) view: Column<Option<&'w [u8]>>,
    pub(super) outcome: Column<Option<&'w [u8]>>,
    /// Of the rows as they were.
    pub(super) version: Column<Option<Version>>,
}

impl<'w> Updates<'w> {
    pub(super) fn add(&mut self, task: &'w Task<'_>) {
        self.key.push(task.key);
        self.status.push(task.status as i16);
        self.updated.push(task.updated);
        self.ended.push(task.ended);
        self.expires.push(task.expires);
        self.wake.push(task.wake);
        self.desk.push(task.place.column());
        self.bound.push(task.bound);
        self.rank.push(task.rank);
        self.epoch.push(task.epoch);
        self.deaths.push(task.deaths);
        self.letters.push(task.letters);
        self.traces.push(task.traces);
        self.tells.push(task.tells);
        self.dedup.push(task.dedup.as_deref().map(text::stored));
        self.view.push(task.view);
        self.outcome.push(task.outcome);
        self.version.push(task.version);
    }
}

/// What a new task has beside what changes.
#[derive(Default)]
pub(super) struct Inserts<'w> {
    pub(super) rest: Updates<'w>,
    pub(super) created: Column<i64>,
    pub(super) parent: Column<Option<i64>>,
    pub(super) parent_op: Column<Option<i64>>,
    pub(super) version: Column<i64>,
    pub(super) id: Column<&'w str>,
    pub(super) tool: Column<Cow<'w, str>>,
    pub(super) owner: Column<&'w str>,
    pub(super) tags: Column<Option<String>>,
    pub(super) about: Column<&'w [u8]>,
    pub(super) tag_name: Column<Cow<'w, str>>,
    pub(super) tag_value: Column<Cow<'w, str>>,
    pub(super) tag_task: Column<i64>,
}

impl<'w> Inserts<'w> {
    pub(super) fn add(&mut self, task: &'w Task<'_>, new: &'w steadfast_store::NewTask) {
        self.rest.add(task);
        if let (Some(updated), Some(view)) =
            (self.rest.updated.last_mut(), self.rest.view.last_mut())
        {
            updated.get_or_insert(new.created.0);
            view.get_or_insert(&new.view);
        }
        self.created.push(new.created.0);
        self.parent.push(task.parent.map(|(parent, _)| parent));
        self.parent_op.push(task.parent.map(|(_, op)| i64::from(op.0)));
        self.version.push(row::version(new));
        self.id.push(&task.id);
        self.tool.push(text::stored(&new.tool));
        self.owner.push(&task.owner);
        self.tags.push(row::tags(&new.tags));
        self.about.push(&new.about);
        for (name, value) in &new.tags {
            self.tag_name.push(text::stored(name));
            self.tag_value.push(text::stored(value));
            self.tag_task.push(task.key);
        }
    }
}
