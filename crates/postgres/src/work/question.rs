//! Open questions.

use std::collections::{BTreeMap, HashMap, HashSet};

use steadfast_core::OpId;

use super::{Done, QUESTIONS, Work};
use crate::error::Fault;

/// A question that is open already.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) key: String,
    pub(super) op: OpId,
}

#[derive(Debug)]
pub(super) struct New<'b> {
    pub(super) key: &'b str,
    pub(super) op: OpId,
    pub(super) body: &'b [u8],
}

/// Questions that are opened and closed with a batch.
#[derive(Debug, Default)]
pub(super) struct Asked<'b> {
    /// Of tasks whose questions were loaded.
    pub(super) stored: HashMap<i64, Vec<Open>>,
    /// By task and order.
    pub(super) added: BTreeMap<(i64, i64), New<'b>>,
    pub(super) closed: Vec<(i64, &'b str)>,
    pub(super) cleared: HashSet<i64>,
}

impl<'b> Work<'b> {
    /// The keys of a task's open questions, each with who asks.
    pub(crate) fn open_questions(&mut self, key: i64) -> Done<Vec<(String, OpId)>> {
        let added = self.asked.added.range((key, i64::MIN)..=(key, i64::MAX));
        let added = added.map(|(_, new)| (new.key.to_owned(), new.op));
        if self.tasks.get(&key).is_none_or(|task| task.traces & QUESTIONS == 0) {
            return Ok(added.collect());
        }
        match self.asked.stored.get(&key) {
            Some(stored) => {
                let stored = stored.iter().map(|open| (open.key.clone(), open.op));
                Ok(stored.chain(added).collect())
            }
            None => {
                self.missing.questions.insert(key);
                Err(Fault::Miss)
            }
        }
    }

    pub(crate) fn open_question(&mut self, key: i64, question: &'b str, op: OpId, body: &'b [u8]) {
        self.close_question(key, question);
        let n = self.rank();
        self.asked.added.insert((key, n), New { key: question, op, body });
        self.leaves(key, QUESTIONS);
        self.asks();
    }

    /// Removes a question, if it is open.
    pub(crate) fn close_question(&mut self, key: i64, question: &'b str) {
        if self.tasks.get(&key).is_none_or(|task| task.traces & QUESTIONS == 0) {
            return;
        }
        let range = self.asked.added.range((key, i64::MIN)..=(key, i64::MAX));
        let found = range.filter(|(_, new)| new.key == question).map(|(at, _)| *at);
        for at in found.collect::<Vec<_>>() {
            self.asked.added.remove(&at);
        }
        if let Some(stored) = self.asked.stored.get_mut(&key) {
            stored.retain(|open| open.key != question);
        }
        self.asked.closed.push((key, question));
        self.asks();
    }

    pub(crate) fn clear_questions(&mut self, key: i64) {
        let range = self.asked.added.range((key, i64::MIN)..=(key, i64::MAX));
        for at in range.map(|(at, _)| *at).collect::<Vec<_>>() {
            self.asked.added.remove(&at);
        }
        self.asked.stored.insert(key, Vec::new());
        self.asked.cleared.insert(key);
        self.asks();
    }
}
