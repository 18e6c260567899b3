//! What the writer remembers from batch to batch, so that it need not be looked up.

use std::collections::HashMap;

use rusqlite::Connection;
use steadfast_core::Status;

/// Numbers that never go back, and what is known of the tasks in this process's hands.
///
/// All of it holds as long as nobody else writes and no batch is undone; then it is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    loaded: bool,
    dirty: bool,
    task: i64,
    number: i64,
    event: i64,
    /// No message is kept for a task that doesn't exist yet.
    none_kept: bool,
    /// A running task writes again soon, and looking it up is half the work of a small turn. Only
    /// tasks on this desk have a card, so that they are as many as the engine runs.
    cards: HashMap<i64, Card>,
}

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
    /// The segment of the last.
    pub(crate) segment: Option<i64>,
}

impl Memory {
    /// Another process wrote, or a batch was undone.
    pub(crate) fn forget(&mut self) {
        self.loaded = false;
        self.none_kept = false;
        self.cards.clear();
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
        let mut counter = conn.prepare_cached("SELECT task, number FROM counter")?;
        (self.task, self.number) = counter.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Not stored: as long as a task has events, theirs keep this one from going back.
        let mut last = conn.prepare_cached("SELECT max(n) FROM event")?;
        self.event = last.query_row([], |row| row.get::<_, Option<i64>>(0))?.unwrap_or(0);
        (self.loaded, self.dirty) = (true, false);
        Ok(())
    }

    /// Writes the counters, once per batch that used them: cheaper than what AUTOINCREMENT does for
    /// every row.
    pub(crate) fn save(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if std::mem::take(&mut self.dirty) {
            let mut statement = conn.prepare_cached("UPDATE counter SET task = ?, number = ?")?;
            statement.execute([self.task, self.number])?;
        }
        Ok(())
    }

    /// The key of a new task.
    pub(crate) fn task(&mut self) -> i64 {
        self.dirty = true;
        self.task += 1;
        self.task
    }

    /// A number above all others: of a message, an activity, a place in a pile.
    pub(crate) fn number(&mut self) -> i64 {
        self.dirty = true;
        self.number += 1;
        self.number
    }

    /// The place of a new event in the log.
    pub(crate) fn event(&mut self) -> i64 {
        self.event += 1;
        self.event
    }
}
