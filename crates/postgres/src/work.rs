//! What a batch works on: the rows that its commands involve, loaded and locked, and what the
//! commands make of them.
//!
//! A batch is decided here, in memory, command by command, each seeing those before it, and written
//! back as a few statements for all of them. So the number of statements does not grow with the
//! number of commands. What must be loaded is said beforehand as far as it is known ([`Needs`]);
//! when a command finds that something is missing, it is loaded and the whole batch decided again.

mod activity;
mod columns;
mod freed;
mod inbox;
mod load;
mod needs;
mod place;
mod question;
mod reach;
mod recall;
mod save;
pub(crate) mod sql;
mod state;
mod task;
mod task_columns;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

pub(crate) use self::activity::At;
#[cfg(debug_assertions)]
pub(crate) use self::recall::check_memory;
use self::{activity::Activity, inbox::Mail, question::Asked};
pub(crate) use self::{
    freed::Holder,
    load::{Begun, Clock, fence, load, new_keys},
    needs::Needs,
    reach::Reach,
    recall::Remembered,
    save::{save, save_recalled},
    task::{ACTIVITIES, Place, QUESTIONS, Task, WATCHES},
};
use crate::{error::Fault, news::News};
use steadfast_store::{TaskKey, Which};

/// What a command comes to.
pub(crate) type Done<T> = std::result::Result<T, Fault>;

/// What is known of a batch's rows, and what is to become of them.
pub(crate) struct Work<'b> {
    /// This handle's desk.
    pub(crate) desk: i64,
    /// The number of this batch, above which ranks are made.
    moment: i64,
    /// What time it was when it began. Nobody asks for that in a batch that is decided by memory.
    pub(crate) clock: Option<Clock>,
    ranks: i64,
    /// What was loaded. What is in here and not in the rest does not exist.
    needs: &'b Needs,
    /// What should have been loaded too.
    pub(crate) missing: Needs,
    /// But for the tasks, which are counted in the end.
    pub(crate) news: News,
    /// A command was refused.
    pub(crate) refused: bool,
    pub(crate) tasks: HashMap<i64, Task<'b>>,
    ids: HashMap<Arc<str>, i64>,
    /// Ids that others have, of those that must be free.
    taken: HashSet<String>,
    dedups: HashMap<(String, String), i64>,
    freed: freed::Freed,
    new_keys: VecDeque<i64>,
    new_activity_keys: VecDeque<i64>,
    mail: Mail<'b>,
    asked: Asked<'b>,
    activities: BTreeMap<i64, Activity<'b>>,
    /// Of tasks whose activities were loaded, or that have new ones.
    activities_of: HashMap<i64, BTreeSet<i64>>,
    states: state::States<'b>,
    /// Tasks that are removed.
    removed: Vec<i64>,
    /// Tasks whose children no longer tell them of their end.
    untold: HashSet<i64>,
}

impl<'b> Work<'b> {
    fn new(desk: i64, moment: i64, clock: Option<Clock>, needs: &'b Needs) -> Work<'b> {
        Work {
            desk,
            moment,
            clock,
            ranks: 0,
            needs,
            missing: Needs::default(),
            news: News::default(),
            refused: false,
            tasks: HashMap::new(),
            ids: HashMap::new(),
            taken: HashSet::new(),
            dedups: HashMap::new(),
            freed: freed::Freed::default(),
            new_keys: VecDeque::new(),
            new_activity_keys: VecDeque::new(),
            mail: Mail::default(),
            asked: Asked::default(),
            activities: BTreeMap::new(),
            activities_of: HashMap::new(),
            states: state::States::default(),
            removed: Vec::new(),
            untold: HashSet::new(),
        }
    }

    /// A number behind all others that were given so far: in a pile, a queue, a list.
    pub(crate) fn rank(&mut self) -> i64 {
        self.ranks += 1;
        (self.moment << 16) + self.ranks
    }

    /// Something changes that somebody elsewhere may see.
    pub(crate) fn changed(&mut self) {
        self.news.written = true;
    }

    /// There is something for anybody to take up.
    pub(crate) fn calls(&mut self) {
        self.changed();
        self.news.work = true;
    }

    /// There will be at this time.
    pub(crate) fn calls_at(&mut self, due: i64) {
        self.changed();
        self.news.due = Some(self.news.due.map_or(due, |before| before.min(due)));
    }

    /// Another desk has to look at what lies on it.
    pub(crate) fn calls_on(&mut self, desk: i64) {
        self.changed();
        self.news.desks.insert(desk);
    }

    /// Something changes for those who listen for questions, notices and sessions.
    pub(crate) fn asks(&mut self) {
        self.changed();
        self.news.asked = true;
    }

    /// What others should hear of it.
    pub(crate) fn told(&self) -> News {
        // Nobody watches a task yet that begins with this.
        let seen = |task: &&Task<'_>| {
            task.fresh.is_none() && (task.dirty || task.gone || !task.events.is_empty())
        };
        let tasks = self.tasks.values().filter(seen).map(|task| TaskKey(task.key)).collect();
        News { tasks: Which::These(tasks), ..self.news.clone() }
    }

