//! A batch that is decided by memory, so that it takes one trip and not two.
//!
//! Of a task in its hands a process knows the row, as it wrote it last. So a batch of nothing but turns of
//! such tasks, and of new tasks, need not load anything. The trip that writes it locks the rows as loading
//! would, and makes sure that each is the very version that is remembered, that no message waits for a new
//! task, that the desk is alive and the batch the next of its lane. If one of these is not so it fails as a
//! whole, and the batch is decided again the long way.

use std::sync::Arc;

use steadfast_core::{OpId, Status};

use super::{Needs, Place, Task, Work};
use crate::{core::alive, lane::Card, version::Version};

/// The row of a task that lies on this desk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    id: Arc<str>,
    owner: Arc<str>,
    status: Status,
    wake: Option<i64>,
    rank: i64,
    deaths: i64,
    expires: Option<i64>,
    parent: Option<(i64, OpId)>,
    tells: bool,
    dedup: Option<String>,
    bound: Option<i64>,
    letters: i64,
    traces: i16,
    version: Version,
}

impl Remembered {
    /// What is known when the transaction `now` is committed.
    fn of(task: &Task<'_>, now: Version) -> Option<Arc<Remembered>> {
        let written = task.dirty || task.fresh.is_some();
        if !written && let Some(same) = &task.remembered {
            return Some(Arc::clone(same));
        }
        Some(Arc::new(Remembered {
            id: Arc::clone(&task.id),
            owner: Arc::clone(&task.owner),
            status: task.status,
            wake: task.wake,
            rank: task.rank,
            deaths: task.deaths,
            expires: task.expires,
            parent: task.parent,
            tells: task.tells,
            dedup: task.dedup.clone(),
            bound: task.bound,
            letters: task.letters,
            traces: task.traces,
            version: if written { now } else { task.version? },
        }))
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.letters > 0
    }
}

impl Card {
    /// The task as it was, if its row is known and it lies on this desk.
    fn recall<'b>(&self, key: i64, desk: i64) -> Option<Task<'b>> {
        let row = self.row.as_ref().filter(|_| self.desk == desk)?;
        let task = Task {
            status: row.status,
            place: Place::Desk(desk),
            wake: row.wake,
            rank: row.rank,
            epoch: self.epoch,
            deaths: row.deaths,
            expires: row.expires,
            parent: row.parent,
            tells: row.tells,
            dedup: row.dedup.clone(),
            bound: row.bound,
            letters: row.letters,
            traces: row.traces,
            next: self.next,
            version: Some(row.version),
            remembered: Some(Arc::clone(row)),
            ..Task::new(key, Arc::clone(&row.id), Arc::clone(&row.owner))
        };
        Some(task.unchanged())
    }
}

impl Needs {
    /// Whether nothing is needed but rows that are remembered, and numbers for new tasks.
    pub(crate) fn are_known(&self) -> bool {
        let Needs {
            keys,
            ids,
            dedups,
            taken_back,
            activities,
            new_ids: _,
            states,
            watched,
            sessions,
            sessions_put: _,
            new_sessions: _,
            most_sessions,
            kept: _,
            keeps,
            notices,
            new_tasks: _,
            new_activities,
            next,
            cards,
            inbox,
            questions,
            questions_of,
            activities_of,
        } = self;
        ids.is_empty()
            && dedups.is_empty()
            && taken_back.is_empty()
            && activities.is_empty()
            && states.is_empty()
            && watched.is_empty()
            && sessions.is_empty()
            && most_sessions.is_none()
            && !keeps
            && !notices
            && *new_activities == 0
            && next.is_empty()
            && inbox.is_empty()
            && questions.is_empty()
            && questions_of.is_empty()
            && activities_of.is_empty()
            && keys.iter().all(|key| cards.get(key).is_some_and(|card| card.row.is_some()))
    }
}

impl<'b> Work<'b> {
    /// What is remembered of everything that is needed.
    pub(crate) fn recall(
        desk: i64,
        needs: &'b Needs,
        new_keys: std::collections::VecDeque<i64>,
    ) -> Option<Work<'b>> {
        let mut work = Work::new(desk, 0, None, needs);
        work.new_keys = new_keys;
        for key in &needs.keys {
            let task = needs.cards.get(key)?.recall(*key, desk)?;
            work.tasks.insert(*key, task);
        }
        Some(work)
    }

    /// Whether what was decided by memory can be written so. A refusal has to be by what is there now. Who
    /// has a number for his place would need the number of the transaction first.
    pub(crate) fn holds(&self) -> bool {
        self.is_complete()
            && !self.refused
            && self.ranks == 0
            && self.removed.is_empty()
            && self.untold.is_empty()
            && self.news.written
    }

    /// What is known of the tasks in hand after the transaction `now`.
    pub(crate) fn cards(&self, now: Version) -> impl Iterator<Item = (i64, Option<Card>)> {
        self.tasks.values().map(move |task| {
            let here = !task.gone && task.place == Place::Desk(self.desk);
            let parent = task.parent.filter(|_| task.tells).map(|(parent, _)| parent);
            let card = here.then(|| Card {
                desk: self.desk,
                epoch: task.epoch,
                next: task.next,
                parent,
                row: Remembered::of(task, now),
            });
            (task.key, card)
        })
    }
}

macro_rules! fence {
    ($($alive:tt)+) => {
        concat!(
            "WITH alive AS (SELECT d.n FROM desk d WHERE d.n = $1 AND ",
            $($alive)+,
            " FOR KEY SHARE),
             counted AS (UPDATE writer w SET batch = $3::bigint FROM alive
                 WHERE w.desk = alive.n AND w.lane = $2 AND w.batch = $3::bigint - 1 RETURNING 1)
             SELECT 1 / count(*), pg_current_xact_id()::xid,
                 ARRAY(SELECT nextval('task_key') FROM generate_series(1, $4::bigint)),
                 pg_advisory_xact_lock_shared($5::int, $6::int)
             FROM counted"
        )
    };
}

/// As [`FENCE`](super::load::FENCE), for a batch whose number is known before: an error if the desk is dead, or if
/// another batch has had that number. Nobody keeps a message for a new task from here on; and numbers for
/// tasks of the next batches are fetched on the way.
pub(crate) const FENCE_KNOWN: &str = fence!(alive!());

/// How a batch begins that is known by heart.
pub(super) fn fence_known() -> &'static str {
    #[cfg(feature = "mutants")]
    if crate::mutants::is_undead() {
        return fence!("true");
    }
    FENCE_KNOWN
}

/// Whether what is remembered of a row is what is in it, for as long as it is the same version: so every test
/// is one of the memory as well.
#[cfg(debug_assertions)]
pub(crate) async fn check_memory(conn: &crate::conn::Conn, needs: &Needs, desk: i64) {
    #[cfg(feature = "mutants")]
    if crate::mutants::trusts_memory() {
        return;
    }
    let keys: Vec<i64> = needs.keys.iter().copied().collect();
    // What goes wrong with the connection shows with the batch.
    let Ok(rows) = conn.query(super::load::LOOK, &[&keys]).await else { return };
    for row in rows {
        let Ok(mut there) = super::load::task(&row) else { continue };
        let known = needs.cards.get(&there.key).and_then(|card| card.recall(there.key, desk));
        let Some(known) = known.filter(|known| known.version == there.version) else { continue };
        // Where a history ends is known to who takes a turn, and the rest is of what is remembered alone.
        there.next = row.try_get(18).ok().filter(|_| known.next.is_some());
        there.remembered = known.remembered.clone();
        assert_eq!(format!("{there:?}"), format!("{known:?}"), "a task is remembered wrongly");
    }
}
