//! What a batch changed, column by column, but for the tasks themselves.

use std::{borrow::Cow, collections::BTreeMap};

use super::{Work, task_columns::Column};
use crate::text;

#[derive(Default)]
pub(super) struct Letters<'w> {
    pub(super) task: Column<i64>,
    pub(super) seq: Column<i64>,
    pub(super) op: Column<Option<i64>>,
    pub(super) notice: Column<bool>,
    pub(super) body: Column<&'w [u8]>,
    pub(super) consumed: Column<i64>,
    pub(super) upto: Column<i64>,
    pub(super) cleared: Column<i64>,
    pub(super) unbound: Column<i64>,
    pub(super) replaced: Column<i64>,
    pub(super) replaced_body: Column<&'w [u8]>,
    pub(super) kept: Column<i64>,
    pub(super) kept_until: Column<i64>,
    pub(super) kept_id: Column<&'w str>,
    pub(super) kept_sender: Column<&'w str>,
    pub(super) kept_body: Column<&'w [u8]>,
}

impl<'w> Letters<'w> {
    pub(super) fn of(work: &'w Work<'_>) -> Letters<'w> {
        let mail = &work.mail;
        let mut all = Letters {
            cleared: mail.cleared.iter().copied().collect(),
            unbound: mail.unbound.iter().copied().collect(),
            ..Letters::default()
        };
        for (&(task, seq), letter) in &mail.added {
            all.task.push(task);
            all.seq.push(seq);
            all.op.push(letter.op.map(|op| i64::from(op.0)));
            all.notice.push(letter.notice);
            all.body.push(&letter.body);
        }
        for (&task, &upto) in &mail.consumed {
            all.consumed.push(task);
            all.upto.push(upto);
        }
        for &(task, body) in &mail.replaced {
            all.replaced.push(task);
            all.replaced_body.push(body);
        }
        for letter in &mail.to_keep {
            all.kept.push(letter.n);
            all.kept_until.push(letter.until);
            all.kept_id.push(letter.id);
            all.kept_sender.push(letter.sender);
            all.kept_body.push(letter.body);
        }
        all
    }
}

/// Keys that were freed.
#[derive(Default)]
pub(super) struct Freed<'w> {
    pub(super) owner: Column<&'w str>,
    pub(super) key: Column<Cow<'w, str>>,
    pub(super) task: Column<i64>,
    pub(super) at: Column<i64>,
    pub(super) gone_owner: Column<&'w str>,
    pub(super) gone_key: Column<Cow<'w, str>>,
    pub(super) gone_task: Column<i64>,
    /// Of tasks that begin with a key and are freed of it by this batch.
    pub(super) new: Column<i64>,
    pub(super) keys: BTreeMap<i64, &'w str>,
}

impl<'w> Freed<'w> {
    pub(super) fn of(work: &'w Work<'_>) -> Freed<'w> {
        let mut all = Freed::default();
        for ((owner, key), task) in work.freed.gone() {
            all.gone_owner.push(owner);
            all.gone_key.push(text::stored(key));
            all.gone_task.push(task);
        }
        for ((owner, key), task, at) in work.freed.written() {
            all.owner.push(owner);
            all.key.push(text::stored(key));
            all.task.push(task);
            all.at.push(at);
            if work.tasks.get(&task).is_some_and(|task| task.fresh.is_some()) {
                all.new.push(task);
                all.keys.insert(task, key);
            }
        }
        all
    }
}

#[derive(Default)]
pub(super) struct Questions<'w> {
    pub(super) task: Column<i64>,
    pub(super) n: Column<i64>,
    pub(super) op: Column<i64>,
    pub(super) key: Column<Cow<'w, str>>,
    pub(super) body: Column<&'w [u8]>,
    pub(super) closed: Column<i64>,
    pub(super) closed_key: Column<Cow<'w, str>>,
    pub(super) cleared: Column<i64>,
}

impl<'w> Questions<'w> {
    pub(super) fn of(work: &'w Work<'_>) -> Questions<'w> {
        let cleared = work.asked.cleared.iter().copied().collect();
        let mut all = Questions { cleared, ..Questions::default() };
        for (&(task, n), new) in &work.asked.added {
            all.task.push(task);
            all.n.push(n);
            all.op.push(i64::from(new.op.0));
            all.key.push(text::stored(new.key));
            all.body.push(new.body);
        }
        for &(task, key) in &work.asked.closed {
            all.closed.push(task);
            all.closed_key.push(text::stored(key));
        }
        all
    }
}

