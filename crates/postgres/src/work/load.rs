//! Loading and locking what a batch involves, in one trip.

use std::time::{Duration, Instant};

use tokio_postgres::{Error, Row};

use super::{
    Needs, Place, Task, Work,
    activity::{Activity, At},
    inbox::{Kept, Stored},
    question::Open,
};
use crate::{
    conn::{Conn, Pipe},
    core::{alive, clock},
    locks, row, text,
    version::Version,
};
use steadfast_core::OpId;

macro_rules! fence {
    ($($alive:tt)+) => {
        concat!(
            "WITH alive AS (SELECT d.n FROM desk d WHERE d.n = $1 AND ",
            $($alive)+,
            " FOR KEY SHARE)
             UPDATE writer w SET batch = w.batch + 1 FROM alive
             WHERE w.desk = alive.n AND w.lane = $2
             RETURNING w.batch, nextval('moment'), pg_current_xact_id()::xid, ",
            clock!()
        )
    };
}

/// Checks that this desk is alive, and keeps others from declaring it dead until the end of the
/// transaction; counts the batch; gives it its moment. No row if the desk is dead.
///
/// The lock on the desk is one that its heartbeat can pass. The one on the writer's row is what who
/// looks for a lost commit waits for.
pub(crate) const FENCE: &str = fence!(alive!());

/// How a transaction begins.
pub(crate) fn fence() -> &'static str {
    #[cfg(feature = "mutants")]
    if crate::mutants::is_undead() {
        return fence!("true");
    }
    FENCE
}

macro_rules! columns {
    () => {
        "t.key, t.id, t.owner, t.status, t.desk, t.wake, t.rank, t.epoch, t.deaths, t.expires,
         t.parent, t.parent_op, t.tells, t.dedup, t.bound, t.letters, t.traces,
         t.xmin"
    };
}

/// Most batches know all tasks by number.
pub(crate) const LOCK_KEYS: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM task t WHERE t.key = ANY($1::bigint[]) ORDER BY t.key FOR NO KEY UPDATE"
);

/// The same without a lock, and where the history ends, for a look at what is remembered.
#[cfg(debug_assertions)]
pub(crate) const LOOK: &str = concat!(
    "SELECT ",
    columns!(),
    ", coalesce((SELECT max(seq) + 1 FROM event e WHERE e.task = t.key), 0)
     FROM task t WHERE t.key = ANY($1::bigint[])"
);

pub(crate) const LOCK: &str = concat!(
    "WITH want (key) AS (
        SELECT unnest($1::bigint[])
        UNION SELECT t.key FROM unnest($2::text[]) AS i (id) JOIN task t ON t.id = i.id
        UNION SELECT t.key FROM unnest($3::text[], $4::text[]) AS d (owner, dedup)
              JOIN task t ON t.owner = d.owner AND t.dedup = d.dedup
        UNION SELECT f.task FROM unnest($3::text[], $4::text[]) AS d (owner, dedup)
              JOIN freed f ON f.owner = d.owner AND f.key = d.dedup
        UNION SELECT a.task FROM unnest($5::bigint[]) AS k (key) JOIN activity a ON a.key = k.key
        UNION SELECT w.task FROM unnest($6::text[], $7::text[]) AS s (scope, key)
              JOIN watch w ON w.scope = s.scope AND w.key = s.key
     )
     SELECT ",
    columns!(),
    " FROM want JOIN task t ON t.key = want.key ORDER BY t.key FOR NO KEY UPDATE OF t"
);

/// After the tasks are locked: one that was waited for may have freed its key meanwhile.
pub(crate) const FREED: &str = "
    SELECT f.owner, f.key, f.task, f.at FROM unnest($1::text[], $2::text[]) AS d (owner, key)
    JOIN freed f ON f.owner = d.owner AND f.key = d.key";

pub(crate) const TAKEN: &str = "SELECT id FROM task WHERE id = ANY($1::text[])";

pub(crate) const ACTIVITIES: &str = "
    WITH want (key) AS (
        SELECT unnest($1::bigint[])
        UNION SELECT a.key FROM unnest($2::bigint[]) AS o (task)
              JOIN activity a ON a.task = o.task
    )
    SELECT a.key, a.task, a.op, a.desk, a.rank, a.due, a.epoch, a.attempt
    FROM want JOIN activity a ON a.key = want.key ORDER BY a.key FOR NO KEY UPDATE OF a";

pub(crate) const NEXT: &str = "
    SELECT o.task, coalesce((SELECT max(seq) + 1 FROM event e WHERE e.task = o.task), 0)
    FROM unnest($1::bigint[]) AS o (task)";

