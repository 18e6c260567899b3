//! The ids of events that were applied.

use std::collections::{HashSet, VecDeque};

/// So many are remembered, the newest: a task that goes on for years must not carry the ids of all
/// that was ever sent to it. Who sends an event again does so soon.
const MOST: usize = 10_000;

/// The ids of events that were applied, the newest of them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    order: VecDeque<String>,
    known: HashSet<String>,
}

impl Seen {
    /// Takes an id in, and says whether it was new.
    pub(super) fn insert(&mut self, id: &str) -> bool {
        if !self.known.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    /// All of them, oldest first.
    pub(super) fn to_vec(&self) -> Vec<String> {
        self.order.iter().cloned().collect()
    }
}

impl FromIterator<String> for Seen {
    fn from_iter<T: IntoIterator<Item = String>>(ids: T) -> Seen {
        let mut seen = Seen::default();
        for id in ids {
            seen.insert(&id);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Seen};

    #[test]
    fn the_newest_are_remembered_also_when_they_are_carried_on() {
        let mut seen = Seen::default();
        assert!(seen.insert("first"));
        assert!(!seen.insert("first"));
        for n in 1..MOST {
            assert!(seen.insert(&n.to_string()));
        }
        assert!(!seen.insert("first"), "it is the oldest of as many as there may be");
        let mut seen: Seen = seen.to_vec().into_iter().collect();
        assert!(seen.insert("one more"));
        assert!(!seen.insert("1"));
        assert!(seen.insert("first"), "its place was taken");
        assert_eq!(seen.to_vec().len(), MOST);
    }
}
