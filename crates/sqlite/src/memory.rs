//! What the writer remembers from batch to batch, so that it need not be looked up.

use std::collections::HashMap;

use rusqlite::Connection;
use steadfast_core::Status;

/// Numbers that never go back, and what is known of the tasks in this process's hands.
///
/// It holds as long as nobody else writes and no batch is undone.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    loaded: bool,
    dirty: bool,
    task: i64,
    number: i64,
    event: i64,
    filed: i64,
    /// Events that no tail leads to yet, the last of each task: all there are, as long as nobody else
    /// has written since the log was filed.
    loose: HashMap<i64, i64>,
    all_loose: bool,
    /// No message is kept for a task that doesn't exist yet.
    none_kept: bool,
    /// A running task writes again soon, and looking it up is half the work of a small turn. Only
    /// tasks on this desk have a card, so that they are as many as the engine runs.
    cards: HashMap<i64, Card>,
    /// The cards from before another process wrote. Their tails still hold for the same epoch: only
    /// who holds a task adds to its history, and a cancel, which begins a new epoch.
    old: HashMap<i64, Card>,
}

/// Old cards of tasks that were lost to others are never asked for again; so they are thrown away
/// when there are this many.
const MOST_OLD: usize = 65_536;

/// What is known of a task on this desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) epoch: i64,
    pub(crate) status: Status,
    pub(crate) deaths: u32,
    pub(crate) tail: Tail,
    /// It has a parent.
    pub(crate) child: bool,
    /// There are no messages for it, and its operations have left nothing in the store. If this is
    /// false there may be.
    pub(crate) bare: bool,
}

/// Where a history ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The number of the next event.
    pub(crate) next: i64,
    /// Where in the log the last one is.
    pub(crate) last: Option<i64>,
}

impl Memory {
    /// A batch was undone: nothing is known.
    pub(crate) fn forget(&mut self) {
        *self = Memory::default();
    }

    /// Another process wrote.
    pub(crate) fn doubt(&mut self) {
        if self.old.len() > MOST_OLD {
            self.old.clear();
        }
        self.old.extend(self.cards.drain());
        (self.loaded, self.none_kept, self.all_loose) = (false, false, false);
    }

    /// Where the history of a task ends that is held here in this epoch, if that is known.
    pub(crate) fn old_tail(&mut self, task: i64, epoch: i64) -> Option<Tail> {
        self.old.remove(&task).filter(|card| card.epoch == epoch).map(|card| card.tail)
    }

    pub(crate) fn card(&self, task: i64) -> Option<Card> {
        self.cards.get(&task).copied()
    }

    pub(crate) fn keep(&mut self, task: i64, card: Card) {
        self.cards.insert(task, card);
    }

    /// A task changes, and what was known of it may not be true any more.
    pub(crate) fn drop_card(&mut self, task: i64) {
        self.cards.remove(&task);
        self.old.remove(&task);
    }

    /// A task gets a message.
    pub(crate) fn not_bare(&mut self, task: i64) {
        if let Some(card) = self.cards.get_mut(&task) {
            card.bare = false;
        }
    }

    /// Whether it is known that no message is kept for a task to come.
    pub(crate) fn none_kept(&self) -> bool {
        self.none_kept
    }

    pub(crate) fn set_none_kept(&mut self, none: bool) {
        self.none_kept = none;
    }

    /// Reads the counters, if they are not known.
    pub(crate) fn load(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if self.loaded {
            return Ok(());
        }
        let sql = "SELECT max(task, ifnull((SELECT max(key) FROM task), 0)), number,
                          max(filed, ifnull((SELECT max(n) FROM event), 0)), filed FROM counter";
        let mut counter = conn.prepare_cached(sql)?;
        (self.task, self.number, self.event, self.filed) = counter
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        (self.loaded, self.dirty) = (true, false);
        Ok(())
    }

    /// Writes the counters, once per batch that used them: cheaper than what AUTOINCREMENT does for
    /// every row.
    pub(crate) fn save(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if std::mem::take(&mut self.dirty) {
            let sql = "UPDATE counter SET task = ?, number = ?, filed = ?";
            conn.prepare_cached(sql)?.execute([self.task, self.number, self.filed])?;
        }
        Ok(())
    }

    /// The key of the next new task.
    pub(crate) fn next_task(&self) -> i64 {
        self.task + 1
    }

    /// The next key is taken. Not written: the task's row says so.
    pub(crate) fn take_task(&mut self) {
        self.task += 1;
    }

    /// The row of a task is removed. It may be the newest there is, and its key must not be given
    /// away again.
    pub(crate) fn removed(&mut self, task: i64) {
        self.dirty = true;
        self.drop_card(task);
    }

    /// A number above all others: of a message, an activity, a place in a pile.
    pub(crate) fn number(&mut self) -> i64 {
        self.dirty = true;
        self.number += 1;
        self.number
    }

    /// What [`number`](Memory::number) will be next.
    pub(crate) fn next_number(&self) -> i64 {
        self.number + 1
    }

    /// The place of a new event of a task in the log. Not written: the event says that it is taken,
    /// and if it is removed nothing else has pointed at it.
    pub(crate) fn event(&mut self, task: i64) -> i64 {
        self.event += 1;
        self.loose.insert(task, self.event);
        self.event
    }

    /// The tail of a task is written, or its history is removed.
    pub(crate) fn not_loose(&mut self, task: i64) {
        self.loose.remove(&task);
    }

    /// The last event of each task that no tail leads to yet, if all are known.
    pub(crate) fn all_loose(&self) -> Option<Vec<(i64, i64)>> {
        self.all_loose.then(|| self.loose.iter().map(|(task, last)| (*task, *last)).collect())
    }

    /// The place of the last event in the log.
    pub(crate) fn last_event(&self) -> i64 {
        self.event
    }

    /// All tails are up to date as far as this place.
    pub(crate) fn filed(&self) -> i64 {
        self.filed
    }

    pub(crate) fn set_filed(&mut self) {
        self.dirty = true;
        self.filed = self.event;
        self.loose.clear();
        self.all_loose = true;
    }
}
