//! Notices.

use std::collections::BTreeMap;

use steadfast_core::Timestamp;

use super::content::Content;
use crate::Posted;

#[derive(Debug, Default)]
pub(super) struct Notices {
    up: BTreeMap<u64, (Timestamp, Vec<u8>)>,
    last: u64,
}

impl Notices {
    /// Removes those whose time is over.
    pub(super) fn sweep(&mut self, now: Timestamp) -> bool {
        let before = self.up.len();
        self.up.retain(|_, (until, _)| *until > now);
        self.up.len() < before
    }
}

impl Content {
    pub(super) fn post(&mut self, body: Vec<u8>, until: Timestamp, most: usize) -> u64 {
        let notices = &mut self.notices;
        notices.last += 1;
        notices.up.insert(notices.last, (until, body));
        while notices.up.len() > most {
            notices.up.pop_first();
        }
        let last = notices.last;
        self.changed();
        last
    }

    pub(super) fn posted(&self, after: u64, limit: usize) -> Posted {
        let behind = self.notices.up.range(after.saturating_add(1)..).take(limit);
        Posted {
            notices: behind.map(|(number, (_, body))| (*number, body.clone())).collect(),
            last: self.notices.last,
        }
    }
}