pub(crate) const INBOX: &str =
    "SELECT task, seq, op IS NOT NULL OR notice FROM inbox WHERE task = ANY($1::bigint[])";

pub(crate) const QUESTIONS: &str = "
    SELECT q.task, q.n, q.op, q.key FROM unnest($1::bigint[]) AS o (task)
    JOIN question q ON q.task = o.task
    UNION
    SELECT q.task, q.n, q.op, q.key FROM unnest($2::text[]) AS i (id)
    JOIN task t ON t.id = i.id JOIN question q ON q.task = t.key
    ORDER BY 1, 2";

pub(crate) const STATES: &str = "
    SELECT s.scope, s.key, s.version FROM unnest($1::text[], $2::text[]) AS o (scope, key)
    JOIN state s ON s.scope = o.scope AND s.key = o.key";

pub(crate) const WATCHERS: &str = "
    SELECT w.scope, w.key, w.task FROM unnest($1::text[], $2::text[]) AS o (scope, key)
    JOIN watch w ON w.scope = o.scope AND w.key = o.key";

pub(crate) const SESSIONS: &str =
    "SELECT id FROM session WHERE id = ANY($1::text[]) ORDER BY id FOR NO KEY UPDATE";

/// How many there are; and if there may be too many, those that may have to go, and some more in case
/// that they are put to another time.
pub(crate) const FIRST_OVER: &str = "
    SELECT c.n, s.expires, s.id FROM (SELECT count(*) AS n FROM session) AS c
    LEFT JOIN LATERAL (
        SELECT expires, id FROM session ORDER BY expires, id
        LIMIT CASE WHEN c.n + $1 > $2 THEN c.n + $1 - $2 + $3 ELSE 0 END) AS s ON true";

pub(crate) const KEPT: &str =
    "SELECT id, n, sender, until, body FROM kept WHERE id = ANY($1::text[]) ORDER BY n";

pub(crate) const NOTICE: &str = "SELECT notice FROM counter FOR NO KEY UPDATE";
pub(crate) const TASK_KEYS: &str = "SELECT nextval('task_key') FROM generate_series(1, $1::bigint)";
pub(crate) const ACTIVITY_KEYS: &str =
    "SELECT nextval('activity_key') FROM generate_series(1, $1::bigint)";

/// How a batch begins, if it does.
pub(crate) enum Begun {
    /// Its transaction, with the number of the batch.
    New { desk: i64, lane: i16 },
    /// The same in a transaction that somebody else has begun.
    Joined { desk: i64, lane: i16 },
    /// It goes on in the transaction that there is.
    Same { desk: i64, stamp: Stamp },
}

/// What a batch is known by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// Its number, of those of its lane.
    pub(crate) number: i64,
    /// Its place among those of all.
    pub(crate) moment: i64,
    /// Of the rows that it writes.
    pub(crate) version: Version,
    /// What time it was when it began.
    pub(crate) clock: Clock,
}

/// A moment by the database's clock, in microseconds, and one by ours that was not later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) theirs: i64,
    pub(crate) ours: Instant,
}

impl Clock {
    /// What time it was there at the latest when it was this here.
    pub(crate) fn at_the_latest(&self, instant: Instant) -> i64 {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        self.theirs
            .saturating_sub(micros(self.ours.saturating_duration_since(instant)))
            .saturating_add(micros(instant.saturating_duration_since(self.ours)))
    }

    /// How long before it something was that has its time from there.
    pub(crate) fn since(&self, theirs: i64) -> Duration {
        Duration::from_micros(u64::try_from(self.theirs.saturating_sub(theirs)).unwrap_or(0))
    }
}

