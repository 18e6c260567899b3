//! What a command led to, for the desk that made it.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_store::{TaskKey, Touched};

#[derive(Debug, Default)]
pub(crate) struct Reach {
    pub(crate) touched: BTreeMap<i64, bool>,
    pub(crate) cancelled: BTreeSet<i64>,
}

impl Reach {
    pub(crate) fn touch(&mut self, key: i64, here: bool) {
        *self.touched.entry(key).or_default() |= here;
    }

    /// What became of one task.
    pub(crate) fn of(&self, key: i64) -> Touched {
        Touched { key: TaskKey(key), here: self.touched.get(&key).is_some_and(|here| *here) }
    }

    pub(crate) fn touched(&self) -> Vec<Touched> {
        self.touched.iter().map(|(&key, &here)| Touched { key: TaskKey(key), here }).collect()
    }
}
