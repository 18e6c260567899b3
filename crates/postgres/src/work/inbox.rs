//! Messages: those that are there, and those that come and go.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use steadfast_core::OpId;

use super::{Done, Work};
use crate::error::Fault;

/// A message that is there. Its content is of no interest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) seq: i64,
    /// It is for an operation or for a watch.
    pub(super) bound: bool,
}

#[derive(Debug)]
pub(super) struct Letter<'b> {
    pub(super) op: Option<OpId>,
    pub(super) notice: bool,
    pub(super) body: Cow<'b, [u8]>,
}

/// A message that is kept for a task that does not exist yet.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) n: i64,
    pub(super) sender: String,
    pub(super) until: i64,
    pub(super) body: Vec<u8>,
}

/// A message to keep.
#[derive(Debug)]
pub(super) struct ToKeep<'b> {
    pub(super) n: i64,
    pub(super) id: &'b str,
    pub(super) sender: &'b str,
    pub(super) until: i64,
    pub(super) body: &'b [u8],
}

/// Messages that come and go with a batch. What goes was there before the batch: what comes with it
/// and goes again is taken out here.
#[derive(Debug, Default)]
pub(super) struct Mail<'b> {
    /// Of tasks whose messages were loaded.
    pub(super) stored: HashMap<i64, Vec<Stored>>,
    pub(super) added: BTreeMap<(i64, i64), Letter<'b>>,
    /// Up to which number.
    pub(super) consumed: HashMap<i64, i64>,
    pub(super) cleared: HashSet<i64>,
    /// Those for operations and watches.
    pub(super) unbound: HashSet<i64>,
    /// Notices that others take the place of.
    pub(super) replaced: Vec<(i64, &'b [u8])>,
    pub(super) kept: HashMap<String, Vec<Kept>>,
    pub(super) handed_over: Vec<i64>,
    pub(super) to_keep: Vec<ToKeep<'b>>,
}

impl<'b> Mail<'b> {
    pub(super) fn add(
        &mut self,
        key: i64,
        seq: i64,
        op: Option<OpId>,
        notice: bool,
        body: Cow<'b, [u8]>,
    ) {
        self.added.insert((key, seq), Letter { op, notice, body });
    }

    fn retain(&mut self, key: i64, keep: impl Fn(i64, &Letter<'b>) -> bool) {
        let range = self.added.range((key, i64::MIN)..=(key, i64::MAX));
        let gone = range.filter(|((_, seq), letter)| !keep(*seq, letter)).map(|(at, _)| *at);
        for at in gone.collect::<Vec<_>>() {
            self.added.remove(&at);
        }
    }
}

impl<'b> Work<'b> {
    fn got_mail(&self, key: i64) -> bool {
        self.tasks.get(&key).is_some_and(|task| task.letters > 0)
    }

    /// Removes messages up to a number.
    pub(crate) fn consume(&mut self, key: i64, upto: i64) {
        if !self.got_mail(key) {
            return;
        }
        let consumed = self.mail.consumed.entry(key).or_insert(i64::MIN);
        *consumed = upto.max(*consumed);
        self.mail.retain(key, |seq, _| seq > upto);
        if let Some(stored) = self.mail.stored.get_mut(&key) {
            stored.retain(|letter| letter.seq > upto);
        }
        self.changed();
    }

    /// Removes all messages.
    pub(crate) fn clear_inbox(&mut self, key: i64) {
        if self.got_mail(key) {
            self.mail.cleared.insert(key);
            self.mail.retain(key, |_, _| false);
            self.mail.stored.insert(key, Vec::new());
        }
    }

    /// Removes messages that are for an operation or for a watch.
    pub(crate) fn clear_bound(&mut self, key: i64) {
        if self.got_mail(key) {
            self.mail.unbound.insert(key);
            self.mail.retain(key, |_, letter| letter.op.is_none() && !letter.notice);
            if let Some(stored) = self.mail.stored.get_mut(&key) {
                stored.retain(|letter| !letter.bound);
            }
        }
    }

    /// Whether there is no message.
    pub(crate) fn is_inbox_empty(&mut self, key: i64) -> Done<bool> {
        if !self.got_mail(key) {
            return Ok(true);
        }
        if self.mail.added.range((key, i64::MIN)..=(key, i64::MAX)).next().is_some() {
            return Ok(false);
        }
        match self.mail.stored.get(&key) {
            Some(stored) => Ok(stored.is_empty()),
            None => {
                self.missing.inbox.insert(key);
                Err(Fault::Miss)
            }
        }
    }

    /// Takes away a notice of the same content, which another will take the place of.
    pub(crate) fn replace_notice(&mut self, key: i64, body: &'b [u8]) {
        if self.got_mail(key) {
            self.mail.retain(key, |_, letter| !letter.notice || letter.body != body);
            self.mail.replaced.push((key, body));
        }
    }

    /// Keeps a message for a task that does not exist yet. Nobody starts one meanwhile.
    pub(crate) fn keep(
        &mut self,
        id: &'b str,
        sender: &'b str,
        until: i64,
        body: &'b [u8],
    ) -> Done<()> {
        if !self.needs.keeps {
            self.missing.keeps = true;
            return Err(Fault::Miss);
        }
        let n = self.rank();
        self.mail.to_keep.push(ToKeep { n, id, sender, until, body });
        self.changed();
        Ok(())
    }

    /// Takes out the messages that were kept for a task that begins, oldest first.
    pub(crate) fn kept_for(
        &mut self,
        id: &str,
        owner: &str,
        created: i64,
    ) -> Done<Vec<Cow<'b, [u8]>>> {
        if !self.needs.kept.contains(id) {
            self.missing.kept.insert(id.into());
            return Err(Fault::Miss);
        }
        let takes =
            |sender: &str, until: i64| until > created && (sender.is_empty() || sender == owner);
        let mut taken = Vec::new();
        if let Some(kept) = self.mail.kept.get_mut(id) {
            let all = std::mem::take(kept);
            for letter in all {
                match takes(&letter.sender, letter.until) {
                    true => {
                        self.mail.handed_over.push(letter.n);
                        taken.push(Cow::Owned(letter.body));
                    }
                    false => kept.push(letter),
                }
            }
        }
        // Those that were to be kept by this very batch.
        self.mail.to_keep.retain(|letter| {
            let mine = letter.id == id && takes(letter.sender, letter.until);
            if mine {
                taken.push(Cow::Borrowed(letter.body));
            }
            !mine
        });
        Ok(taken)
    }
}