/// What was loaded: the batch to work on, and its stamp; `None` if the desk is dead.
pub(crate) async fn load<'b>(
    conn: &Conn,
    needs: &'b Needs,
    begun: &Begun,
    locks: &locks::Locks,
) -> Result<Option<(Work<'b>, Stamp)>, Error> {
    let keys: Vec<i64> = needs.keys.iter().copied().collect();
    let new_ids: Vec<&str> = needs.new_ids.iter().map(|id| &**id).collect();
    let ids: Vec<&str> = needs.ids.iter().map(String::as_str).collect();
    let dedup_owners: Vec<&str> = needs.dedups.iter().map(|(owner, _)| owner.as_str()).collect();
    let dedups: Vec<_> = needs.dedups.iter().map(|(_, dedup)| text::stored(dedup)).collect();
    let activities: Vec<i64> = needs.activities.iter().copied().collect();
    let activities_of: Vec<i64> = needs.activities_of.iter().copied().collect();
    let scopes: Vec<_> = needs.states.iter().map(|(scope, _)| text::stored(scope)).collect();
    let state_keys: Vec<_> = needs.states.iter().map(|(_, key)| text::stored(key)).collect();
    let sessions: Vec<_> = needs.sessions.iter().map(|id| text::stored(id)).collect();
    let kept: Vec<&str> = needs.kept.iter().map(|id| &**id).collect();
    let next: Vec<i64> = needs.next.iter().copied().collect();
    let inbox: Vec<i64> = needs.inbox.iter().copied().collect();
    let questions: Vec<i64> = needs.questions.iter().copied().collect();
    let questions_of: Vec<&str> = needs.questions_of.iter().map(String::as_str).collect();
    let (new_tasks, new_activities) = (needs.new_tasks as i64, needs.new_activities as i64);
    let values = needs.states.iter().chain(&needs.watched);
    let buckets = locks.buckets(values, &needs.taken_back);

    let mut pipe = Pipe::default();
    let mut fence = None;
    if let Begun::New { desk, lane } | Begun::Joined { desk, lane } = begun {
        if matches!(begun, Begun::New { .. }) {
            pipe.add("BEGIN", &[]);
        }
        fence = Some(pipe.add(self::fence(), &[desk, lane]));
        if needs.keeps {
            pipe.add(locks::EXCLUSIVE, &[&locks.class, &locks::KEPT]);
        } else if !kept.is_empty() {
            pipe.add(locks::SHARED, &[&locks.class, &locks::KEPT]);
        }
        if !buckets.is_empty() {
            pipe.add(locks::ALL, &[&locks.class, &buckets]);
        }
    }
    let by_key =
        ids.is_empty() && dedups.is_empty() && activities.is_empty() && state_keys.is_empty();
    let tasks =
        match by_key {
            true if keys.is_empty() => None,
            true => Some(pipe.add(LOCK_KEYS, &[&keys])),
            false => Some(pipe.add(
                LOCK,
                &[&keys, &ids, &dedup_owners, &dedups, &activities, &scopes, &state_keys],
            )),
        };
    let mut add = |wanted: bool, sql, params: &[_]| wanted.then(|| pipe.add(sql, params));
    let freed = add(!dedups.is_empty(), FREED, &[&dedup_owners, &dedups]);
    let taken = add(!new_ids.is_empty(), TAKEN, &[&new_ids]);
    let works = add(
        !activities.is_empty() || !activities_of.is_empty(),
        ACTIVITIES,
        &[&activities, &activities_of],
    );
    let asked = !questions.is_empty() || !questions_of.is_empty();
    let asked = add(asked, QUESTIONS, &[&questions, &questions_of]);
    let next = add(!next.is_empty(), NEXT, &[&next]);
    let letters = add(!inbox.is_empty(), INBOX, &[&inbox]);
    let versions = add(!scopes.is_empty(), STATES, &[&scopes, &state_keys]);
    let watchers = add(!scopes.is_empty(), WATCHERS, &[&scopes, &state_keys]);
    let open = add(!sessions.is_empty(), SESSIONS, &[&sessions]);
    let most = needs.most_sessions.map(|most| i64::try_from(most).unwrap_or(i64::MAX));
    let (new, put) = (needs.new_sessions as i64, needs.sessions_put as i64);
    let most_or_all = most.unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    let first_over = add(most.is_some(), FIRST_OVER, &[&new, &most_or_all, &put]);
    let early = add(!kept.is_empty(), KEPT, &[&kept]);
    let notice = add(needs.notices, NOTICE, &[]);
    let task_keys = add(new_tasks > 0, TASK_KEYS, &[&new_tasks]);
    let activity_keys = add(new_activities > 0, ACTIVITY_KEYS, &[&new_activities]);

    let ours = Instant::now();
    let mut rows = pipe.run(conn).await?;
    let mut take =
        |at: Option<usize>| at.map(|at| std::mem::take(&mut rows[at])).unwrap_or_default();
    let (desk, stamp) = match *begun {
        Begun::Same { desk, stamp } => (desk, stamp),
        Begun::New { desk, .. } | Begun::Joined { desk, .. } => match take(fence).first() {
            Some(row) => {
                let (number, moment) = (row.try_get(0)?, row.try_get(1)?);
                let (version, clock) = (row.try_get(2)?, Clock { theirs: row.try_get(3)?, ours });
                (desk, Stamp { number, moment, version, clock })
            }
            None => return Ok(None),
        },
    };
    let mut work = Work::new(desk, stamp.moment, Some(stamp.clock), needs);
    for row in take(tasks) {
        let mut task = task(&row)?;
        if task.place == Place::Desk(desk) {
            let card = needs.cards.get(&task.key).filter(|card| card.epoch == task.epoch);
            task.next = card.and_then(|card| card.next);
        }
        work.ids.insert(task.id.clone(), task.key);
        if let Some(dedup) = &task.dedup {
            work.dedups.insert((task.owner.to_string(), dedup.clone()), task.key);
        }
        work.tasks.insert(task.key, task);
    }
    for row in take(freed) {
        work.freed.loaded(at(&row)?, row.try_get(2)?, row.try_get(3)?);
    }
    for row in take(taken) {
        work.taken.insert(row.try_get(0)?);
    }
    for row in take(works) {
        let activity = activity(&row)?;
        if needs.activities_of.contains(&activity.task) {
            work.activities_of.entry(activity.task).or_default().insert(activity.key);
        }
        work.activities.insert(activity.key, activity);
    }
    for row in take(asked) {
        let key = text::read(row.try_get(3)?);
        let open = Open { key, op: row::op(&row, 2)? };
        work.asked.stored.entry(row.try_get(0)?).or_default().push(open);
    }
    // Those of whom nothing was found have none.
    for key in &questions {
        work.asked.stored.entry(*key).or_default();
    }
    for id in &questions_of {
        if let Some(key) = work.ids.get(*id) {
            work.asked.stored.entry(*key).or_default();
        }
    }
    for row in take(next) {
        if let Some(task) = work.tasks.get_mut(&row.try_get(0)?) {
            task.next = Some(row.try_get(1)?);
        }
    }
    for key in &inbox {
        work.mail.stored.entry(*key).or_default();
    }
    for row in take(letters) {
        let stored = Stored { seq: row.try_get(1)?, bound: row.try_get(2)? };
        work.mail.stored.entry(row.try_get(0)?).or_default().push(stored);
    }
    for row in take(versions) {
        work.states.versions.insert(at(&row)?, row.try_get(2)?);
    }
    for row in take(watchers) {
        work.states.watchers.entry(at(&row)?).or_default().insert(row.try_get(2)?);
    }
    for row in take(open) {
        work.states.sessions.insert(text::read(row.try_get(0)?));
    }
    for row in take(first_over) {
        work.states.session_count = row.try_get(0)?;
        if let Some(expires) = row.try_get(1)? {
            work.states.first_over.insert((expires, text::read(row.try_get(2)?)));
        }
    }
    for row in take(early) {
        let (n, sender, until, body) =
            (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        let kept = Kept { n, sender, until, body };
        work.mail.kept.entry(row.try_get(0)?).or_default().push(kept);
    }
    work.states.last_notice = match take(notice).first() {
        Some(row) => Some(row.try_get(0)?),
        None => None,
    };
    for row in take(task_keys) {
        work.new_keys.push_back(row.try_get(0)?);
    }
    for row in take(activity_keys) {
        work.new_activity_keys.push_back(row.try_get(0)?);
    }
    Ok(Some((work, stamp)))
}

/// Numbers for new tasks.
pub(crate) async fn new_keys(conn: &Conn, count: usize) -> Result<Vec<i64>, Error> {
    let rows = conn.query(TASK_KEYS, &[&(count as i64)]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

fn at(row: &Row) -> Result<(String, String), Error> {
    Ok((text::read(row.try_get(0)?), text::read(row.try_get(1)?)))
}

pub(super) fn task<'b>(row: &Row) -> Result<Task<'b>, Error> {
    let parent: Option<i64> = row.try_get(10)?;
    let dedup: Option<String> = row.try_get(13)?;
    let [id, owner] = [row.try_get::<_, &str>(1)?, row.try_get(2)?];
    let task = Task {
        status: row::status(row, 3)?,
        place: Place::read(row.try_get(4)?),
        wake: row.try_get(5)?,
        rank: row.try_get(6)?,
        epoch: row.try_get(7)?,
        deaths: row.try_get(8)?,
        expires: row.try_get(9)?,
        parent: match parent {
            Some(parent) => Some((parent, row::op(row, 11)?)),
            None => None,
        },
        tells: row.try_get(12)?,
        dedup: dedup.map(text::read),
        bound: row.try_get(14)?,
        letters: row.try_get(15)?,
        traces: row.try_get(16)?,
        version: Some(row.try_get(17)?),
        ..Task::new(row.try_get(0)?, id.into(), owner.into())
    };
    Ok(task.unchanged())
}

fn activity<'b>(row: &Row) -> Result<Activity<'b>, Error> {
    Ok(Activity {
        key: row.try_get(0)?,
        task: row.try_get(1)?,
        op: OpId(row::small(row, 2)?),
        at: At::read(row.try_get(3)?, row.try_get(4)?, row.try_get(5)?),
        epoch: row.try_get(6)?,
        attempt: row.try_get(7)?,
        dirty: false,
        gone: false,
        fresh: None,
    })
}
