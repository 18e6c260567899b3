//! Writing back what a batch changed, in one trip that ends with its commit.

use tokio_postgres::Error;

use super::{
    Task, Work,
    columns::{Activities, Freed, Letters, Questions, States},
    recall::fence_known,
    sql::*,
    task_columns::{Inserts, Updates},
};
use crate::{
    conn::{Conn, Pipe},
    locks::{self, Locks},
    row, text,
    version::Version,
};
use steadfast_store::NewTask;

/// Writes everything, and commits. With an error that is no lost connection nothing was written.
pub(crate) async fn save(conn: &Conn, work: &Work<'_>) -> Result<(), Error> {
    let changes = Changes::of(work, false);
    let mut pipe = Pipe::default();
    changes.write(&mut pipe);
    pipe.add("COMMIT", &[]);
    pipe.run(conn).await.map(drop)
}

/// The same of a batch that was decided by memory: all in one trip, in which it is made sure that what is
/// remembered is so. Fetches numbers for `ahead` new tasks of the next batches, and says the version of the
/// rows that were written.
pub(crate) async fn save_recalled(
    conn: &Conn,
    work: &Work<'_>,
    (lane, number): (i16, i64),
    locks: &Locks,
    ahead: i64,
) -> Result<(Version, Vec<i64>), Error> {
    let changes = Changes::of(work, true);
    let kept: Vec<&str> = work.needs.kept.iter().map(|id| &**id).collect();
    let (e, b) = (&changes.ends, &changes.begins);
    let like = changes.like();
    let (ended, same) = (e.key.len() as i64, changes.same.len() as i64);
    let mut pipe = Pipe::default();
    pipe.add("BEGIN", &[]);
    let fence =
        pipe.add(fence_known(), &[&work.desk, &lane, &number, &ahead, &locks.class, &locks::KEPT]);
    pipe.add(
        write_recalled(),
        &[
            &e.key,
            &e.version,
            &e.status,
            &e.ended,
            &e.expires,
            &e.view,
            &e.outcome,
            &changes.same,
            &changes.same_version,
            &b.rest.key,
            &b.created,
            &b.id,
            &b.owner,
            &b.about,
            &b.rest.view,
            &like.status,
            &like.expires,
            &like.version,
            &like.tool,
            &work.desk,
            &changes.event_task,
            &changes.event_seq,
            &changes.event_body,
            &ended,
            &same,
            &kept,
        ],
    );
    changes.write(&mut pipe);
    pipe.add("COMMIT", &[]);
    let rows = pipe.run(conn).await?;
    // It has one row, or is an error.
    let fence = &rows[fence][0];
    Ok((fence.try_get(1)?, fence.try_get(2)?))
}

/// What is the same for many new tasks.
struct Alike<'w> {
    status: Option<i16>,
    expires: Option<i64>,
    version: Option<i64>,
    tool: Option<&'w str>,
}

/// What a batch changed, column by column.
struct Changes<'w> {
    /// It was decided by memory.
    recalled: bool,
    desk: i64,
    updates: Updates<'w>,
    plain_updates: Updates<'w>,
    freed: Freed<'w>,
    inserts: Inserts<'w>,
    plain_inserts: Inserts<'w>,
    /// Of what is remembered: ends of tasks, and tasks that begin like the first of them.
    ends: Updates<'w>,
    begins: Inserts<'w>,
    event_task: Vec<i64>,
    event_seq: Vec<i64>,
    event_body: Vec<&'w [u8]>,
    restarted: Vec<i64>,
    /// Rows that are remembered, but for those of tasks that end.
    same: Vec<i64>,
    same_version: Vec<Option<Version>>,
    removed: &'w Vec<i64>,
    untold: Vec<i64>,
    mail: Letters<'w>,
    handed_over: &'w Vec<i64>,
    asked: Questions<'w>,
    activities: Activities<'w>,
    states: States<'w>,
    notices_gone: i64,
    last: i64,
}

