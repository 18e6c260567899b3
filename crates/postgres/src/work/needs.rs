//! What must be loaded for a batch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::lane::Card;

/// What must be loaded for a batch, and with it what must be locked.
///
/// Everything that is locked is locked in one order, whatever the batch: advisory locks, tasks by
/// their numbers, then what belongs to tasks. So two batches don't wait for each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// Tasks by number,
    pub(crate) keys: BTreeSet<i64>,
    /// by id,
    pub(crate) ids: BTreeSet<String>,
    /// or by owner and dedup key.
    pub(crate) dedups: BTreeSet<(String, String)>,
    /// Those of these keys that are of requests that may be taken back: nobody may do that, or begin one of
    /// them, meanwhile.
    pub(crate) taken_back: BTreeSet<(String, String)>,
    /// Tasks by their activity, which comes with them.
    pub(crate) activities: BTreeSet<i64>,
    /// Ids that must be free. Tasks that have them are not looked at further.
    pub(crate) new_ids: BTreeSet<Arc<str>>,
    /// Values that are written: their versions, and with them the tasks that watch them.
    pub(crate) states: BTreeSet<(String, String)>,
    /// Values that are going to be watched: nobody may write them meanwhile.
    pub(crate) watched: BTreeSet<(String, String)>,
    pub(crate) sessions: BTreeSet<String>,
    /// How many of them are put, how many of those may be new, and how many there may be then.
    pub(crate) sessions_put: usize,
    pub(crate) new_sessions: usize,
    pub(crate) most_sessions: Option<usize>,
    /// Messages that are kept for tasks with these ids.
    pub(crate) kept: BTreeSet<Arc<str>>,
    /// A message will be kept: nobody may start a task meanwhile.
    pub(crate) keeps: bool,
    /// The number of the last notice.
    pub(crate) notices: bool,
    /// Numbers for new tasks,
    pub(crate) new_tasks: usize,
    /// and activities.
    pub(crate) new_activities: usize,

    // Of tasks that are locked. These can be loaded later as well.
    /// Where their history ends,
    pub(crate) next: BTreeSet<i64>,
    /// or what is remembered of it by who takes a turn.
    pub(crate) cards: BTreeMap<i64, Card>,
    pub(crate) inbox: BTreeSet<i64>,
    pub(crate) questions: BTreeSet<i64>,
    /// Of tasks by id.
    pub(crate) questions_of: BTreeSet<String>,
    pub(crate) activities_of: BTreeSet<i64>,
}

impl Needs {
    pub(crate) fn is_empty(&self) -> bool {
        !self.locks()
            && self.next.is_empty()
            && self.inbox.is_empty()
            && self.questions.is_empty()
            && self.questions_of.is_empty()
            && self.activities_of.is_empty()
            && self.new_tasks == 0
            && self.new_activities == 0
    }

    /// Whether there is something to lock, or to be read under a lock that comes first. If that is
    /// found late, the batch begins anew, so as to lock it in its turn.
    pub(crate) fn locks(&self) -> bool {
        !(self.keys.is_empty()
            && self.ids.is_empty()
            && self.dedups.is_empty()
            && self.taken_back.is_empty()
            && self.new_ids.is_empty()
            && self.activities.is_empty()
            && self.states.is_empty()
            && self.watched.is_empty()
            && self.sessions.is_empty()
            && self.kept.is_empty())
            || self.keeps
            || self.notices
    }

    /// Adds what was found missing.
    pub(crate) fn add(&mut self, more: Needs) {
        self.keys.extend(more.keys);
        self.ids.extend(more.ids);
        self.dedups.extend(more.dedups);
        self.taken_back.extend(more.taken_back);
        self.new_ids.extend(more.new_ids);
        self.activities.extend(more.activities);
        self.states.extend(more.states);
        self.watched.extend(more.watched);
        self.sessions.extend(more.sessions);
        self.kept.extend(more.kept);
        self.keeps |= more.keeps;
        self.notices |= more.notices;
        self.new_tasks += more.new_tasks;
        self.new_activities += more.new_activities;
        self.next.extend(more.next);
        self.inbox.extend(more.inbox);
        self.questions.extend(more.questions);
        self.questions_of.extend(more.questions_of);
        self.activities_of.extend(more.activities_of);
    }
}
