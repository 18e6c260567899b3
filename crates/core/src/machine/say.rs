//! What the code says and asks without waiting: notes, version markers, random numbers.

use super::{Late, Machine, mix};
use crate::{Event, Kind, Note, OpId};

impl Machine {
    /// Something the task says. Numbered, so that a replay says it no second time.
    pub fn note(&mut self, note: Note) {
        if self.inside.is_some() {
            // Inside a step nothing is replayed, so nothing needs a number.
            return self.append_note(None, note);
        }
        let id = self.number(Kind::Note, "");
        if self.recorded.remove(&id).is_some() || self.halt.is_some() {
            return;
        }
        if self.live {
            self.append_note(Some(id), note);
        } else {
            self.late.push(Late::Note(id, note));
        }
    }

    /// Which version of the code named `change` this task follows: `newest` for a task that comes
    /// here first, 0 for one that went past this point before there was a marker.
    pub fn version(&mut self, change: &str, newest: u32) -> u32 {
        if self.refuse_inside(|| format!("version marker {change:?}")) {
            return newest;
        }
        if let Some(version) = self.versions.get(change) {
            return *version;
        }
        let next = OpId(self.next);
        let version = match self.recorded.get(&next).and_then(|rec| rec.version(change)) {
            Some(version) => {
                self.next = self.next.saturating_add(1);
                self.recorded.remove(&next);
                version
            }
            // The history goes on past this point without a marker: it was made by older code.
            None if !self.live && self.last_recorded.is_some_and(|last| last >= next) => 0,
            None => {
                let op = self.number(Kind::Version, change);
                let change = change.to_owned();
                if self.live {
                    self.append(Event::VersionMarked { op, change, version: newest });
                } else {
                    self.late.push(Late::Version(op, change, newest));
                }
                newest
            }
        };
        self.versions.insert(change.to_owned(), version);
        version
    }

    /// 64 bits that are the same in every replay. Takes a number, so that code that draws more or
    /// less than it did is noticed.
    pub fn draw(&mut self) -> u64 {
        if self.inside.is_some() {
            // A step is not replayed, so its draws take no number. They need only be new each time,
            // over restarts as well: hence the clock and the length of the history.
            self.drawn_inside += 1;
            let seed = mix(self.seed, self.appended, self.wall.0.unsigned_abs());
            return mix(seed, self.drawn_inside, 4);
        }
        let salt = self.next;
        self.next = self.next.saturating_add(1);
        mix(self.seed, u64::from(salt), 0)
    }
}
