//! Writing back what a batch changed, in one trip that ends with its commit.

use tokio_postgres::Error;

use super::{
    Work,
    columns::{Activities, Letters, Questions, States},
    sql::*,
    task::Place,
    task_columns::{Inserts, Updates},
};
use crate::conn::{Conn, Pipe};

/// Writes everything, and commits. With an error that is no lost connection nothing was written.
pub(crate) async fn save(conn: &Conn, work: &Work<'_>) -> Result<(), Error> {
    // In their order, in which they are neighbours in most indexes.
    let mut there: Vec<_> = work.tasks.values().filter(|task| !task.gone).collect();
    there.sort_unstable_by_key(|task| task.key);
    let (mut updates, mut plain_updates) = (Updates::default(), Updates::default());
    let (mut inserts, mut plain_inserts) = (Inserts::default(), Inserts::default());
    let (mut event_task, mut event_seq, mut event_body) = (vec![], vec![], vec![]);
    let mut restarted = Vec::new();
    for task in there {
        match task.fresh {
            Some(new) if task.begins_plainly() => plain_inserts.add(task, new),
            Some(new) => inserts.add(task, new),
            None if !task.dirty => {}
            None if task.before == Some(task.seldom()) => plain_updates.add(task),
            None => updates.add(task),
        }
        if task.restarted {
            restarted.push(task.key);
        }
        let first = task.next.unwrap_or(0) - task.events.len() as i64;
        for (seq, body) in (first..).zip(&task.events) {
            event_task.push(task.key);
            event_seq.push(seq);
            event_body.push(*body);
        }
    }
    let untold: Vec<i64> = work.untold.iter().copied().collect();
    let mail = Letters::of(work);
    let asked = Questions::of(work);
    let activities = Activities::of(work);
    let states = States::of(work);

    let mut pipe = Pipe::default();
    if !work.removed.is_empty() {
        for sql in REMOVAL {
            pipe.add(sql, &[&work.removed]);
        }
    }
    let mut add = |wanted: bool, sql, params: &[_]| {
        if wanted {
            pipe.add(sql, params);
        }
    };
    add(!restarted.is_empty(), EVENTS_OF, &[&restarted]);
    add(!untold.is_empty(), TELLS, &[&untold]);
    add(!mail.cleared.is_empty(), INBOX_OF, &[&mail.cleared]);
    add(!mail.unbound.is_empty(), INBOX_BOUND, &[&mail.unbound]);
    add(!mail.consumed.is_empty(), CONSUMED, &[&mail.consumed, &mail.upto]);
    add(!mail.replaced.is_empty(), REPLACED, &[&mail.replaced, &mail.replaced_body]);
    add(!work.mail.handed_over.is_empty(), KEPT, &[&work.mail.handed_over]);
    add(!asked.cleared.is_empty(), QUESTIONS_OF, &[&asked.cleared]);
    add(!asked.closed.is_empty(), CLOSED, &[&asked.closed, &asked.closed_key]);
    add(!activities.gone.is_empty(), ACTIVITIES, &[&activities.gone]);
    add(!states.watches_cleared.is_empty(), WATCHES_OF, &[&states.watches_cleared]);
    add(
        !states.unwatched.is_empty(),
        UNWATCHED,
        &[&states.unwatched_scope, &states.unwatched_key, &states.unwatched],
    );
    add(!states.scopes_gone.is_empty(), SCOPES, &[&states.scopes_gone]);
    add(!states.sessions_gone.is_empty(), SESSIONS, &[&states.sessions_gone]);

    let u = &plain_updates;
    add(
        !u.key.is_empty(),
        UPDATE_PLAINLY,
        &[
            &u.key, &u.status, &u.updated, &u.ended, &u.expires, &u.wake, &u.desk, &u.deaths,
            &u.view, &u.outcome,
        ],
    );
    let u = &updates;
    add(
        !u.key.is_empty(),
        UPDATE_TASK,
        &[
            &u.key, &u.status, &u.updated, &u.ended, &u.expires, &u.wake, &u.desk, &u.bound,
            &u.rank, &u.epoch, &u.deaths, &u.letters, &u.traces, &u.tells, &u.dedup, &u.view,
            &u.outcome,
        ],
    );
    let (i, r) = (&plain_inserts, &plain_inserts.rest);
    add(
        !r.key.is_empty(),
        INSERT_PLAINLY,
        &[
            &r.key, &r.status, &i.created, &r.expires, &i.version, &i.id, &i.tool, &i.owner,
            &i.about, &r.view, &work.desk,
        ],
    );
    let (i, r) = (&inserts, &inserts.rest);
    add(
        !r.key.is_empty(),
        INSERT_TASK,
        &[
            &r.key,
            &r.status,
            &i.created,
            &r.updated,
            &r.ended,
            &r.expires,
            &r.wake,
            &i.parent,
            &i.parent_op,
            &r.desk,
            &r.bound,
            &r.rank,
            &r.epoch,
            &r.deaths,
            &r.letters,
            &i.version,
            &r.traces,
            &r.tells,
            &i.id,
            &i.tool,
            &i.owner,
            &r.dedup,
            &i.tags,
            &i.about,
            &r.view,
            &r.outcome,
        ],
    );
    add(!i.tag_task.is_empty(), INSERT_TAG, &[&i.tag_name, &i.tag_value, &i.tag_task]);
    add(!event_task.is_empty(), INSERT_EVENT, &[&event_task, &event_seq, &event_body]);
    let m = &mail;
    add(!m.task.is_empty(), INSERT_INBOX, &[&m.task, &m.seq, &m.op, &m.notice, &m.body]);
    add(
        !m.kept.is_empty(),
        INSERT_KEPT,
        &[&m.kept, &m.kept_until, &m.kept_id, &m.kept_sender, &m.kept_body],
    );
    let q = &asked;
    add(!q.task.is_empty(), INSERT_QUESTION, &[&q.task, &q.n, &q.op, &q.key, &q.body]);
    let (n, c) = (&activities.new, &activities.changed);
    add(
        !n.key.is_empty(),
        INSERT_ACTIVITY,
        &[
            &n.key,
            &activities.task,
            &activities.op,
            &n.desk,
            &n.rank,
            &n.due,
            &n.epoch,
            &n.attempt,
            &activities.name,
            &activities.token,
            &activities.body,
        ],
    );
    add(
        !c.key.is_empty(),
        UPDATE_ACTIVITY,
        &[&c.key, &c.desk, &c.rank, &c.due, &c.epoch, &c.attempt],
    );
    let s = &states;
    add(!s.scope.is_empty(), WRITE_STATE, &[&s.scope, &s.key, &s.version, &s.value]);
    add(!s.watched.is_empty(), INSERT_WATCH, &[&s.watched_scope, &s.watched_key, &s.watched]);
    add(!s.session.is_empty(), PUT_SESSION, &[&s.session, &s.session_expires, &s.session_body]);
    add(!s.notice.is_empty(), INSERT_NOTICE, &[&s.notice, &s.notice_until, &s.notice_body]);
    let last = s.notice.last().copied().unwrap_or(0);
    add(!s.notice.is_empty(), "UPDATE counter SET notice = $1::bigint", &[&last]);
    add(!s.notice.is_empty(), NOTICES, &[&work.states.notices_gone]);
    add(true, "COMMIT", &[]);
    pipe.run(conn).await.map(drop)
}

impl Work<'_> {
    /// Where the histories of the tasks in hand end, to be remembered: number, epoch, next event and
    /// the parent that wants to be told.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (i64, Option<crate::lane::Card>)> {
        self.tasks.values().map(|task| {
            let here = !task.gone && task.place == Place::Desk(self.desk);
            let next = task.next.filter(|_| here);
            let parent = task.parent.filter(|_| task.tells).map(|(parent, _)| parent);
            (task.key, next.map(|next| crate::lane::Card { epoch: task.epoch, next, parent }))
        })
    }
}