impl<'w> Changes<'w> {
    fn of(work: &'w Work<'_>, recalled: bool) -> Changes<'w> {
        let states = States::of(work);
        let mut all = Changes {
            recalled,
            desk: work.desk,
            updates: Updates::default(),
            plain_updates: Updates::default(),
            freed: Freed::of(work),
            inserts: Inserts::default(),
            plain_inserts: Inserts::default(),
            ends: Updates::default(),
            begins: Inserts::default(),
            event_task: Vec::new(),
            event_seq: Vec::new(),
            event_body: Vec::new(),
            restarted: Vec::new(),
            same: Vec::new(),
            same_version: Vec::new(),
            removed: &work.removed,
            untold: work.untold.iter().copied().collect(),
            mail: Letters::of(work),
            handed_over: &work.mail.handed_over,
            asked: Questions::of(work),
            activities: Activities::of(work),
            notices_gone: work.states.notices_gone,
            last: states.notice.last().copied().unwrap_or(0),
            states,
        };
        // In their order, in which they are neighbours in most indexes.
        let mut there: Vec<_> = work.tasks.values().filter(|task| !task.gone).collect();
        there.sort_unstable_by_key(|task| task.key);
        for task in there {
            all.add(task);
        }
        all
    }

    fn add(&mut self, task: &'w Task<'_>) {
        let plainly = task.dirty && task.before == Some(task.seldom());
        let ends = self.recalled && plainly && task.ends_plainly();
        let freed = self.freed.keys.get(&task.key).copied();
        match task.fresh {
            Some(new) if task.begins_plainly() && freed.is_none() => {
                match self.recalled && self.begins_alike(new) {
                    true => self.begins.add(task, new),
                    false => self.plain_inserts.add(task, new),
                }
            }
            Some(new) => {
                self.inserts.add(task, new);
                if let (Some(key), Some(dedup)) = (freed, self.inserts.rest.dedup.last_mut()) {
                    *dedup = Some(text::stored(key));
                }
            }
            None if ends => self.ends.add(task),
            None if plainly => self.plain_updates.add(task),
            None if task.dirty => self.updates.add(task),
            None => {}
        }
        if self.recalled && task.fresh.is_none() && !ends {
            self.same.push(task.key);
            self.same_version.push(task.version);
        }
        if task.restarted {
            self.restarted.push(task.key);
        }
        let first = task.next.unwrap_or(0) - task.events.len() as i64;
        for (seq, body) in (first..).zip(&task.events) {
            self.event_task.push(task.key);
            self.event_seq.push(seq);
            self.event_body.push(*body);
        }
    }

    /// Whether a task begins as the first one does that is written with the ends.
    fn begins_alike(&self, new: &NewTask) -> bool {
        let like = self.like();
        self.begins.id.is_empty()
            || like.status == Some(new.status as i16)
                && like.expires == new.expires.map(|expires| expires.0)
                && like.version == Some(row::version(new))
                && like.tool == Some(&*text::stored(&new.tool))
    }

    /// What those have in common that begin alike.
    fn like(&self) -> Alike<'_> {
        let begins = &self.begins;
        Alike {
            status: begins.rest.status.first().copied(),
            expires: begins.rest.expires.first().copied().flatten(),
            version: begins.version.first().copied(),
            tool: begins.tool.first().map(|tool| &**tool),
        }
    }

    /// The statements that write it, but for what [`WRITE_RECALLED`] does.
    fn write<'p>(&'p self, pipe: &mut Pipe<'p>) {
        let Changes {
            recalled,
            desk,
            updates,
            plain_updates,
            freed,
            inserts,
            plain_inserts,
            ends: _,
            begins: _,
            event_task,
            event_seq,
            event_body,
            restarted,
            same: _,
            same_version: _,
            removed,
            untold,
            mail,
            handed_over,
            asked,
            activities,
            states,
            notices_gone,
            last,
        } = self;
        if !removed.is_empty() {
            for sql in REMOVAL {
                pipe.add(sql, &[removed]);
            }
        }
        let mut add = |wanted: bool, sql, params: &[_]| {
            if wanted {
                pipe.add(sql, params);
            }
        };
        add(!restarted.is_empty(), EVENTS_OF, &[restarted]);
        add(!untold.is_empty(), TELLS, &[untold]);
        add(!mail.cleared.is_empty(), INBOX_OF, &[&mail.cleared]);
        add(!mail.unbound.is_empty(), INBOX_BOUND, &[&mail.unbound]);
        add(!mail.consumed.is_empty(), CONSUMED, &[&mail.consumed, &mail.upto]);
        add(!mail.replaced.is_empty(), REPLACED, &[&mail.replaced, &mail.replaced_body]);
        add(!handed_over.is_empty(), KEPT, &[handed_over]);
        add(!asked.cleared.is_empty(), QUESTIONS_OF, &[&asked.cleared]);
        add(!asked.closed.is_empty(), CLOSED, &[&asked.closed, &asked.closed_key]);
        add(!activities.gone.is_empty(), ACTIVITIES, &[&activities.gone]);
        add(!states.watches_cleared.is_empty(), WATCHES_OF, &[&states.watches_cleared]);
        add(
            !states.unwatched.is_empty(),
            UNWATCHED,
            &[&states.unwatched_scope, &states.unwatched_key, &states.unwatched],
        );
        add(
            !freed.gone_task.is_empty(),
            FREED_GONE,
            &[&freed.gone_owner, &freed.gone_key, &freed.gone_task],
        );
        add(!states.scopes_gone.is_empty(), SCOPES, &[&states.scopes_gone]);
        add(!states.sessions_gone.is_empty(), SESSIONS, &[&states.sessions_gone]);

        let u = plain_updates;
        add(
            !u.key.is_empty(),
            UPDATE_PLAINLY,
            &[
                &u.key, &u.status, &u.updated, &u.ended, &u.expires, &u.wake, &u.desk, &u.deaths,
                &u.view, &u.outcome,
            ],
        );
        let u = updates;
        add(
            !u.key.is_empty(),
            UPDATE_TASK,
            &[
                &u.key, &u.status, &u.updated, &u.ended, &u.expires, &u.wake, &u.desk, &u.bound,
                &u.rank, &u.epoch, &u.deaths, &u.letters, &u.traces, &u.tells, &u.dedup, &u.view,
                &u.outcome,
            ],
        );
        let (i, r) = (plain_inserts, &plain_inserts.rest);
        add(
            !r.key.is_empty(),
            INSERT_PLAINLY,
            &[
                &r.key, &r.status, &i.created, &r.expires, &i.version, &i.id, &i.tool, &i.owner,
                &i.about, &r.view, desk,
            ],
        );
        let (i, r) = (inserts, &inserts.rest);
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
        let (f, keyed) = (freed, r.dedup.iter().any(Option::is_some));
        add(keyed, NOT_FREED, &[&i.owner, &r.dedup]);
        add(!f.new.is_empty(), FREE_NEW, &[&f.new]);
        add(!f.task.is_empty(), PUT_FREED, &[&f.owner, &f.key, &f.task, &f.at]);
        add(!i.tag_task.is_empty(), INSERT_TAG, &[&i.tag_name, &i.tag_value, &i.tag_task]);
        add(
            !event_task.is_empty() && !recalled,
            INSERT_EVENT,
            &[event_task, event_seq, event_body],
        );
        let m = mail;
        add(!m.task.is_empty(), INSERT_INBOX, &[&m.task, &m.seq, &m.op, &m.notice, &m.body]);
        add(
            !m.kept.is_empty(),
            INSERT_KEPT,
            &[&m.kept, &m.kept_until, &m.kept_id, &m.kept_sender, &m.kept_body],
        );
        let q = asked;
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
        let s = states;
        add(!s.scope.is_empty(), WRITE_STATE, &[&s.scope, &s.key, &s.version, &s.value]);
        add(!s.watched.is_empty(), INSERT_WATCH, &[&s.watched_scope, &s.watched_key, &s.watched]);
        add(!s.session.is_empty(), PUT_SESSION, &[&s.session, &s.session_expires, &s.session_body]);
        add(!s.notice.is_empty(), INSERT_NOTICE, &[&s.notice, &s.notice_until, &s.notice_body]);
        add(!s.notice.is_empty(), "UPDATE counter SET notice = $1::bigint", &[last]);
        add(!s.notice.is_empty(), NOTICES, &[notices_gone]);
    }
}