#[derive(Default)]
pub(super) struct Places {
    pub(super) key: Column<i64>,
    pub(super) desk: Column<Option<i64>>,
    pub(super) rank: Column<Option<i64>>,
    pub(super) due: Column<Option<i64>>,
    pub(super) epoch: Column<i64>,
    pub(super) attempt: Column<i64>,
}

#[derive(Default)]
pub(super) struct Activities<'w> {
    pub(super) changed: Places,
    pub(super) new: Places,
    pub(super) task: Column<i64>,
    pub(super) op: Column<i64>,
    pub(super) name: Column<Cow<'w, str>>,
    pub(super) token: Column<Cow<'w, str>>,
    pub(super) body: Column<&'w [u8]>,
    pub(super) gone: Column<i64>,
}

impl<'w> Activities<'w> {
    pub(super) fn of(work: &'w Work<'_>) -> Activities<'w> {
        let mut all = Activities::default();
        for activity in work.activities.values() {
            let to = match (activity.gone, &activity.fresh) {
                (true, Some(_)) => continue,
                (true, None) => {
                    all.gone.push(activity.key);
                    continue;
                }
                (false, Some(new)) => {
                    all.task.push(activity.task);
                    all.op.push(i64::from(activity.op.0));
                    all.name.push(text::stored(new.name));
                    all.token.push(text::stored(new.token));
                    all.body.push(new.body);
                    &mut all.new
                }
                (false, None) if activity.dirty => &mut all.changed,
                (false, None) => continue,
            };
            let (desk, rank, due) = activity.at.columns();
            to.key.push(activity.key);
            to.desk.push(desk);
            to.rank.push(rank);
            to.due.push(due);
            to.epoch.push(activity.epoch);
            to.attempt.push(activity.attempt);
        }
        all
    }
}

#[derive(Default)]
pub(super) struct States<'w> {
    pub(super) scope: Column<Cow<'w, str>>,
    pub(super) key: Column<Cow<'w, str>>,
    pub(super) version: Column<i64>,
    pub(super) value: Column<Option<&'w [u8]>>,
    pub(super) scopes_gone: Column<Cow<'w, str>>,
    pub(super) watched_scope: Column<Cow<'w, str>>,
    pub(super) watched_key: Column<Cow<'w, str>>,
    pub(super) watched: Column<i64>,
    pub(super) unwatched_scope: Column<Cow<'w, str>>,
    pub(super) unwatched_key: Column<Cow<'w, str>>,
    pub(super) unwatched: Column<i64>,
    pub(super) watches_cleared: Column<i64>,
    pub(super) session: Column<Cow<'w, str>>,
    pub(super) session_expires: Column<i64>,
    pub(super) session_body: Column<&'w [u8]>,
    pub(super) sessions_gone: Column<Cow<'w, str>>,
    pub(super) notice: Column<i64>,
    pub(super) notice_until: Column<i64>,
    pub(super) notice_body: Column<&'w [u8]>,
}

impl<'w> States<'w> {
    pub(super) fn of(work: &'w Work<'_>) -> States<'w> {
        let from = &work.states;
        let mut all = States {
            scopes_gone: from.scopes_gone.iter().map(|scope| text::stored(scope)).collect(),
            watches_cleared: from.watches_cleared.iter().copied().collect(),
            sessions_gone: from.sessions_gone.iter().map(|id| text::stored(id)).collect(),
            ..States::default()
        };
        for (at, value) in &from.written {
            all.scope.push(text::stored(&at.0));
            all.key.push(text::stored(&at.1));
            all.version.push(from.versions.get(at).copied().unwrap_or(1));
            all.value.push(*value);
        }
        for (at, task) in &from.watched {
            all.watched_scope.push(text::stored(&at.0));
            all.watched_key.push(text::stored(&at.1));
            all.watched.push(*task);
        }
        for (at, task) in &from.unwatched {
            all.unwatched_scope.push(text::stored(&at.0));
            all.unwatched_key.push(text::stored(&at.1));
            all.unwatched.push(*task);
        }
        for (id, session) in &from.sessions_put {
            all.session.push(text::stored(id));
            all.session_expires.push(session.expires.0);
            all.session_body.push(&session.body);
        }
        for &(n, until, body) in &from.notices {
            all.notice.push(n);
            all.notice_until.push(until);
            all.notice_body.push(body);
        }
        all
    }
}