    /// A number for a new task.
    pub(crate) fn new_key(&mut self) -> Done<i64> {
        self.new_keys.pop_front().ok_or_else(|| {
            self.missing.new_tasks += 1;
            Fault::Miss
        })
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

/// For a look at their plans.
#[cfg(feature = "testing")]
pub(crate) const STATEMENTS: &[(&str, &str)] = &[
    ("load FENCE", load::FENCE),
    ("load LOCK_KEYS", load::LOCK_KEYS),
    ("load LOCK", load::LOCK),
    ("load FREED", load::FREED),
    ("load TAKEN", load::TAKEN),
    ("load ACTIVITIES", load::ACTIVITIES),
    ("load NEXT", load::NEXT),
    ("load INBOX", load::INBOX),
    ("load QUESTIONS", load::QUESTIONS),
    ("load STATES", load::STATES),
    ("load WATCHERS", load::WATCHERS),
    ("load SESSIONS", load::SESSIONS),
    ("load FIRST_OVER", load::FIRST_OVER),
    ("load KEPT", load::KEPT),
    ("load NOTICE", load::NOTICE),
    ("load TASK_KEYS", load::TASK_KEYS),
    ("load ACTIVITY_KEYS", load::ACTIVITY_KEYS),
    ("recall FENCE_KNOWN", recall::FENCE_KNOWN),
    ("sql WRITE_RECALLED", sql::WRITE_RECALLED),
    ("sql UPDATE_PLAINLY", sql::UPDATE_PLAINLY),
    ("sql UPDATE_TASK", sql::UPDATE_TASK),
    ("sql INSERT_PLAINLY", sql::INSERT_PLAINLY),
    ("sql INSERT_TASK", sql::INSERT_TASK),
    ("sql NOT_FREED", sql::NOT_FREED),
    ("sql FREE_NEW", sql::FREE_NEW),
    ("sql PUT_FREED", sql::PUT_FREED),
    ("sql INSERT_TAG", sql::INSERT_TAG),
    ("sql INSERT_EVENT", sql::INSERT_EVENT),
    ("sql INSERT_INBOX", sql::INSERT_INBOX),
    ("sql INSERT_QUESTION", sql::INSERT_QUESTION),
    ("sql INSERT_KEPT", sql::INSERT_KEPT),
    ("sql INSERT_ACTIVITY", sql::INSERT_ACTIVITY),
    ("sql UPDATE_ACTIVITY", sql::UPDATE_ACTIVITY),
    ("sql WRITE_STATE", sql::WRITE_STATE),
    ("sql INSERT_WATCH", sql::INSERT_WATCH),
    ("sql PUT_SESSION", sql::PUT_SESSION),
    ("sql INSERT_NOTICE", sql::INSERT_NOTICE),
    ("sql EVENTS_OF", sql::EVENTS_OF),
    ("sql INBOX_OF", sql::INBOX_OF),
    ("sql QUESTIONS_OF", sql::QUESTIONS_OF),
    ("sql WATCHES_OF", sql::WATCHES_OF),
    ("sql ACTIVITIES_OF", sql::ACTIVITIES_OF),
    ("sql TAGS_OF", sql::TAGS_OF),
    ("sql TASKS", sql::TASKS),
    ("sql ACTIVITIES", sql::ACTIVITIES),
    ("sql KEPT", sql::KEPT),
    ("sql TELLS", sql::TELLS),
    ("sql INBOX_BOUND", sql::INBOX_BOUND),
    ("sql SCOPES", sql::SCOPES),
    ("sql SESSIONS", sql::SESSIONS),
    ("sql NOTICES", sql::NOTICES),
    ("sql CONSUMED", sql::CONSUMED),
    ("sql REPLACED", sql::REPLACED),
    ("sql CLOSED", sql::CLOSED),
    ("sql UNWATCHED", sql::UNWATCHED),
    ("sql FREED_GONE", sql::FREED_GONE),
];
