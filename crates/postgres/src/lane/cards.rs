//! What a process remembers of the tasks in its hands.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::work::Remembered;

/// Where a history ends, so that it need not be looked up for every turn; and the row, so that it need not
/// be loaded.
///
/// Where it ends holds for an epoch: only who holds a task adds to its history, turn by turn, and a cancel,
/// which begins a new epoch. So it is good for a turn; a cancel may be made in one lane while a turn of the
/// same task is on its way in the other, and looks. Who only writes to a task, as a child does that ends,
/// does not know where its history ends: a turn of it may be on its way in the other lane. The row can be
/// changed by others at any time: who goes by it has to make sure that it is the same still.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    /// The desk that it lies on: ours when this was written, which may be dead by now.
    pub(crate) desk: i64,
    pub(crate) epoch: i64,
    /// The number of the next event, if that is known.
    pub(crate) next: Option<i64>,
    /// The parent that wants to be told of its end.
    pub(crate) parent: Option<i64>,
    pub(crate) row: Option<Arc<Remembered>>,
}

/// Cards of tasks that were lost to others are never asked for again; so all are thrown away when
/// there are this many.
const MOST: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Cards(Mutex<HashMap<i64, Card>>);

impl Cards {
    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Card>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The card of a task that is held in this epoch.
    pub(crate) fn get(&self, task: i64, epoch: i64) -> Option<Card> {
        self.lock().get(&task).filter(|card| card.epoch == epoch).cloned()
    }

    /// The card of a task, if it is held, for who takes no turn of it.
    pub(crate) fn of(&self, task: i64) -> Option<Card> {
        self.lock().get(&task).map(|card| Card { next: None, ..card.clone() })
    }

    /// After a commit: what is known of each task that it involved. Of one that took no turn, where its
    /// history ends is what it was.
    pub(crate) fn keep(&self, cards: impl Iterator<Item = (i64, Option<Card>)>) {
        let mut known = self.lock();
        if known.len() > MOST {
            known.clear();
        }
        for (task, card) in cards {
            match card {
                Some(mut card) => {
                    let before = known.get(&task).filter(|before| before.epoch == card.epoch);
                    card.next = card.next.or_else(|| before.and_then(|before| before.next));
                    known.insert(task, card);
                }
                None => drop(known.remove(&task)),
            }
        }
    }

    /// Nothing is known of these any more.
    pub(crate) fn drop_all<'k>(&self, tasks: impl Iterator<Item = &'k i64>) {
        let mut known = self.lock();
        tasks.for_each(|task| drop(known.remove(task)));
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }
}
